//! `sandbox run`: one execution in a sandbox of its own.

mod document;
mod enforcement_line;
mod language;
mod live;
mod output_folder;
mod program;
mod signals;
mod stdin;
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sandbox::spi::OutputSink;
use sandbox::{
    ArtifactLimits, ErrorKind, ExecRequest, ExecResult, Export, SandboxClient, SandboxHandle,
    registry,
};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::options::{PolicyOptions, Request};
use crate::output::{Format, print_json};
use crate::say;
use document::Document;
use language::Language;
use live::Live;
use output_folder::OutputFolder;
use program::{Copied, Program};
use signals::Signals;
use stdin::Stdin;
use summary::Summary;

/// How long an interrupted command waits for its sandbox to be gone.
const INTERRUPTED_GRACE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  sandbox run analysis.py --read data --artifact /output/summary.json
  sandbox run -c 'print(6 * 7)' --memory 64MiB --timeout 5s
  sandbox run --workspace . -- make test

Exit codes: that of the program; 124 timed out; 125 refused, not set up or a bad command line;
126 cannot execute; 127 not found; 137 out of memory or far too much output; 128+n ended by signal n.
Standard output is the program's alone; what was enforced and which artifacts came out is written
to standard error.";

/// The options of `run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "\
sandbox run [OPTIONS] FILE [-- ARG...]\n       \
sandbox run [OPTIONS] -c CODE [-- ARG...]\n       \
sandbox run [OPTIONS] -- COMMAND [ARG...]")]
pub struct RunArguments {
    /// Program on the host: .py, .js, .sh, or anything with a #! line. Run in place where the sandbox sees it,
    /// else copied in
    #[arg(conflicts_with = "code")]
    file: Option<PathBuf>,

    /// Code to run, Python unless --language says otherwise
    #[arg(short, long, value_name = "CODE")]
    code: Option<OsString>,

    /// Language of FILE or CODE
    #[arg(short, long, value_enum)]
    language: Option<Language>,

    /// Command inside of the sandbox; after FILE or CODE, their arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Folder of the host for artifacts; a name that is taken gets a number. Without --artifact, what the code
    /// wrote to /output [default: artifacts]
    #[arg(long, value_name = "DIR", help_heading = "Artifacts")]
    out: Option<PathBuf>,

    /// Pass standard input on although it is a terminal
    #[arg(short, long, conflicts_with = "no_stdin")]
    interactive: bool,

    /// Pass no standard input on; otherwise it is passed on unless it is a terminal
    #[arg(short, long)]
    no_stdin: bool,

    /// Say nothing but warnings and errors
    #[arg(short, long)]
    quiet: bool,

    /// How the result is written; json holds everything back until the end
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub format: Format,

    #[command(flatten)]
    policy: PolicyOptions,
}

/// Runs the subcommand.
pub fn run(arguments: &RunArguments) -> Outcome {
    let tier = registry::tier(&arguments.policy.backend)?;
    let mut request = arguments.policy.resolve()?;
    let has_default_artifacts = arguments.out.is_some() && request.exports_are_open;
    if has_default_artifacts {
        request.policy.artifact_export_paths = vec![output_folder::DEFAULT_EXPORT.to_owned()];
    }
    let program = arguments.program(&request)?;
    let output = match request.policy.artifact_export_paths.is_empty() {
        true => None,
        false => Some(OutputFolder::prepare(arguments.out.as_deref())?),
    };
    let client = SandboxClient::open(tier.tier, request.policy.clone())?;
    if !tier.applies_policy {
        say(format_args!(
            "warning: {} applies no policy: nothing is enforced",
            tier.tier
        ));
    }
    let run = Run {
        arguments,
        request,
        program,
        output,
        has_default_artifacts,
        backend: tier.backend,
        is_isolated: tier.applies_policy,
    };
    let runtime = super::runtime()?;
    let outcome = runtime.block_on(run.in_sandbox(&client));
    // A thread may wait for standard input for ever.
    runtime.shutdown_background();
    outcome
}

impl RunArguments {
    fn program(&self, request: &Request) -> Result<Program, Failure> {
        match (&self.file, &self.code) {
            (Some(file), _) => {
                Program::of_file(file, self.language, &self.command, &request.mounts)
            }
            (None, Some(code)) => Ok(Program::of_code(
                code,
                self.language.unwrap_or_default(),
                &self.command,
            )),
            (None, None) if self.language.is_some() => Err(Failure::argument(
                "--language goes with FILE or -c CODE, not with a command",
            )),
            (None, None) => Program::of_command(&self.command),
        }
    }
}

/// One run, with everything that could be checked beforehand checked.
struct Run<'a> {
    arguments: &'a RunArguments,
    request: Request,
    program: Program,
    output: Option<OutputFolder>,
    has_default_artifacts: bool,
    backend: &'static str,
    /// Whether the tier applies the policy.
    is_isolated: bool,
}

/// What came of an execution.
struct Ended {
    result: ExecResult,
    live: Option<live::Written>,
    export: Result<Export, Failure>,
}

impl Run<'_> {
    async fn in_sandbox(&self, client: &SandboxClient) -> Outcome {
        let mut signals = Signals::listen()?;
        let sandbox = tokio::select! {
            sandbox = client.create(&self.request.spec) => sandbox?,
            signal = signals.next() => return Err(Failure::interrupted(signal)),
        };
        let ended = tokio::select! {
            ended = self.work(&sandbox) => ended,
            signal = signals.next() => {
                let end = async {
                    self.clean_up(&sandbox).await;
                    sandbox.kill().await
                };
                // The handle kills on drop too: what this could not end in time, that will.
                let _ = tokio::time::timeout(INTERRUPTED_GRACE, end).await;
                return Err(Failure::interrupted(signal));
            }
        };
        self.clean_up(&sandbox).await;
        let killed = sandbox.kill().await;
        let exit = self.tell(&sandbox, ended?)?;
        killed?;
        Ok(exit)
    }

    async fn work(&self, sandbox: &SandboxHandle) -> Result<Ended, Failure> {
        let folder = self.folder(sandbox);
        if let Some(Copied { name, content }) = self.program.copied() {
            let content = Box::new(std::io::Cursor::new(content.clone()));
            sandbox
                .put(&format!("{folder}/{name}"), 0o755, content)
                .await?;
        }
        let mut live = match self.arguments.format {
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
        let stdin = Stdin::choose(self.arguments.interactive, self.arguments.no_stdin);
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
                .retain(|skipped| skipped.source != output_folder::DEFAULT_EXPORT);
        }
        if lost.is_some() && result.ok() {
            exit = Exit::FAILED;
        }
        match self.arguments.format {
            Format::Json => {
                let document =
                    Document::new(self.backend, sandbox, &result, &export, lost.as_ref(), exit);
                print_json(&document)?;
            }
            Format::Text => {
                let live = live.unwrap_or_default();
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

#[cfg(test)]
mod tests;
