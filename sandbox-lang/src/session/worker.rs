//! The task of a session: it owns the interpreter, runs cells in turn, and starts it again.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandbox_core::spi::{ExecutionStarter, escape};
use sandbox_core::{Error, ErrorKind, ExecRequest, Outcome, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::cell::{self, CellLimits, End};
use super::channel::Form;
use super::interpreter::{Heard, Interpreter};
use super::message::Variables;
use super::result::{CellOutcome, Lost, SessionState};
use super::{CellEvent, CellRequest};

/// What a session is asked for.
pub(super) enum Command {
    Run {
        request: CellRequest,
        notes: mpsc::Sender<Note>,
    },
    /// Whether the interpreter runs.
    Check(oneshot::Sender<bool>),
    Restart(oneshot::Sender<Result<()>>),
    Branch(oneshot::Sender<Result<(Worker, String)>>),
    Close(oneshot::Sender<()>),
}

/// What happens to a cell, for its caller.
pub(super) enum Note {
    Event(CellEvent),
    End(Result<Box<Ended>>),
}

/// The end of a cell.
pub(super) struct Ended {
    pub(super) cell: u64,
    pub(super) outcome: CellOutcome,
    pub(super) session: SessionState,
    pub(super) lost_before: Option<Lost>,
    pub(super) displays_omitted: u64,
    /// How much was written, if the interpreter said so.
    pub(super) written: [u64; 2],
    pub(super) duration: Duration,
}

/// What does not change in a session.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) starter: ExecutionStarter,
    pub(super) command: ExecRequest,
    pub(super) form: Form,
    /// How long an interpreter may run.
    pub(super) lifetime: Duration,
    pub(super) idle_timeout: Option<Duration>,
    /// When the session ends.
    pub(super) end: Option<Instant>,
    pub(super) limits: CellLimits,
}

pub(super) struct Worker {
    pub(super) settings: Settings,
    pub(super) interpreter: Option<Interpreter>,
    /// Why it could not be started again.
    pub(super) failed: Option<Error>,
    pub(super) cell: u64,
    /// The variables at the end of the last cell.
    pub(super) variables: Variables,
    /// What was lost since the last result.
    pub(super) lost: Option<Lost>,
}

impl Worker {
    /// Starts the interpreter. Also returns its version.
    pub(super) async fn start(settings: Settings) -> Result<(Self, String)> {
        let (interpreter, version) = settings.start().await?;
        let worker = Self {
            settings,
            interpreter: Some(interpreter),
            failed: None,
            cell: 0,
            variables: Variables::default(),
            lost: None,
        };
        Ok((worker, version))
    }

    /// Works until the session is closed or reaches a time limit. `why` then says which.
    pub(super) async fn work(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        why: Arc<OnceLock<String>>,
    ) {
        let mut idle_since = Instant::now();
        loop {
            let (deadline, limit) = self.settings.deadline(idle_since);
            let command = tokio::select! {
                biased;
                () = sleep_until(deadline) => {
                    // Nothing else sets it: the task ends here.
                    let _ = why.set(limit);
                    return;
                }
                command = commands.recv() => command,
                heard = hear(&mut self.interpreter), if self.interpreter.is_some() => {
                    self.idle(heard);
                    continue;
                }
            };
            match command {
                None => return,
                // Its caller has left, and the cell has not begun.
                Some(Command::Run { notes, .. }) if notes.is_closed() => {}
                Some(Command::Run { request, notes }) => {
                    let end = self.run(&request, &notes).await;
                    // The caller may have dropped its future.
                    let _ = notes.send(Note::End(end)).await;
                    drop(notes);
                    self.start_again().await;
                }
                Some(Command::Check(answer)) => {
                    // What has come, and nothing that comes later.
                    let heard = tokio::time::timeout(Duration::ZERO, hear(&mut self.interpreter));
                    if let Ok(heard) = heard.await {
                        self.idle(heard);
                    }
                    // The caller may have dropped its future.
                    let _ = answer.send(self.interpreter.is_some());
                }
                Some(Command::Restart(answer)) => {
                    self.variables = Variables::default();
                    self.interpreter = None;
                    self.start_again().await;
                    let started = self.failed.take().map_or(Ok(()), Err);
                    // The caller may have dropped its future.
                    let _ = answer.send(started);
                }
                Some(Command::Branch(answer)) => {
                    let branch = self.branch().await;
                    // The caller may have dropped its future.
                    let _ = answer.send(branch);
                }
                Some(Command::Close(answer)) => {
                    if let Some(interpreter) = self.interpreter.take() {
                        interpreter.end().await;
                    }
                    let _ = why.set("it was closed".to_owned());
                    let _ = answer.send(());
                    return;
                }
            }
            idle_since = Instant::now();
        }
    }

    /// Something came while no cell ran.
    fn idle(&mut self, heard: Result<Heard>) {
        let reason = match heard {
            Ok(Heard::Ended(outcome)) => format!("the interpreter ended between cells: {outcome}"),
            Ok(Heard::Item(_)) => "the interpreter sent a message while no cell ran".to_owned(),
            Ok(Heard::Wrong(wrong)) => format!("the interpreter sent {wrong} while no cell ran"),
            Err(error) => error.to_string(),
        };
        self.interpreter = None;
        let lost = self.lose(reason);
        self.lost = Some(lost);
    }

