//! `why`.

use rmcp::model::CallToolResult;
use sandbox::Result;
use sandbox_host::explain;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Effect, ToolArguments, ToolCall};
use crate::mcp::content;

/// The arguments of `why`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhyArguments {
    /// A path of the host (with a /), or a host with or without a port.
    subject: String,
}

impl ToolArguments for WhyArguments {
    const NAME: &'static str = "why";
    const DESCRIPTION: &'static str = "Tell whether the policy lets code reach a path of the host \
        or a network destination, and which rule decides.";
    const EFFECT: Effect = Effect::Reads;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let decisions = explain(&call.shared.ceiling, &self.subject)?;
        let lines = decisions.iter().map(ToString::to_string);
        let text = lines.collect::<Vec<_>>().join("\n");
        let structured = json!({ "decisions": decisions });
        Ok(content::result(text, structured, Vec::new()))
    }
}
