//! A program on a terminal of its own, connected to the command's terminal.

use std::io::{self, IsTerminal as _, Stdin as HostStdin};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sandbox::spi::escape;
use sandbox::{
    ExecEvent, ExecRequest, ExecResult, Flow, OutputSink as _, OutputStream, SandboxHandle,
    TerminalSize,
};
use tokio::signal::unix::{SignalKind, signal};

use super::live::LiveOutput;
use super::stdin::StdinChoice;
use crate::command_error::CommandError;
use crate::output::Format;
use crate::print_status;

/// The time limit of a program on a terminal if none is stated: long enough to be none.
pub const TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The variable that says what kind of terminal it is.
pub const TERM: &str = "TERM";

/// Programs that are interactive if they have no arguments.
const INTERACTIVE: [&str; 12] = [
    "ash", "bash", "dash", "fish", "ipython", "ksh", "node", "python", "python3", "sh", "tcsh",
    "zsh",
];

/// Checks the options, before anything is created.
pub fn check(tty: bool, stdin_is_passed: bool, format: Format) -> Result<(), CommandError> {
    if !tty {
        return Ok(());
    }
    if format == Format::Json {
        return Err(
            CommandError::argument("-t: what a terminal shows cannot be printed as JSON")
                .with_fix("leave out -t or -o json"),
        );
    }
    if stdin_is_passed && !io::stdin().is_terminal() {
        return Err(CommandError::argument(
            "-t: the input device is not a TTY: standard input is a file or a pipe",
        )
        .with_fix("use -i without -t, or run the command in a terminal"));
    }
    Ok(())
}

/// Requests a terminal as large as the command's own, and of the same kind unless `has_term`: the
/// sandbox has a `TERM` already.
pub fn on_terminal(request: ExecRequest, has_term: bool) -> ExecRequest {
    let has_term = has_term || request.env.contains_key(TERM);
    let request = request.terminal(size());
    match std::env::var(TERM) {
        Ok(kind) if !has_term && !kind.is_empty() => request.env(TERM, kind),
        _ => request,
    }
}

/// The size of the command's terminal; 24 rows and 80 columns without one.
fn size() -> TerminalSize {
    let sizes = [
        tcgetwinsize(io::stdout()),
        tcgetwinsize(io::stdin()),
        tcgetwinsize(io::stderr()),
    ];
    let known = sizes.into_iter().flatten();
    let known = known.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    known
        .map(|size| TerminalSize::new(size.ws_row, size.ws_col))
        .next()
        .unwrap_or_default()
}

/// Prints what to type if a user at a terminal runs an interactive program without one, or
/// without input. `usage` is the command up to the program.
pub fn hint(request: &ExecRequest, stdin: StdinChoice, usage: &str) {
    let [program] = request.argv.as_slice() else {
        return;
    };
    let name = program
        .rsplit(|byte| *byte == b'/')
        .next()
        .unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    if !INTERACTIVE.contains(&name.as_ref()) || !io::stdin().is_terminal() {
        return;
    }
    let lacks = match (request.terminal, stdin) {
        (Some(_), StdinChoice::Inherited) => return,
        (Some(_), StdinChoice::Empty) => "no input",
        (None, StdinChoice::Inherited) => "no terminal",
        (None, StdinChoice::Empty) => "no terminal and no input",
    };
    print_status(format_args!(
        "{name} gets {lacks} (fix: {usage}{})",
        escape(&String::from_utf8_lossy(program))
    ));
}

/// Runs a request that has a terminal. If its input is the command's, the command's terminal passes
/// every key on until the end.
pub async fn exec(
    sandbox: &SandboxHandle,
    request: &ExecRequest,
    stdin: StdinChoice,
    live: &mut LiveOutput,
) -> sandbox::Result<ExecResult> {
    // Without the signal, the size stays.
    let mut resized = signal(SignalKind::window_change()).ok();
    let mut execution = sandbox.start(request, stdin.open()).await?;
    // From the start on: a missing program is reported in the usual mode.
    let _raw = stdin.is_passed().then(RawMode::enter);
    // It may have changed since the request.
    execution.resize(size()).await?;
    loop {
        let changed = async {
            match &mut resized {
                Some(resized) => resized.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = execution.next_event() => match event? {
                Some(ExecEvent::Stdout(bytes)) => {
                    if live.write(OutputStream::Stdout, &bytes).await == Flow::Stop {
                        execution.kill().await;
                    }
                }
                Some(_) => {}
                None => break,
            },
            _ = changed => execution.resize(size()).await?,
        }
    }
    // The last output is shown before the terminal changes its mode.
    live.flush().await;
    let mut result = execution.wait().await?;
    // All output was shown, so none of it is cut.
    result.stdout.total = 0;
    Ok(result)
}

/// The command's terminal in raw mode: keys are bytes, without echo and signals. Dropping it
/// restores the mode, also in a panic.
struct RawMode {
    terminal: HostStdin,
    before: Option<Termios>,
}

impl RawMode {
    fn enter() -> Self {
        let terminal = io::stdin();
        let before = tcgetattr(&terminal).ok().filter(|before| {
            let mut raw = before.clone();
            raw.make_raw();
            tcsetattr(&terminal, OptionalActions::Now, &raw).is_ok()
        });
        if before.is_none() {
            print_status("warning: the terminal does not change to raw mode");
        }
        Self { terminal, before }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone has no mode.
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, before);
        }
    }
}