    pub(super) fn lose(&mut self, reason: String) -> Lost {
        let variables = std::mem::take(&mut self.variables);
        Lost {
            reason,
            variables: variables.total,
            names: variables.names,
        }
    }

    /// Starts the interpreter if there is none. The next cell reports a failure.
    pub(super) async fn start_again(&mut self) {
        if self.interpreter.is_none() {
            match self.settings.start().await {
                Ok((interpreter, _)) => {
                    self.interpreter = Some(interpreter);
                    self.failed = None;
                }
                Err(error) => self.failed = Some(error),
            }
        }
    }

    async fn run(
        &mut self,
        request: &CellRequest,
        notes: &mpsc::Sender<Note>,
    ) -> Result<Box<Ended>> {
        if self.interpreter.is_none() {
            self.start_again().await;
        }
        let Some(interpreter) = &mut self.interpreter else {
            let failed = self.failed.take();
            return Err(failed.expect("an interpreter that was not started left its error"));
        };
        self.cell += 1;
        let start = Instant::now();
        let limits = self.settings.limits_of(request, start);
        let end = cell::run(interpreter, self.cell, request, limits, notes).await;
        let end = match end {
            Ok(end) => end,
            Err(error) => {
                self.interpreter = None;
                let lost = self.lose(error.to_string());
                self.lost = Some(lost);
                return Err(error);
            }
        };
        let mut ended = Ended {
            cell: self.cell,
            outcome: CellOutcome::Completed,
            session: SessionState::Kept,
            lost_before: self.lost.take(),
            displays_omitted: 0,
            written: [0; 2],
            duration: start.elapsed(),
        };
        let reason = match end {
            End::Done { done, was_late } => {
                ended.written = [done.stdout, done.stderr];
                ended.displays_omitted = done.displays_omitted;
                self.variables = done
                    .variables
                    .unwrap_or(std::mem::take(&mut self.variables));
                let error = done.error.map(Into::into);
                ended.outcome = match (error, done.died, done.status) {
                    (error, _, _) if was_late => CellOutcome::TimedOut { error },
                    (Some(error), _, _) => CellOutcome::Raised(error),
                    (None, Some(died), _) => CellOutcome::Died {
                        outcome: died.outcome(),
                        details: died.details,
                    },
                    (None, None, Some(status)) if status != 0 => CellOutcome::Failed { status },
                    (None, None, _) => CellOutcome::Completed,
                };
                None
            }
            End::Endless => {
                ended.outcome = CellOutcome::TimedOut { error: None };
                Some("the cell went on after it was interrupted".to_owned())
            }
            End::Died {
                outcome,
                details,
                was_late,
            } => {
                let reason = format!("the interpreter ended: {outcome}");
                ended.outcome = match outcome {
                    // Some do not survive an interrupt; the other limit is the session's own.
                    outcome if was_late || outcome == Outcome::TimedOut => {
                        CellOutcome::TimedOut { error: None }
                    }
                    outcome => CellOutcome::Died { outcome, details },
                };
                Some(reason)
            }
            End::Refused(threads) => {
                self.lost = ended.lost_before;
                return Err(refused(&threads));
            }
            End::Broken(wrong) => {
                let reason = format!("the interpreter sent {wrong}");
                ended.outcome = CellOutcome::Broken { reason: wrong };
                Some(reason)
            }
        };
        if let Some(reason) = reason {
            self.interpreter = None;
            let lost = self.lose(reason);
            if notes.is_closed() {
                // The next cell's caller is told.
                self.lost = Some(lost.clone());
            }
            ended.session = SessionState::Restarted(lost);
        }
        Ok(Box::new(ended))
    }
}

impl Settings {
    async fn start(&self) -> Result<(Interpreter, String)> {
        Interpreter::start(&self.starter, self.lifetime, &self.command, &self.form).await
    }

    /// When the session ends if no cell comes, and what its users are told then.
    fn deadline(&self, idle_since: Instant) -> (Option<Instant>, String) {
        let idle = self.idle_timeout.map(|timeout| idle_since + timeout);
        match (idle, self.end) {
            (Some(idle), end) if end.is_none_or(|end| idle <= end) => {
                let timeout = self.idle_timeout.unwrap_or_default();
                (
                    Some(idle),
                    format!("no cell came for {timeout:?}, its idle_timeout"),
                )
            }
            (_, end) => (end, "it reached its session_timeout".to_owned()),
        }
    }

    fn limits_of(&self, request: &CellRequest, now: Instant) -> CellLimits {
        let mut limits = self.limits;
        let left = self.end.map(|end| end.saturating_duration_since(now));
        for other in request.timeout.into_iter().chain(left) {
            limits.time = limits.time.min(other);
        }
        limits
    }
}

fn refused(threads: &[String]) -> Error {
    let threads = escape(&threads.join(", "));
    let context = format!("the interpreter cannot be copied: it has other threads: {threads}");
    Error::new(ErrorKind::InvalidRequest, "run cell", context)
        .with_fix("end the threads, or run the cell in the interpreter itself")
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn hear(interpreter: &mut Option<Interpreter>) -> Result<Heard> {
    match interpreter {
        Some(interpreter) => interpreter.output.hear(&mut interpreter.execution).await,
        None => std::future::pending().await,
    }
}
