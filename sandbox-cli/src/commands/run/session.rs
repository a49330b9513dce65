//! A run from the sandbox's creation to its end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use sandbox::{
    BuildRequest, ErrorKind, ExecRequest, ExecResult, Export, ReadyCode, SandboxClient,
    SandboxHandle, SkippedArtifact, save_plots,
};

use super::artifacts_page::ArtifactsPage;
use super::document::RunDocument;
use super::hints::{is_shell_line, missing_program, shell_fix};
use super::live::{LiveOutput, WrittenOutput, exec_live};
use super::output_folder::{DEFAULT_EXPORT, EXPORTED, OutputFolder};
use super::program::{CopiedFile, Program};
use super::signals::Signals;
use super::stdin::{StdinChoice, warn_unread_stdin};
use super::summary::{Summary, skip_reason};
use super::terminal;
use super::{RunArguments, code};
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::{LOCAL, ResolvedOptions, Secrets};
use crate::output::{LiveFormat, print_json};
use crate::print_status;
use crate::progress::Progress;

/// How long an interrupted command waits for the end of its sandbox.
const INTERRUPTED_GRACE: Duration = Duration::from_secs(5);

/// After this time, a slow installation is announced.
const SILENCE_LIMIT: Duration = Duration::from_secs(1);

/// A run whose options have been checked.
pub struct Run<'a> {
    /// The command line.
    pub arguments: &'a RunArguments,
    /// The policy and the specification.
    pub request: ResolvedOptions,
    /// The program of a run.
    pub program: Program,
    /// Its secrets.
    pub secrets: Secrets,
    /// The folder for artifacts, if any may be exported.
    pub output: Option<OutputFolder>,
    /// The page with the artifacts, until it is written.
    pub page: Cell<Option<ArtifactsPage>>,
    /// Whether the artifacts are the default ones.
    pub has_default_artifacts: bool,
    /// The tier's backend.
    pub backend: &'static str,
    /// Whether the tier applies the policy.
    pub is_isolated: bool,
}

/// The result of an execution.
struct RunResult {
    result: ExecResult,
    live: Option<WrittenOutput>,
    export: Result<Export, CommandError>,
}

