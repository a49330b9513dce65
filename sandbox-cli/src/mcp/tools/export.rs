//! `export`.

use rmcp::model::CallToolResult;
use sandbox::{Error, ErrorKind, Result};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, ToolArguments, ToolCall};
use crate::mcp::execution::ToolReport;

/// The arguments of `export`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportArguments {
    /// Name of the sandbox.
    sandbox: String,
}

impl ToolArguments for ExportArguments {
    const NAME: &'static str = "export";
    const DESCRIPTION: &'static str = "Return the files of a sandbox that the policy's \
        artifact_export_paths name: links that stay readable after the sandbox ends, and small \
        images inline. At most 64 files of 16 MiB, 64 MiB together.";
    const EFFECT: Effect = Effect::Reads;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let sandbox = call.store.sandbox(&self.sandbox)?;
        if sandbox.plan().export_paths.is_empty() {
            let why = "the policy exports nothing";
            return Err(
                Error::new(ErrorKind::PolicyExceeded, "export artifacts", why).with_fix(
                    "read files with file_read, or ask the operator for artifact_export_paths",
                ),
            );
        }
        let mut report = ToolReport::default();
        let exporting = report.export(call.store, &sandbox);
        if call.supervised(exporting).await? == 0 {
            let paths = sandbox.plan().export_paths.join(", ");
            report.line(&format!("no file matches {paths}"));
        }
        Ok(report.into_result())
    }
}
