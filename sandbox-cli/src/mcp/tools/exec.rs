//! `sandbox_exec`.

use rmcp::model::CallToolResult;
use sandbox::{ExecRequest, Result, Stdin};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, ToolArguments, ToolCall, shorter};
use crate::mcp::execution::ToolReport;

/// The arguments of `sandbox_exec`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecArguments {
    /// Name of the sandbox.
    sandbox: String,
    /// A command line for the sandbox's /bin/sh.
    command: String,
    /// Standard input of the command.
    stdin: Option<String>,
    /// Working folder; a relative one starts in the sandbox's.
    workdir: Option<String>,
    /// Time limit in seconds, at most the policy's.
    timeout_seconds: Option<f64>,
}

impl ToolArguments for ExecArguments {
    const NAME: &'static str = "sandbox_exec";
    const DESCRIPTION: &'static str = "Run a shell command in a sandbox from sandbox_create. \
        Processes that it leaves behind are ended. A command that fails is a result, not an error.";
    const EFFECT: Effect = Effect::Destroys;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let sandbox = call.store.sandbox(&self.sandbox)?;
        let mut request = ExecRequest::shell(&self.command);
        request.workdir = self.workdir;
        let allowed = sandbox.plan().timeout;
        request.timeout = shorter("timeout_seconds", self.timeout_seconds, allowed)?;
        let stdin = self.stdin.map_or(Stdin::Null, Stdin::from_bytes);
        let execution = sandbox.exec_with(&request, stdin, |_, _| {});
        let result = call.supervised(execution).await?;
        let mut report = ToolReport::default();
        report.execution(call.store, &result);
        Ok(report.into_result())
    }
}