impl Run<'_> {
    /// Runs the program, prints the result, and returns the exit code.
    pub async fn in_sandbox(&self, client: &SandboxClient) -> Outcome {
        let mut signals = Signals::listen()?;
        let sandbox = tokio::select! {
            sandbox = self.sandbox(client) => sandbox?,
            never = self.announce_slow_install() => match never {},
            signal = signals.next() => return Err(CommandError::interrupted(signal)),
        };
        let ended = tokio::select! {
            ended = self.published(&sandbox) => ended,
            signal = signals.next() => {
                let end = async {
                    self.clean_up(&sandbox).await;
                    let synced = sync_workspace(&sandbox).await;
                    sandbox.kill().await.and(synced)
                };
                match tokio::time::timeout(INTERRUPTED_GRACE, end).await {
                    Ok(done) => print_warnings(done.err()),
                    // Dropping the handle kills the sandbox.
                    Err(_) => print_status(format_args!(
                        "warning: the sandbox did not end within {INTERRUPTED_GRACE:?}; workspace changes may be lost"
                    )),
                }
                return Err(CommandError::interrupted(signal));
            }
        };
        self.clean_up(&sandbox).await;
        let committed = match (&self.arguments.commit, &ended) {
            (Some(image), Ok(_)) => sandbox.commit(image).await.map(drop),
            _ => Ok(()),
        };
        let synced = sync_workspace(&sandbox).await;
        let killed = sandbox.kill().await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(failure) => {
                print_warnings(synced.err().into_iter().chain(killed.err()));
                return Err(failure);
            }
        };
        let exit = self.print_result(&sandbox, ended)?;
        committed?;
        synced?;
        killed?;
        Ok(exit)
    }

    /// A new sandbox, or the container of `--adopt`.
    async fn sandbox(&self, client: &SandboxClient) -> sandbox::Result<SandboxHandle> {
        let spec = &self.request.spec;
        if let Some(container) = &self.arguments.adopt {
            return client.adopt(container, spec).await;
        }
        let mut progress = Progress::new(
            self.arguments.quiet,
            self.arguments.format.format.document(),
        );
        let take = &mut |event: &_| progress.take(event);
        let Some(folder) = &self.arguments.dockerfile else {
            return client.create_with_progress(spec, take).await;
        };
        let mut build = BuildRequest::new(folder).pull(spec.pull.unwrap_or_default());
        build.follow_links = self.request.policy.follow_links.unwrap_or(false);
        let image = client.build_image(&build, take).await?;
        let mut spec = spec.clone().image(image.id);
        // The image exists now, and has no name to pull.
        spec.pull = None;
        client.create_with_progress(&spec, take).await
    }

    /// Prints a line if installing packages takes long.
    async fn announce_slow_install(&self) -> Infallible {
        let packages = &self.request.policy.packages;
        if !packages.is_empty()
            && !self.arguments.quiet
            && self.arguments.format.format == LiveFormat::Text
        {
            tokio::time::sleep(SILENCE_LIMIT).await;
            // Hashes of a package are long.
            let names = packages
                .iter()
                .filter_map(|package| package.split('#').next());
            let names = names.collect::<Vec<_>>().join(", ");
            print_status(format_args!("installing {names}"));
        }
        std::future::pending().await
    }

    /// Runs the program with its published ports.
    async fn published(&self, sandbox: &SandboxHandle) -> Result<RunResult, CommandError> {
        let mut open = Vec::new();
        for ports in &self.arguments.publish {
            let forward = sandbox.forward_at(ports.host, ports.port).await?;
            if !self.arguments.quiet && self.arguments.format.format == LiveFormat::Text {
                let (address, port) = (forward.address(), forward.port());
                print_status(format_args!(
                    "{address} leads to port {port} of the sandbox"
                ));
            }
            open.push(forward);
        }
        self.work(sandbox).await
    }

    async fn work(&self, sandbox: &SandboxHandle) -> Result<RunResult, CommandError> {
        let folder = self.folder(sandbox);
        if let Some(CopiedFile { name, content }) = self.program.copied() {
            let content = std::io::Cursor::new(content.clone());
            sandbox
                .upload(&format!("{folder}/{name}"), 0o755, content)
                .await?;
        }
        let mut live = LiveOutput::of(self.arguments.format.format, sandbox)?;
        code::check_version(&self.program, sandbox).await?;
        let mut ready = code::prepared(
            &self.program,
            sandbox,
            &folder,
            self.arguments.format.format.document(),
        )
        .await?;
        let variables = self.plots(sandbox, &folder, ready.as_ref()).await?;
        let result = match &mut ready {
            Some(ready) => {
                self.secrets.give(&mut ready.command);
                ready.command.env.extend(variables);
                let stdin = self.stdin();
                exec_live(sandbox, &ready.command, stdin, live.as_mut()).await
            }
            None => {
                self.execute(sandbox, &folder, variables, live.as_mut())
                    .await
            }
        };
        if let Some(ready) = ready {
            ready.clean_up(sandbox).await;
        }
        // Even if the execution failed: its output is shown before the error.
        let live = match live {
            Some(live) => Some(live.finish().await?),
            None => None,
        };
        let result = result?;
        let export = match &self.output {
            Some(output) => sandbox
                .export(output.path())
                .await
                .map_err(CommandError::from),
            None => Ok(Export::default()),
        };
        Ok(RunResult {
            result,
            live,
            export,
        })
    }

    /// Whether plots become files, because everything in the output folder is exported.
    fn saves_plots(&self) -> bool {
        self.has_default_artifacts && !self.arguments.no_plots
    }

    /// The variables by which plots become files.
    async fn plots(
        &self,
        sandbox: &SandboxHandle,
        folder: &str,
        ready: Option<&ReadyCode>,
    ) -> sandbox::Result<BTreeMap<String, String>> {
        match self.program.language() {
            Some(language) if self.saves_plots() => {
                let folder = format!("{folder}/.plots");
                let none = BTreeMap::new();
                let env = ready.map_or(&none, |ready| &ready.command.env);
                save_plots(sandbox, language, EXPORTED, &folder, env).await
            }
            _ => Ok(BTreeMap::new()),
        }
    }

    /// The folder in the sandbox for a copied file: a new one, so that the program imports no
    /// neighboring file. Without isolation, the temporary folder is shared, so the name is random.
    fn folder(&self, sandbox: &SandboxHandle) -> String {
        let name = if self.is_isolated {
            "sandbox-run"
        } else {
            sandbox.name()
        };
        format!("{}/{name}", sandbox.temporary_folder())
    }

    /// Runs the program, or the first existing alternative if it does not exist.
    async fn execute(
        &self,
        sandbox: &SandboxHandle,
        folder: &str,
        variables: BTreeMap<String, String>,
        mut live: Option<&mut LiveOutput>,
    ) -> sandbox::Result<ExecResult> {
        let stdin = self.stdin();
        let is_missing = |error: &sandbox::Error| error.kind() == ErrorKind::ProgramNotFound;
        let (mut command, mut alternatives) = self.program.commands(folder);
        for command in std::iter::once(&mut command).chain(&mut alternatives) {
            self.secrets.give(command);
            command.env.extend(variables.clone());
        }
        if self.arguments.tty {
            let has_term = self.request.spec.env.contains_key(terminal::TERM);
            command = terminal::on_terminal(command, has_term);
            let others = alternatives.into_iter();
            alternatives = others
                .map(|other| terminal::on_terminal(other, has_term))
                .collect();
        }
        if !self.arguments.no_stdin && !self.arguments.quiet {
            terminal::hint(&command, stdin, "sandbox run -it -- ");
        }
        let result = exec_live(sandbox, &command, stdin, live.as_deref_mut()).await;
        if !result.as_ref().is_err_and(is_missing) {
            return result;
        }
        for alternative in &alternatives {
            let other = exec_live(sandbox, alternative, stdin, live.as_deref_mut()).await;
            if !other.as_ref().is_err_and(is_missing) {
                return other;
            }
        }
        if let Some(language) = self.program.language() {
            return Err(language.missing(&language.run.programs));
        }
        result.map_err(|error| match self.program.command() {
            Some((name, arguments)) if is_missing(&error) => {
                error.with_fix(match arguments.is_empty() && is_shell_line(name) {
                    true => shell_fix(&name.to_string_lossy()),
                    false => missing_program(Path::new(name), sandbox.tier() == LOCAL),
                })
            }
            _ => error,
        })
    }

    /// The program's standard input. Prints a hint about one that it does not get.
    fn stdin(&self) -> StdinChoice {
        let stdin = StdinChoice::choose(self.arguments.interactive);
        if !stdin.is_passed() && !self.arguments.no_stdin && !self.arguments.quiet {
            warn_unread_stdin();
        }
        stdin
    }

    /// Removes the files of the run: without isolation they are on the host, and an adopted container
    /// stays.
    async fn clean_up(&self, sandbox: &SandboxHandle) {
        let has_files =
            self.program.copied().is_some() || self.program.code().is_some() || self.saves_plots();
        let ends_with_the_run = self.is_isolated && self.arguments.adopt.is_none();
        if ends_with_the_run || !has_files {
            return;
        }
        let folder = self.folder(sandbox);
        let removed = sandbox
            .exec(&ExecRequest::new("rm").args(["-rf", "--", &folder]))
            .await;
        match removed {
            Ok(result) if result.success() => {}
            Ok(result) => print_status(format_args!(
                "warning: {folder} is left behind: rm {}",
                result.outcome
            )),
            Err(error) => print_status(format_args!("warning: {folder} is left behind: {error}")),
        }
    }

    /// Prints the result, and returns the exit code.
    fn print_result(&self, sandbox: &SandboxHandle, ended: RunResult) -> Outcome {
        let RunResult {
            result,
            live,
            export,
        } = ended;
        let mut exit = Exit::of_outcome(&result.outcome);
        let (mut export, artifacts_error) = match export {
            Ok(export) => (export, None),
            Err(error) => (Export::default(), Some(error)),
        };
        if self.has_default_artifacts {
            export
                .skipped
                .retain(|skipped| skipped.source != DEFAULT_EXPORT);
        }
        let is_incomplete = self.arguments.strict && !export.skipped.is_empty();
        if (artifacts_error.is_some() || is_incomplete) && result.success() {
            exit = Exit::FAILED;
        }
        if let Some(page) = self.page.take()
            && let Err(error) = page.write(&export)
        {
            print_status(format_args!("warning: {error}"));
            if result.success() {
                exit = Exit::FAILED;
            }
        }
        let document = || {
            let error = artifacts_error.as_ref();
            RunDocument::new(self.backend, sandbox, &result, &export, error, exit)
        };
        match (self.arguments.format.format, live) {
            (LiveFormat::Jsonl, Some(live)) if live.is_broken => exit = Exit::BROKEN_PIPE,
            (LiveFormat::Jsonl, _) => print_json(&document().into_event())?,
            (_, None) => print_json(&document())?,
            (_, Some(live)) => {
                if live.is_broken {
                    exit = Exit::BROKEN_PIPE;
                }
                let summary = Summary {
                    sandbox,
                    result: &result,
                    export: &export,
                    artifacts_error: artifacts_error.as_ref(),
                    live: &live,
                };
                summary.print(self.arguments.quiet);
            }
        }
        Ok(exit)
    }
}

