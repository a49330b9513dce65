//! The operations that sandbox-core requests of an instance.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_agent::protocol::{Builtin, ExecProgram, FrameKind, LogRequest};
use sandbox_core::audit::Auditor;
use sandbox_core::policy::EgressRules;
use sandbox_core::spi::{
    EgressTraffic, Flow, Input, Instance, OutputSink, OutputStream, PlaceholderSecret, Source,
    TrustedCertificates, unsupported,
};
use sandbox_core::{
    ArtifactLimits, Copied, EnforcementReport, Error, ExecEnd, ExecRequest, Export, FileEntry,
    Forward, ImageInfo, ImageReference, Result, SandboxStats, Synced, WorkspaceCopies,
};

use super::outcome::HostAction;
use super::{AgentInstance, DiscardSink, user};
use crate::carrier::Carrying;
use crate::entries::{self, Entry};
use crate::execution::{Finish, follow};
use crate::failure::failure_error;
use crate::tcp;
use crate::{agent_timeouts, copy, egress, export};

#[async_trait]
impl Instance for AgentInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.sandbox.enforcement
    }

    fn temporary_folder(&self) -> &str {
        self.sandbox
            .env
            .get("TMPDIR")
            .map_or("/tmp", String::as_str)
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        let program = ExecProgram::Command {
            argv: request.argv.clone(),
        };
        let message = self.request(program, Some(request), input.stdin.is_some());
        let start = self.begin(request.timeout).await;
        let stream = self.open(FrameKind::Exec, &message.encode(), request.timeout)?;
        match follow(stream, input, sink).await {
            Finish::Exited {
                report,
                stopped,
                killed,
                stdin_error,
            } => {
                if report.survivors > 0 {
                    self.destroy("processes of an execution could not be killed")
                        .await?;
                }
                let part = HostAction { stopped, killed };
                let mut end = self.end(&start, &report, part).await;
                if let Some(error) = stdin_error {
                    end.incomplete = Some(format!(
                        "standard input could not be read to its end: {error}"
                    ));
                }
                Ok(end)
            }
            Finish::Failed(failure) => Err(failure_error(self.isolator.tier(), &failure)),
            Finish::Lost { reason, stopped } => Ok(self.lost(&start, reason, stopped).await),
        }
    }

    // The connection ends if an execution is overdue: see `crate::watch`.
    fn bounds_executions(&self) -> bool {
        true
    }

    fn check_user(&self, user: (u32, Option<u32>)) -> Result<bool> {
        user::check(user, &self.welcome)
    }

    fn has_terminals(&self) -> bool {
        true
    }

    async fn put(&self, path: &str, mode: u32, content: Source) -> Result<()> {
        let builtin = Builtin::Put {
            path: path.into(),
            mode,
        };
        self.builtin(builtin, Some(content), &mut DiscardSink).await
    }

    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()> {
        self.builtin(Builtin::Get { path: path.into() }, None, sink)
            .await
    }

    async fn stat(&self, path: &str) -> Result<Option<FileEntry>> {
        Ok(entries::entry(self, path).await?.map(Entry::into_file))
    }

    async fn list_dir(&self, path: &str) -> Result<Vec<FileEntry>> {
        entries::folder(self, path).await
    }

    async fn make_dir(&self, path: &str, mode: u32) -> Result<()> {
        let path = path.into();
        let builtin = Builtin::MakeDir { path, mode };
        self.builtin(builtin, None, &mut DiscardSink).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let builtin = Builtin::Remove { path: path.into() };
        self.builtin(builtin, None, &mut DiscardSink).await
    }

    async fn copy_in(&self, source: &Path, target: &str) -> Result<Copied> {
        let copied = copy::copy_in(self, source, target).await;
        copied.map_err(|error| error.on(self.isolator.tier()))
    }

    async fn copy_out(
        &self,
        source: &str,
        target: &Path,
        limits: ArtifactLimits,
    ) -> Result<Copied> {
        let copied = copy::copy_out(self, source, target, limits).await;
        copied.map_err(|error| error.on(self.isolator.tier()))
    }

    async fn export(
        &self,
        paths: &[String],
        folder: &Path,
        limits: ArtifactLimits,
    ) -> Result<Export> {
        export::export(self, paths, folder, limits).await
    }

    fn audit(&self, auditor: Auditor) {
        // The first one stays.
        let _ = self.reports.auditor.set(auditor);
    }

    async fn trusted_certificates(&self) -> Result<Option<TrustedCertificates>> {
        match self.carrier() {
            Some(carrier) => carrier.egress.trusted_certificates().await,
            None => Ok(None),
        }
    }

    async fn add_placeholder(&self, secret: PlaceholderSecret) -> Result<String> {
        match (self.carrier(), &self.remote) {
            (Some(carrier), _) => carrier.egress.add_placeholder(secret),
            (None, Some(remote)) => remote.add_placeholder(secret).await,
            (None, None) => Err(egress::no_level_http(&secret)),
        }
    }

    fn remove_placeholder(&self, text: &str) {
        match (self.carrier(), &self.remote) {
            (Some(carrier), _) => carrier.egress.remove_placeholder(text),
            (None, Some(remote)) => remote.remove_placeholder(text),
            (None, None) => {}
        }
    }

    async fn egress_rules(&self) -> Result<EgressRules> {
        match (self.carrier(), &self.remote) {
            (Some(carrier), _) => Ok(carrier.egress.rules()),
            (None, Some(remote)) => remote.rules().await,
            (None, None) => Err(no_rules("read egress rules")),
        }
    }

    async fn set_egress(&self, rules: EgressRules) -> Result<()> {
        match (self.carrier(), &self.remote) {
            (Some(carrier), _) => carrier.set(rules).await,
            (None, Some(remote)) => remote.set(&rules).await,
            (None, None) => Err(no_rules("change egress rules")),
        }
    }

    async fn carry_egress(&self, rules: Option<EgressRules>) -> Result<()> {
        let _turn = self.becoming_carrier.lock().await;
        if let Some(carrier) = self.carrier() {
            return match rules {
                Some(rules) => carrier.set(rules).await,
                None => Ok(()),
            };
        }
        let (Some(remote), Some(egress)) = (&self.remote, &self.sandbox.egress) else {
            return Err(no_rules("carry connections"));
        };
        let connection = self.connection.shared();
        let (egress, reports) = (Arc::clone(egress), self.reports.clone());
        let carrying = Carrying::client(remote.files(), egress, connection, reports, rules).await?;
        // Nothing else sets it meanwhile.
        let _ = self.carrying.set(carrying);
        Ok(())
    }

    async fn ended(&self) -> Result<String> {
        self.connection.watch_end().await;
        let ended = self.connection.ended();
        Ok(ended.map_or_else(String::new, |ended| ended.reason))
    }

    async fn forward(&self, address: SocketAddr, port: u16) -> Result<Forward> {
        if let Some(ended) = self.connection.ended() {
            return Err(self.ended_error(ended.reason));
        }
        tcp::forward(self.connection.shared(), address, port).await
    }

    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        if let Some(ended) = self.connection.ended() {
            return Err(self.ended_error(ended.reason));
        }
        self.isolator.commit(tag).await
    }

    async fn stats(&self) -> Result<SandboxStats> {
        if let Some(ended) = self.connection.ended() {
            return Err(self.ended_error(ended.reason));
        }
        let mut stats = match self.isolator.stats_inside() {
            [] => self.isolator.stats().await,
            paths => self.stats_inside(paths).await?,
        };
        if let Some(EgressTraffic { sent, received }) = self.carried().await {
            stats.egress_sent = Some(sent);
            stats.egress_received = Some(received);
        }
        Ok(stats)
    }

    async fn logs(&self, tail: Option<u32>) -> Result<Vec<u8>> {
        let mut log = LogText(Vec::new());
        self.read_log(tail, false, &mut log).await?;
        Ok(log.0)
    }

    async fn follow_logs(&self, tail: Option<u32>, sink: &mut dyn OutputSink) -> Result<()> {
        self.read_log(tail, true, sink).await
    }

    async fn sync(&self) -> Result<Option<Synced>> {
        let Some(workspace) = &self.workspace else {
            return Ok(None);
        };
        let synced = workspace.sync(self).await;
        Ok(Some(
            synced.map_err(|error| error.on(self.isolator.tier()))?,
        ))
    }

    fn workspace(&self) -> Option<WorkspaceCopies> {
        self.workspace.as_ref().map(copy::WorkspaceCopy::report)
    }

    async fn stop(&self, grace: Duration) -> Result<()> {
        let synced = self.last_sync().await;
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.connection
            .control(FrameKind::Stop, &grace_ms.to_le_bytes());
        let bound = grace.saturating_add(agent_timeouts::STOP);
        let stopped = tokio::time::timeout(bound, self.connection.watch_end()).await;
        if stopped.is_err() {
            tracing::warn!(
                tier = self.isolator.tier(),
                "the agent did not stop in time and is killed"
            );
        }
        match (synced, self.destroy("the sandbox was stopped").await) {
            (Err(lost), Err(left)) => Err(left.with_source(lost)),
            (synced, destroyed) => destroyed.and(synced),
        }
    }

    async fn kill(&self) -> Result<()> {
        if let Some(workspace) = &self.workspace {
            workspace.end();
        }
        self.destroy("the sandbox was killed").await
    }
}

impl AgentInstance {
    async fn read_log(
        &self,
        tail: Option<u32>,
        follow_on: bool,
        sink: &mut dyn OutputSink,
    ) -> Result<()> {
        let request = LogRequest {
            tail: tail.unwrap_or(u32::MAX),
            follow: follow_on,
        };
        let limit = (!follow_on).then_some(agent_timeouts::LOG);
        let stream = self.open(FrameKind::Logs, &request.encode(), limit)?;
        match follow(stream, None.into(), sink).await {
            Finish::Exited { .. } => Ok(()),
            Finish::Failed(failure) => Err(failure_error(self.isolator.tier(), &failure)),
            Finish::Lost { reason, .. } => Err(self.ended_error(reason)),
        }
    }
}

struct LogText(Vec<u8>);

#[async_trait]
impl OutputSink for LogText {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        self.0.extend_from_slice(bytes);
        // The agent keeps far less, so this peer is not our agent.
        if self.0.len() > 64 * 1024 * 1024 {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }
}

fn no_rules(operation: &'static str) -> Error {
    unsupported(operation, "this sandbox").with_fix("create the sandbox with egress rules")
}
