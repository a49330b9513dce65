//! The last frame of an execution.

use crate::runtime::process::Wait;

use super::{Execution, ExecutionEnd};
use crate::{
    program::{builtin::ABANDONED, outgoing_frames::OutgoingFrames, poll_set::now},
    protocol::{ExitKind, ExitReport, FrameKind},
};

impl Execution {
    /// Writes the last frame once all output is written. Returns whether the execution is finished.
    pub(in crate::program) fn finish(&mut self, outgoing: &mut OutgoingFrames) -> bool {
        if matches!(self.end, ExecutionEnd::Running | ExecutionEnd::Lost) || self.progress.is_some()
        {
            return false;
        }
        // A builtin's output precedes its failure.
        if !self.outputs_done() {
            return false;
        }
        if let Some(failure) = self
            .progress_bytes
            .get(4..)
            .filter(|bytes| !bytes.is_empty())
        {
            outgoing.message(self.stream, FrameKind::Failed, failure);
            return true;
        }
        let report = self.exit_report();
        outgoing.message(self.stream, FrameKind::Exited, &report.encode());
        true
    }

    fn outputs_done(&mut self) -> bool {
        self.stdout.close_if_ended();
        self.stderr.close_if_ended();
        !self.stdout.is_open() && !self.stderr.is_open()
    }

    fn exit_report(&self) -> ExitReport {
        let mut exit = ExitReport {
            stdout_total: self.stdout.total(),
            stderr_total: self.stderr.total(),
            drain_cut: self.drain_cut,
            memory_kills: self.memory_kills,
            wall_us: now().saturating_sub(self.started_at),
            ..ExitReport::of(ExitKind::Lost)
        };
        match &self.end {
            ExecutionEnd::Known(report) => {
                exit.kind = match (self.killing, report.killed, report.end) {
                    (Some(reason), true, _) => reason,
                    (Some(reason), false, Some(Wait::Exited(ABANDONED))) if self.builtin => reason,
                    (_, _, Some(Wait::Exited(code))) => ExitKind::Exited(code),
                    (_, _, Some(Wait::Signaled(signal))) => ExitKind::Signaled(signal),
                    (_, _, None) => ExitKind::Lost,
                };
                exit.stragglers = report.stragglers;
                exit.survivors = report.survivors;
                exit.cpu_us = report.cpu_us;
                exit.max_rss_kib = report.max_rss_kib;
                exit.disk = report.disk;
                exit.refused_programs = report.refused.programs;
                exit.refused_processes = report.refused.processes;
                if report.end.is_some() {
                    exit.wall_us = report.ended.saturating_sub(self.started_at);
                }
            }
            ExecutionEnd::Swept(swept) => {
                if let Some(reason) = self.killing {
                    exit.kind = reason;
                }
                exit.stragglers = swept.killed;
                exit.survivors = swept.survivors;
            }
            ExecutionEnd::Running | ExecutionEnd::Lost => {}
        }
        exit
    }
}
