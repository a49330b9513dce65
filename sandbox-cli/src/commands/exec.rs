//! `sandbox exec`: one execution in a detached sandbox.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sandbox::{Error, ErrorKind, ExecRequest, ExecResult, Export, SandboxHandle};

use super::audit::AuditOption;
use super::carrier;
use super::detached::TierOption;
use super::run::document::RunDocument;
use super::run::live::{LiveOutput, WrittenOutput, exec_live};
use super::run::signals::Signals;
use super::run::stdin::{StdinChoice, warn_unread_stdin};
use super::run::summary::Summary;
use super::run::terminal;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::{SecretOptions, duration, text, variables};
use crate::output::{LiveFormat, LiveFormatOption, print_json};
use crate::print_status;

const NOTES: &str = "\
Exit codes: the program's; 124 time limit; 125 no such sandbox, or it failed; 126 cannot execute;
127 not found; 137 out of memory or too much output; 128+n killed by signal n.";

/// The options of `exec`.
#[derive(Debug, Args)]
#[command(after_help = NOTES, override_usage = "sandbox exec [OPTIONS] NAME [--] COMMAND [ARG...]")]
pub struct ExecArguments {
    /// Name of the sandbox
    name: String,

    /// Command to run in the sandbox
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    #[command(flatten)]
    tier: TierOption,

    /// Time limit, such as 30s, 1m30s or a number of seconds; at most the sandbox's [default: the
    /// sandbox's]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,

    /// Additional environment variable (repeatable)
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,

    /// File with a NAME=VALUE in each line (repeatable); --env takes precedence
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,

    #[command(flatten)]
    secrets: SecretOptions,

    /// User of the program: the sandbox's own, or root where the tier allows that
    #[arg(short, long, value_name = "UID[:GID]|root")]
    user: Option<String>,

    /// Working directory in the sandbox [default: the sandbox's]
    #[arg(short, long, value_name = "PATH")]
    workdir: Option<OsString>,

    /// Pass standard input to the program
    #[arg(short, long, conflicts_with = "no_stdin")]
    interactive: bool,

    /// Do not pass standard input (the default), and do not warn about unread input
    #[arg(short, long)]
    no_stdin: bool,

    /// Give the program a terminal of its own; -it connects it to this one
    #[arg(short, long)]
    tty: bool,

    #[command(flatten)]
    audit: AuditOption,

    #[command(flatten)]
    pub format: LiveFormatOption,
}

const SHELL_NOTES: &str = "\
Examples:
  sandbox shell NAME
  sandbox shell NAME -- python3

It is `sandbox exec -it NAME -- bash`. The shell ends with the command; the sandbox keeps running.";

/// The options of `shell`.
#[derive(Debug, Args)]
#[command(after_help = SHELL_NOTES, override_usage = "sandbox shell [OPTIONS] NAME [[--] PROGRAM [ARG...]]")]
pub struct ShellArguments {
    /// Name of the sandbox
    name: String,

    /// Program to run instead of a shell [default: bash, or sh if there is no bash]
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,

    #[command(flatten)]
    tier: TierOption,

    /// Additional environment variable (repeatable)
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,

    /// User of the program: the sandbox's own, or root where the tier allows that
    #[arg(short, long, value_name = "UID[:GID]|root")]
    user: Option<String>,

    /// Working directory in the sandbox [default: the sandbox's]
    #[arg(long, value_name = "PATH")]
    workdir: Option<OsString>,

    #[command(flatten)]
    audit: AuditOption,
}

/// Runs `shell`.
pub fn run_shell(arguments: ShellArguments) -> Outcome {
    let is_default = arguments.command.is_empty();
    let exec = |command| ExecArguments {
        name: arguments.name.clone(),
        command,
        tier: arguments.tier.clone(),
        timeout: None,
        env: arguments.env.clone(),
        env_file: Vec::new(),
        secrets: SecretOptions::default(),
        user: arguments.user.clone(),
        workdir: arguments.workdir.clone(),
        interactive: true,
        no_stdin: false,
        tty: true,
        audit: arguments.audit.clone(),
        format: LiveFormatOption {
            format: LiveFormat::Text,
        },
    };
    if is_default {
        let shells = ["bash", "sh"].map(|shell| exec(vec![shell.into()]));
        return run_first(&shells);
    }
    run_first(&[exec(arguments.command.clone())])
}

