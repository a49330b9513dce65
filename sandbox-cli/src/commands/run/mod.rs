//! `sandbox run`: one execution in a new sandbox.

mod artifacts_page;
mod code;
pub(super) mod document;
pub(super) mod enforcement_line;
mod events;
pub mod hints;
pub(super) mod language;
pub(super) mod live;
pub(super) mod output_folder;
mod program;
mod scan;
mod session;
pub mod siblings;
pub(super) mod signals;
pub(super) mod stdin;
pub(super) mod summary;
pub(super) mod terminal;

use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use sandbox::spi::escape;
use sandbox::{Capability, Language, SandboxClient, registry};

use super::audit::{AuditOption, audited};
use crate::command_error::{CommandError, Outcome};
use crate::options::{
    PathMap, PolicyOptions, Published, ResolvedOptions, RunScanOptions, published, writable,
};
use crate::output::{LiveFormat, LiveFormatOption};
use crate::print_status;
use artifacts_page::ArtifactsPage;
use output_folder::OutputFolder;
use program::Program;
use session::Run;

const EXAMPLES: &str = "\
Examples:
  sandbox run analysis.py --read data --artifact /output/summary.json
  sandbox run -c 'print(6 * 7)' --memory 64MiB --timeout 5s
  sandbox run main.go
  sandbox run --workspace . -- make test
  sandbox run -it -- bash

Exit codes: the program's; 124 time limit; 125 refused, setup failed or wrong usage;
126 cannot execute; 127 not found; 137 out of memory or too much output; 128+n killed by signal n.

Standard output contains only the program's output. Reports about enforcement and artifacts go to
standard error, in lines that start with \"sandbox: \". The program can write such lines as well;
scripts should use -o json.";

/// The options of `run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "\
sandbox run [OPTIONS] FILE [ARG...] [-- ARG...]\n       \
sandbox run [OPTIONS] -c CODE [-- ARG...]\n       \
sandbox run [OPTIONS] -- COMMAND [ARG...]")]
pub struct RunArguments {
    /// Host file to run: of a known language, or any file with a #! line. Copied into the sandbox
    /// unless the sandbox can already read it; the file of a compiled language is always copied,
    /// without the files beside it. - reads code from standard input
    #[arg(conflicts_with = "code")]
    file: Option<PathBuf>,

    /// Code to run, in Python unless --language is given
    #[arg(short, long, value_name = "CODE")]
    code: Option<OsString>,

    /// Programming language of FILE or CODE; `sandbox languages` lists them
    #[arg(short, long, value_parser = language::parse)]
    language: Option<Language>,

    /// Arguments of FILE; those that start with '-' go after --
    #[arg(value_name = "ARG")]
    arguments: Vec<OsString>,

    /// Command to run in the sandbox; after FILE or CODE, their arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Copy only FILE into the sandbox. Otherwise its folder is readable if it has modules that
    /// FILE may import, and neither --policy nor --preset is given
    #[arg(long)]
    no_siblings: bool,

    /// Host folder for artifacts; existing files are kept, and new ones get a number. Without
    /// --artifact, copies what the code wrote to /output [default: artifacts]
    #[arg(long, value_name = "DIR", help_heading = "Artifacts")]
    out: Option<PathBuf>,

    /// Also write a page with the artifacts to look at: one new HTML file without scripts. Without
    /// --artifact, copies what the code wrote to /output
    #[arg(long, value_name = "FILE", help_heading = "Artifacts")]
    artifacts_html: Option<PathBuf>,

    /// Leave plots to the code. Otherwise, with --out or --artifacts-html and without --artifact,
    /// figures that Python or R shows become files in /output
    #[arg(long, help_heading = "Artifacts")]
    no_plots: bool,

    /// Fail (exit code 125) if an artifact is missing or was not copied, although the program
    /// succeeded
    #[arg(long, help_heading = "Artifacts")]
    strict: bool,

    /// Pass standard input to the program
    #[arg(short, long, conflicts_with = "no_stdin")]
    interactive: bool,

    /// Give the program a terminal of its own; -it connects it to this one. The time limit is then
    /// that of --timeout or the policy file only
    #[arg(short, long)]
    tty: bool,

    /// Do not pass standard input (the default), and do not warn about unread input
    #[arg(short, long)]
    no_stdin: bool,

    /// Port of the host that leads to a port of the sandbox while the program runs (repeatable).
    /// Listens on 127.0.0.1 unless an address is given; 0 chooses a free port
    #[arg(short, long, value_name = "[IP:]HOST:GUEST", value_parser = published)]
    publish: Vec<Published>,

    /// Build the image from the Dockerfile in this folder first, without a network; layers are
    /// cached as by `sandbox image build`
    #[arg(long, value_name = "DIR", help_heading = "Policy", conflicts_with_all = ["image", "adopt"])]
    dockerfile: Option<PathBuf>,

    /// Run in this existing, running container (id or name) and leave it as it was
    #[arg(long, value_name = "CONTAINER", help_heading = "Policy", conflicts_with_all = ["image", "pull", "rm_image", "writable_root", "workspace", "volume", "commit", "runtime", "package_network"])]
    adopt: Option<String>,

    /// Create an image with this unused name from the sandbox's files afterwards; needs
    /// --writable-root
    #[arg(
        long,
        value_name = "IMAGE",
        requires = "writable_root",
        help_heading = "Artifacts"
    )]
    commit: Option<String>,

    #[command(flatten)]
    audit: AuditOption,

    /// Print only warnings and errors
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    pub format: LiveFormatOption,

    #[command(flatten)]
    policy: PolicyOptions,

    #[command(flatten)]
    scan: RunScanOptions,
}

