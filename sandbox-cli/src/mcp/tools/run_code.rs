//! `run_code`.

use std::collections::BTreeMap;

use rmcp::model::CallToolResult;
use sandbox::spi::unique_name;
use sandbox::{ByteSize, CodeRequest, Error, ErrorKind, Languages, Result, RunCode as _, Stdin};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, ToolArguments, ToolCall, shorter};
use crate::mcp::execution::ToolReport;

/// The arguments of `run_code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCodeArguments {
    /// Language of the code.
    #[schemars(extend("enum" = languages()))]
    language: String,
    /// The code, as the content of one source file.
    code: String,
    /// A sandbox from sandbox_create. Without it, the code runs in a new one that is removed
    /// afterwards.
    sandbox: Option<String>,
    /// Arguments of the program.
    #[serde(default)]
    args: Vec<String>,
    /// Standard input of the program.
    stdin: Option<String>,
    /// Text files to write first, by path; relative ones are in the working folder.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Libraries to install first. Only in a new sandbox.
    #[serde(default)]
    libraries: Vec<String>,
    /// Destinations that the code may reach, like example.org:443. Only in a new sandbox.
    egress: Option<Vec<String>>,
    /// Memory limit. Only in a new sandbox.
    memory: Option<ByteSize>,
    /// Time limit in seconds, at most the policy's.
    timeout_seconds: Option<f64>,
}

fn languages() -> Vec<String> {
    let languages = Languages::new();
    languages
        .iter()
        .map(|language| language.name.clone())
        .collect()
}

impl ToolArguments for RunCodeArguments {
    const NAME: &'static str = "run_code";
    const DESCRIPTION: &'static str = "Run code, compiled first if need be. Returns the outcome, \
        stdout and stderr; a program that fails is a result, not an error. In a new sandbox, files \
        that the code writes to an exported path (see the resource sandbox://policy) are returned \
        as links, and small images inline.";
    const EFFECT: Effect = Effect::Adds;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        match self.sandbox.clone() {
            Some(name) => self.run_in(call, &name).await,
            None => self.run_once(call).await,
        }
    }
}

impl RunCodeArguments {
    async fn run_in(self, call: &ToolCall<'_>, name: &str) -> Result<CallToolResult> {
        if !self.libraries.is_empty() || self.egress.is_some() || self.memory.is_some() {
            let why = "libraries, egress and memory of a sandbox are decided when it is created";
            return Err(Error::new(ErrorKind::InvalidRequest, "run code", why)
                .with_fix("pass them to sandbox_create, or leave out sandbox"));
        }
        let sandbox = call.store.sandbox(name)?;
        let request = self.request(sandbox.plan().timeout)?;
        let code = call.supervised(sandbox.run_code(request)).await?;
        let mut report = ToolReport::default();
        report.code(call.store, &code);
        Ok(report.into_result())
    }

    async fn run_once(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let shared = call.shared;
        let request = self.request(shared.plan.timeout)?;
        let mut spec = shared.template.clone();
        spec.name = unique_name("code");
        spec.memory = self.memory.or(spec.memory);
        spec.egress = self.egress.or(spec.egress);
        request.complete_spec(&shared.client, &mut spec)?;
        call.check(&spec)?;
        call.supervised(async {
            let sandbox = shared.client.create(&spec).await?;
            let code = sandbox.run_code(request).await?;
            let mut report = ToolReport::default();
            report.code(call.store, &code);
            let export = report.export(call.store, &sandbox).await.map(drop);
            // Errors after the end of the code leave its result as it is.
            for result in [export, sandbox.sync().await.map(drop), sandbox.kill().await] {
                if let Err(error) = result {
                    report.line(&error.to_string());
                }
            }
            Ok(report.into_result())
        })
        .await
    }

    fn request(&self, allowed: std::time::Duration) -> Result<CodeRequest> {
        let mut request = CodeRequest::new(self.language.as_str(), self.code.as_str());
        request.timeout = shorter("timeout_seconds", self.timeout_seconds, allowed)?;
        request.libraries.clone_from(&self.libraries);
        for (path, text) in &self.files {
            request = request.file(path, text.as_str());
        }
        if let Some(text) = &self.stdin {
            request = request.stdin(Stdin::from_bytes(text.clone()));
        }
        Ok(request.args(&self.args))
    }
}