/// Runs `exec`.
pub fn run(arguments: &ExecArguments) -> Outcome {
    run_first(std::slice::from_ref(arguments))
}

/// Runs the first of these whose program exists. They differ in nothing else.
fn run_first(choices: &[ExecArguments]) -> Outcome {
    let Some(arguments) = choices.first() else {
        return Err(CommandError::argument("nothing to run"));
    };
    terminal::check(
        arguments.tty,
        arguments.interactive,
        arguments.format.format.document(),
    )?;
    let requests = choices.iter().map(ExecArguments::request);
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    let runtime = super::runtime()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let work = async {
            let (name, audit) = (&arguments.name, &arguments.audit);
            super::in_sandbox(&arguments.tier, name, audit, async |sandbox, tier| {
                arguments.execute(sandbox, &requests, tier.backend).await
            })
            .await
        };
        tokio::select! {
            outcome = work => outcome,
            // Disconnecting ends the execution; the sandbox keeps running.
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        }
    });
    // A thread may wait for standard input forever.
    runtime.shutdown_background();
    outcome
}

impl ExecArguments {
    fn request(&self) -> Result<ExecRequest, CommandError> {
        let (program, rest) = self
            .command
            .split_first()
            .ok_or_else(|| CommandError::argument("nothing to run: write -- COMMAND"))?;
        let mut request = ExecRequest::new(program).args(rest);
        request.env = variables(&self.env_file, &self.env)?;
        request.workdir = self
            .workdir
            .as_deref()
            .map(|path| text("--workdir", path))
            .transpose()?;
        request.timeout = self.timeout;
        request.user.clone_from(&self.user);
        self.secrets.read()?.give(&mut request);
        request.validate()?;
        Ok(match self.tty {
            true => terminal::on_terminal(request, false),
            false => request,
        })
    }

    async fn execute(
        &self,
        sandbox: &SandboxHandle,
        requests: &[ExecRequest],
        backend: &str,
    ) -> Outcome {
        let stdin = StdinChoice::choose(self.interactive);
        if !stdin.is_passed() && !self.no_stdin {
            warn_unread_stdin();
        }
        if !self.no_stdin {
            let usage = format!("sandbox exec -it {} -- ", self.name);
            requests
                .iter()
                .for_each(|request| terminal::hint(request, stdin, &usage));
        }
        carrier::warn_if_missing(sandbox).await;
        let most = sandbox.plan().timeout;
        if self.timeout.is_some_and(|asked| asked > most) {
            print_status(format_args!(
                "warning: --timeout is reduced to {}, the time limit of the sandbox",
                humantime::format_duration(most)
            ));
        }
        let mut live = LiveOutput::of(self.format.format, sandbox)?;
        let mut result = Err(Error::new(
            ErrorKind::InvalidRequest,
            "execute",
            "nothing to run",
        ));
        for request in requests {
            result = exec_live(sandbox, request, stdin, live.as_mut()).await;
            let is_missing = |error: &Error| error.kind() == ErrorKind::ProgramNotFound;
            if !result.as_ref().is_err_and(is_missing) {
                break;
            }
        }
        // Even if the execution failed: its output is shown before the error.
        let live = match live {
            Some(live) => Some(live.finish().await?),
            None => None,
        };
        self.print_result(sandbox, &result?, live, backend)
    }

    fn print_result(
        &self,
        sandbox: &SandboxHandle,
        result: &ExecResult,
        live: Option<WrittenOutput>,
        backend: &str,
    ) -> Outcome {
        let mut exit = Exit::of_outcome(&result.outcome);
        let export = Export::default();
        let document = || RunDocument::new(backend, sandbox, result, &export, None, exit);
        match (self.format.format, live) {
            (LiveFormat::Jsonl, Some(live)) if live.is_broken => exit = Exit::BROKEN_PIPE,
            (LiveFormat::Jsonl, _) => print_json(&document().into_event())?,
            (_, None) => print_json(&document())?,
            (_, Some(live)) => {
                if live.is_broken {
                    exit = Exit::BROKEN_PIPE;
                }
                let summary = Summary {
                    sandbox,
                    result,
                    export: &export,
                    artifacts_error: None,
                    live: &live,
                };
                // `sandbox create` has already printed the enforcement report.
                summary.print(true);
            }
        }
        Ok(exit)
    }
}