/// Runs the subcommand.
pub fn run(arguments: &RunArguments) -> Outcome {
    terminal::check(
        arguments.tty,
        arguments.interactive,
        arguments.format.format.document(),
    )?;
    let tier = registry::tier(&arguments.policy.backend)?;
    let scan = arguments.scan.policy()?;
    let mut request = arguments.request(scan.is_some())?;
    let wants_artifacts = arguments.out.is_some() || arguments.artifacts_html.is_some();
    let has_default_artifacts = wants_artifacts && request.exports_are_open;
    if has_default_artifacts {
        request.policy.artifact_export_paths = vec![output_folder::DEFAULT_EXPORT.to_owned()];
    }
    if wants_artifacts && request.policy.artifact_export_paths.is_empty() {
        return Err(CommandError::argument(
            "--out and --artifacts-html: the policy file says that nothing may be exported",
        ));
    }
    let program = match &scan {
        // What was scanned is what runs: a file at its own path may change meanwhile.
        Some(_) => arguments.program(&PathMap::default())?,
        None => arguments.program(&request.mounts)?,
    };
    if let Some(policy) = &scan {
        scan::check(policy, &program, arguments.file.as_deref())?;
    }
    let output = match request.policy.artifact_export_paths.is_empty() {
        true => None,
        false => Some(OutputFolder::prepare(
            arguments.out.as_deref(),
            &writable(&request.policy, &request.spec),
            request.policy.follow_links.unwrap_or(false),
        )?),
    };
    let page = arguments.artifacts_html.as_deref().map(|path| {
        let writable = writable(&request.policy, &request.spec);
        ArtifactsPage::prepare(
            path,
            &writable,
            request.policy.follow_links.unwrap_or(false),
        )
    });
    let page = page.transpose()?;
    let secrets = arguments.policy.secrets.read()?;
    let client = SandboxClient::open_with(tier.tier, request.policy.clone(), &request.settings)?;
    let audit = arguments.audit.open()?;
    let client = audited(client, audit.as_ref());
    let image = program
        .language()
        .and_then(|language| language.image.clone());
    if request.spec.image.is_none() && arguments.adopt.is_none() && client.runs_images() {
        request.spec.image = image;
    }
    if !tier.applies_policy {
        print_status(format_args!(
            "warning: {} applies no policy: nothing is enforced",
            tier.tier
        ));
    }
    let run = Run {
        arguments,
        request,
        program,
        secrets,
        output,
        page: Cell::new(page),
        has_default_artifacts,
        backend: tier.backend,
        is_isolated: tier.applies_policy,
    };
    let runtime = super::runtime()?;
    let outcome = runtime.block_on(async {
        let outcome = run.in_sandbox(&client).await;
        super::settle(&client).await;
        outcome
    });
    // A thread may wait for standard input forever.
    runtime.shutdown_background();
    drop(audit);
    outcome
}

/// What `--no-siblings` does, in short.
const WITHOUT: &str = "run it alone";

impl RunArguments {
    /// The tier to run on.
    #[cfg(test)]
    pub fn backend(&self) -> &str {
        &self.policy.backend
    }

    /// The folder of FILE, if the code may read it for the modules there. A policy that the user
    /// chose stays as it is.
    fn siblings(&self) -> Option<PathBuf> {
        let file = self.file.as_deref().filter(|_| !self.no_siblings)?;
        if self.adopt.is_some() || !self.policy.is_open() {
            return None;
        }
        siblings::folder(file, self.language.as_ref())
    }

    fn says_siblings(&self) -> bool {
        !self.quiet && self.format.format == LiveFormat::Text
    }

    /// The policy and the specification. A program on a terminal has a longer time limit than the default.
    /// A program that is scanned runs alone, because its modules are not scanned.
    fn request(&self, is_alone: bool) -> Result<ResolvedOptions, CommandError> {
        let siblings = self.siblings().filter(|_| !is_alone);
        let mut request = self.policy.resolve_with(siblings.as_deref())?;
        if let Some(folder) = siblings.filter(|_| self.says_siblings()) {
            let folder = escape(&folder.display().to_string());
            print_status(format_args!(
                "{folder} is readable: it has modules beside the program (--no-siblings: {WITHOUT})"
            ));
        }
        if !request.toolchains.is_empty() && self.says_siblings() {
            let names = request.toolchains.join(", ");
            print_status(format_args!("readable toolchains of this user: {names}"));
        }
        if self.tty && !request.timeout_is_stated {
            let policy = &mut request.policy;
            policy.timeout = Some(terminal::TIMEOUT);
            if !policy.require_all {
                // Wanted and not required, as the default that it replaces.
                policy.allow_partial.push(Capability::Timeout);
                policy.allow_unenforced.push(Capability::Timeout);
            }
        }
        Ok(request)
    }

    fn program(&self, mounts: &PathMap) -> Result<Program, CommandError> {
        match (&self.file, &self.code) {
            (Some(file), _) => {
                let arguments = [&self.arguments[..], &self.command].concat();
                // A dash is standard input.
                if file != Path::new("-") && !file.exists() {
                    return Err(hints::missing_file(file, &arguments));
                }
                Program::of_file(file, self.language.clone(), &arguments, mounts)
            }
            (None, Some(code)) => Ok(Program::of_code(
                code,
                self.language.clone().unwrap_or_else(language::default),
                &self.command,
            )),
            (None, None) if self.language.is_some() => Err(CommandError::argument(
                "--language goes with FILE or -c CODE, not with a command",
            )),
            (None, None) => Program::of_command(&self.command),
        }
    }
}

#[cfg(test)]
mod tests;