/// Copies the changes of a copied workspace back to the host, and prints what was not copied.
async fn sync_workspace(sandbox: &SandboxHandle) -> sandbox::Result<()> {
    if let Some(copies) = sandbox.workspace() {
        print_skipped("not in the sandbox's workspace", &copies.brought.skipped);
    }
    let Some(synced) = sandbox.sync().await? else {
        return Ok(());
    };
    print_skipped("not copied back", &synced.copied.skipped);
    for conflict in &synced.conflicts {
        print_status(format_args!(
            "warning: workspace: {conflict}; kept the version of the host"
        ));
    }
    if synced.more_conflicts > 0 {
        print_status(format_args!(
            "warning: workspace: {} more conflicts",
            synced.more_conflicts
        ));
    }
    let removed = synced.removed.len() as u64 + synced.more_removed;
    if removed > 0 {
        print_status(format_args!(
            "note: workspace: {removed} files were removed in the sandbox; kept them on the host"
        ));
    }
    Ok(())
}

/// Prints the errors that the returned error does not include.
fn print_warnings(errors: impl IntoIterator<Item = sandbox::Error>) {
    for error in errors {
        print_status(sandbox::spi::escape(&format!("warning: {error}")));
    }
}

fn print_skipped(what: &str, skipped: &[SkippedArtifact]) {
    for SkippedArtifact { source, reason } in skipped {
        let source = sandbox::spi::escape(source);
        let reason = skip_reason(reason);
        print_status(format_args!(
            "warning: workspace: {source}: {what}: {reason}"
        ));
    }
}
