//! `remove`.

use rmcp::model::CallToolResult;
use sandbox::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Effect, ToolArguments, ToolCall};
use crate::mcp::content;

/// The arguments of `remove`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveArguments {
    /// Name of the sandbox.
    sandbox: String,
}

impl ToolArguments for RemoveArguments {
    const NAME: &'static str = "remove";
    const DESCRIPTION: &'static str =
        "End a sandbox with all its processes and files. Exported artifacts stay readable.";
    const EFFECT: Effect = Effect::Destroys;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let sandbox = call.store.take(&self.sandbox)?;
        call.supervised(sandbox.kill()).await?;
        let text = format!("removed {}", self.sandbox);
        let structured = json!({ "removed": self.sandbox });
        Ok(content::result(text, structured, Vec::new()))
    }
}
