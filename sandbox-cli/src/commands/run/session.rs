//! A run from the sandbox's creation to its end.

use std::convert::Infallible;
use std::time::Duration;

use sandbox::spi::OutputSink;
use sandbox::{
    ArtifactLimits, ErrorKind, ExecRequest, ExecResult, Export, SandboxClient, SandboxHandle,
    SkippedArtifact,
};

use super::RunArguments;
use super::document::Document;
use super::live::{Live, Written};
use super::output_folder::{DEFAULT_EXPORT, OutputFolder};
use super::program::{Copied, Program};
use super::signals::Signals;
use super::stdin::{Stdin, hint_at_stdin};
use super::summary::{Summary, skip_reason};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::options::Request;
use crate::output::{Format, print_json};
use crate::progress::Progress;
use crate::say;

/// How long an interrupted command waits for its sandbox to be gone.
const INTERRUPTED_GRACE: Duration = Duration::from_secs(5);

/// How long a person waits without a word.
const LONG: Duration = Duration::from_secs(1);

/// One run, with everything that could be checked beforehand checked.
pub struct Run<'a> {
    /// The command line.
    pub arguments: &'a RunArguments,
    /// The policy and the specification.
    pub request: Request,
    /// What is run.
    pub program: Program,
    /// Where artifacts go, where there may be any.
    pub output: Option<OutputFolder>,
    /// Whether nobody named the artifacts.
    pub has_default_artifacts: bool,
    /// The tier's backend.
    pub backend: &'static str,
    /// Whether the tier applies the policy.
    pub is_isolated: bool,
}

/// What came of an execution.
struct Ended {
    result: ExecResult,
    live: Option<Written>,
    export: Result<Export, Failure>,
}

