//! Code in sandboxes of its own.

use std::path::Path;
use std::time::Duration;

use sandbox_core::{Error, ErrorKind, OneShot, SandboxClient, SandboxSpec};
use sandbox_lang::{CodeRequest, Language, OneShotCode, RunCodeOnce as _, Step};

use super::{Check, REFUSED};
use crate::probes::prelude::*;

/// A secret that the policy allows.
const SECRET: &str = "PROBE_SECRET";

/// A setup that exports the suite's folder, and allows a secret.
pub(super) fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let files = format!("{}/*", fixture.export_folder());
    SandboxSetup::with(|policy| {
        policy.artifact_export_paths = vec![files];
        policy.secrets = vec![SECRET.to_owned()];
    })
}

/// Two limits, of which neither is reached, and one that is.
const SHORT: Duration = Duration::from_secs(7);
const LONG: Duration = Duration::from_secs(9);
const REACHED: Duration = Duration::from_secs(1);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?;
    let file = format!(
        "{}/{}-once",
        context.fixture().export_folder(),
        context.token()
    );
    client_feature(context, "run code once", async |client, mut spec| {
        // The request adds it.
        spec.secrets.clear();
        let once = Once {
            client,
            spec,
            output: &output,
        };
        let deviation = once.limits(&file).await?;
        Ok(deviation.or(once.refused().await?))
    })
    .await
}

/// A shell, without an image of its own.
fn shell() -> Language {
    Language::new("shell", "sh", Step::new(["sh"]).args(["{file}"]))
}

/// The same, after a compiler, which fails if the code is no script, and if it sees the secret.
fn checked() -> Language {
    let check = format!("test -z \"${{{SECRET}-}}\" && sh -n \"$0\"");
    shell().compile(Step::new(["sh"]).args(["-c", &check, "{file}"]))
}

struct Once<'a> {
    client: SandboxClient,
    spec: SandboxSpec,
    output: &'a Path,
}

impl Once<'_> {
    async fn code(
        &self,
        language: &Language,
        code: &str,
        limits: [Option<Duration>; 2],
    ) -> sandbox_core::Result<OneShotCode> {
        let deadline = fits_until();
        loop {
            let mut request = CodeRequest::new(language, code).secret(SECRET, "known");
            let mut options = OneShot::new(self.spec.clone()).export_to(self.output);
            [request.timeout, options.timeout] = limits;
            let ended = self.client.run_code(request, options).await;
            if !fits_later(&ended, deadline).await {
                return ended;
            }
        }
    }

    async fn limits(&self, file: &str) -> Deviation {
        for (language, limits) in [
            (shell(), [Some(SHORT), Some(LONG)]),
            (checked(), [Some(LONG), Some(SHORT)]),
        ] {
            let code = format!("echo done ${SECRET}");
            let ended = self.code(&language, &code, limits).await?;
            let is_right = ended.failures.is_empty()
                && ended.code.ran().is_some_and(|ran| {
                    ran.timeout == SHORT && ran.success() && ran.stdout_text() == "done known\n"
                });
            if !is_right {
                return Ok(Some(format!("with {limits:?}: {ended:?}")));
            }
        }
        // What it has made is exported.
        let code = format!(
            "mkdir -p \"${{0%/*}}\" {0}; echo made > {file}; sleep 30",
            folder(file)
        );
        let ended = self.code(&shell(), &code, [None, Some(REACHED)]).await?;
        let outcome = ended.code.ran().map(|ran| &ran.outcome);
        let is_exported = ended.artifacts.iter().any(|made| made.source == file);
        if outcome != Some(&Outcome::TimedOut) || !is_exported || !ended.failures.is_empty() {
            return Ok(Some(format!("beyond {REACHED:?}: {ended:?}")));
        }
        let ended = self.code(&checked(), "if", [None, None]).await?;
        let error = ended.code.check().map_err(|error| error.kind());
        let is_right = error == Err(ErrorKind::CompileFailed) && ended.code.ran().is_none();
        Ok((!is_right).then(|| format!("code that is no script: {ended:?}")))
    }

    /// What is refused before there is a sandbox.
    async fn refused(&self) -> Deviation {
        let options = || OneShot::new(self.spec.clone());
        let refused = CodeRequest::new(shell(), REFUSED).check(Check);
        let exported = options().export_to(self.output);
        let kinds = [
            kind(self.client.run_code(refused, exported).await),
            // The policy's files have no place.
            kind(
                self.client
                    .run_code(CodeRequest::new(shell(), ""), options())
                    .await,
            ),
        ];
        let wanted = [ErrorKind::CodeRefused, ErrorKind::InvalidRequest].map(Some);
        Ok((kinds != wanted).then(|| format!("what is refused: {kinds:?}")))
    }
}

fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("/", |(folder, _)| folder)
}

fn kind(ended: Result<OneShotCode, Error>) -> Option<ErrorKind> {
    ended.err().map(|error| error.kind())
}
