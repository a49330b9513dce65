//! `session_run`.

use rmcp::model::CallToolResult;
use sandbox::{CellRequest, Error, ErrorKind, Languages, Result, SessionRequest, Sessions as _};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Effect, ToolArguments, ToolCall, shorter};
use crate::mcp::execution::ToolReport;

/// The arguments of `session_run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionRunArguments {
    /// Name of the sandbox.
    sandbox: String,
    /// Language of the session.
    #[schemars(extend("enum" = languages()))]
    language: String,
    /// The code of the cell.
    code: String,
    /// Name of the session in the sandbox; the language if it is left out. A new name starts a new
    /// session.
    session: Option<String>,
    /// Standard input of the cell.
    #[serde(default)]
    stdin: String,
    /// Time limit of the cell in seconds, at most the policy's.
    timeout_seconds: Option<f64>,
    /// Start the interpreter again first, without variables.
    #[serde(default)]
    restart: bool,
}

fn languages() -> &'static [&'static str] {
    SessionRequest::LANGUAGES
}

impl ToolArguments for SessionRunArguments {
    const NAME: &'static str = "session_run";
    const DESCRIPTION: &'static str = "Run a cell in an interpreter that keeps its variables \
        between calls, in a sandbox from sandbox_create. Returns stdout, stderr, the value of the \
        last expression, and images inline. A cell that fails is a result, not an error. The \
        result says whether the session is new, and whether its variables were kept or lost.";
    const EFFECT: Effect = Effect::Destroys;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let sandbox = call.store.sandbox(&self.sandbox)?;
        let languages = Languages::new();
        let language = &languages.get(&self.language)?.name;
        let name = self.session.as_deref().unwrap_or(language);
        let allowed = sandbox.plan().timeout;
        let timeout = shorter("timeout_seconds", self.timeout_seconds, allowed)?;
        let slot = call.store.session(&self.sandbox, name)?;
        call.supervised(async {
            let mut is_new = false;
            let start = async || {
                is_new = true;
                sandbox.session(language.as_str().into()).await
            };
            let session = slot.get_or_try_init(start).await?;
            if session.language() != language {
                let why = format!(
                    "the session {name:?} is of {}, not of {language}",
                    session.language()
                );
                return Err(Error::new(ErrorKind::InvalidRequest, "run cell", why)
                    .with_fix("choose another name for a new session"));
            }
            if self.restart && !is_new {
                session.restart().await?;
                is_new = true;
            }
            let mut cell = CellRequest::new(self.code).stdin(self.stdin);
            cell.timeout = timeout;
            let result = session.run(cell).await?;
            let mut report = ToolReport::default();
            report.cell(call.store, &result);
            if is_new {
                let (language, version) = (session.language(), session.version());
                report.line(&format!(
                    "the session {name:?} was new: {language} {version}"
                ));
            }
            for (field, value) in [
                ("name", json!(name)),
                ("language", json!(language)),
                ("new", json!(is_new)),
            ] {
                report.set(field, value);
            }
            Ok(report.into_result())
        })
        .await
    }
}