impl Run<'_> {
    /// Runs it, tells what came of it, and with which code to end.
    pub async fn in_sandbox(&self, client: &SandboxClient) -> Outcome {
        let mut signals = Signals::listen()?;
        let sandbox = tokio::select! {
            sandbox = self.sandbox(client) => sandbox?,
            never = self.say_what_takes_long() => match never {},
            signal = signals.next() => return Err(Failure::interrupted(signal)),
        };
        let ended = tokio::select! {
            ended = self.work(&sandbox) => ended,
            signal = signals.next() => {
                let end = async {
                    self.clean_up(&sandbox).await;
                    let synced = synced(&sandbox).await;
                    sandbox.kill().await.and(synced)
                };
                match tokio::time::timeout(INTERRUPTED_GRACE, end).await {
                    Ok(done) => warn_of(done.err()),
                    // The handle kills on drop too: what this could not end in time, that will.
                    Err(_) => say(format_args!(
                        "warning: no end after {INTERRUPTED_GRACE:?}; a workspace may not be brought back"
                    )),
                }
                return Err(Failure::interrupted(signal));
            }
        };
        self.clean_up(&sandbox).await;
        let committed = match (&self.arguments.commit, &ended) {
            (Some(image), Ok(_)) => sandbox.commit(image).await.map(drop),
            _ => Ok(()),
        };
        let synced = synced(&sandbox).await;
        let killed = sandbox.kill().await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(failure) => {
                warn_of(synced.err().into_iter().chain(killed.err()));
                return Err(failure);
            }
        };
        let exit = self.tell(&sandbox, ended)?;
        committed?;
        synced?;
        killed?;
        Ok(exit)
    }

    /// A sandbox of its own, or the container that was named.
    async fn sandbox(&self, client: &SandboxClient) -> sandbox::Result<SandboxHandle> {
        let spec = &self.request.spec;
        if let Some(container) = &self.arguments.adopt {
            return client.adopt(container, spec).await;
        }
        let mut progress = Progress::new(self.arguments.quiet, self.arguments.format.format);
        let take = &mut |event: &_| progress.take(event);
        client.create_with_progress(spec, take).await
    }

    /// Packages that are not kept yet have to come from their registry: a person who waits should know.
    async fn say_what_takes_long(&self) -> Infallible {
        let packages = &self.request.policy.packages;
        if !packages.is_empty()
            && !self.arguments.quiet
            && self.arguments.format.format == Format::Text
        {
            tokio::time::sleep(LONG).await;
            say(format_args!("installing {}", packages.join(", ")));
        }
        std::future::pending().await
    }

    async fn work(&self, sandbox: &SandboxHandle) -> Result<Ended, Failure> {
        let folder = self.folder(sandbox);
        if let Some(Copied { name, content }) = self.program.copied() {
            let content = Box::new(std::io::Cursor::new(content.clone()));
            sandbox
                .put(&format!("{folder}/{name}"), 0o755, content)
                .await?;
        }
        let mut live = match self.arguments.format.format {
            Format::Text => Some(Live::new(
                sandbox.plan().stdout_max,
                sandbox.plan().stderr_max,
            )),
            Format::Json => None,
        };
        let result = self.execute(sandbox, &folder, live.as_mut()).await;
        // Also where the execution failed: what it wrote until then is shown before the error.
        let live = match live {
            Some(live) => Some(live.finish().await?),
            None => None,
        };
        let result = result?;
        let export = match &self.output {
            Some(output) => sandbox
                .export(output.path(), ArtifactLimits::default())
                .await
                .map_err(Failure::from),
            None => Ok(Export::default()),
        };
        Ok(Ended {
            result,
            live,
            export,
        })
    }

    /// The folder inside of the sandbox where a file is put that it does not see: one of its own, so that nothing beside it
    /// is imported by accident. Without isolation the temporary folder is everybody's: nobody else may know the name.
    fn folder(&self, sandbox: &SandboxHandle) -> String {
        let name = if self.is_isolated {
            "sandbox-run"
        } else {
            sandbox.name()
        };
        format!("{}/{name}", sandbox.temporary_folder())
    }

    /// Runs the program, or where there is none of its name, the first of its alternatives that is there.
    async fn execute(
        &self,
        sandbox: &SandboxHandle,
        folder: &str,
        mut live: Option<&mut Live>,
    ) -> sandbox::Result<ExecResult> {
        let stdin = Stdin::choose(self.arguments.interactive);
        if !stdin.is_passed() && !self.arguments.no_stdin && !self.arguments.quiet {
            hint_at_stdin();
        }
        let is_missing = |error: &sandbox::Error| error.kind() == ErrorKind::ProgramNotFound;
        let (command, alternatives) = self.program.commands(folder);
        let sink = live.as_deref_mut().map(|live| live as &mut dyn OutputSink);
        let result = sandbox.exec_with(&command, stdin.open(), sink).await;
        if !result.as_ref().is_err_and(is_missing) {
            return result;
        }
        for alternative in &alternatives {
            let sink = live.as_deref_mut().map(|live| live as &mut dyn OutputSink);
            let other = sandbox.exec_with(alternative, stdin.open(), sink).await;
            if !other.as_ref().is_err_and(is_missing) {
                return other;
            }
        }
        result
    }

    /// Without isolation a copied file is left on the host, and nobody else removes it.
    async fn clean_up(&self, sandbox: &SandboxHandle) {
        if self.is_isolated || self.program.copied().is_none() {
            return;
        }
        let folder = self.folder(sandbox);
        let removed = sandbox
            .exec(&ExecRequest::new("rm").args(["-rf", "--", &folder]))
            .await;
        match removed {
            Ok(result) if result.ok() => {}
            Ok(result) => say(format_args!(
                "warning: {folder} is left behind: rm {}",
                result.outcome
            )),
            Err(error) => say(format_args!("warning: {folder} is left behind: {error}")),
        }
    }

    /// Tells what came of it, and with which code to end.
    fn tell(&self, sandbox: &SandboxHandle, ended: Ended) -> Outcome {
        let Ended {
            result,
            live,
            export,
        } = ended;
        let mut exit = Exit::of_outcome(&result.outcome);
        let (mut export, lost) = match export {
            Ok(export) => (export, None),
            Err(lost) => (Export::default(), Some(lost)),
        };
        if self.has_default_artifacts {
            export
                .skipped
                .retain(|skipped| skipped.source != DEFAULT_EXPORT);
        }
        if lost.is_some() && result.ok() {
            exit = Exit::FAILED;
        }
        match live {
            None => {
                let document =
                    Document::new(self.backend, sandbox, &result, &export, lost.as_ref(), exit);
                print_json(&document)?;
            }
            Some(live) => {
                if live.is_broken {
                    exit = Exit::BROKEN_PIPE;
                }
                let summary = Summary {
                    sandbox,
                    result: &result,
                    export: &export,
                    lost: lost.as_ref(),
                    live: &live,
                };
                summary.print(self.arguments.quiet);
            }
        }
        Ok(exit)
    }
}

/// Brings back what was changed in a workspace that the sandbox has as a copy, and says what stays behind.
async fn synced(sandbox: &SandboxHandle) -> sandbox::Result<()> {
    if let Some(copies) = sandbox.workspace() {
        say_skipped("not in the sandbox's workspace", &copies.brought.skipped);
    }
    let Some(synced) = sandbox.sync().await? else {
        return Ok(());
    };
    say_skipped("not brought back", &synced.copied.skipped);
    for conflict in &synced.conflicts {
        say(format_args!(
            "warning: workspace: {conflict}; the host's stays"
        ));
    }
    if synced.more_conflicts > 0 {
        say(format_args!(
            "warning: workspace: {} more like that",
            synced.more_conflicts
        ));
    }
    let removed = synced.removed.len() as u64 + synced.more_removed;
    if removed > 0 {
        say(format_args!(
            "note: workspace: {removed} files were removed in the sandbox and stay on the host"
        ));
    }
    Ok(())
}

/// Says what went wrong beside a failure that is told.
fn warn_of(errors: impl IntoIterator<Item = sandbox::Error>) {
    for error in errors {
        say(sandbox::escape(&format!("warning: {error}")));
    }
}

fn say_skipped(what: &str, skipped: &[SkippedArtifact]) {
    for SkippedArtifact { source, reason } in skipped {
        let source = sandbox::escape(source);
        let reason = skip_reason(reason);
        say(format_args!(
            "warning: workspace: {source}: {what}: {reason}"
        ));
    }
}
