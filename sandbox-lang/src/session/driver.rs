//! The programs of ours that run cells, one for each language.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use sandbox_core::{ByteSize, Error, ErrorKind, ExecRequest, Result};

use super::SessionRequest;
use super::channel::Form;
use super::message::WorkerOptions;
use crate::Language;

const PYTHON: &str = concat!(
    include_str!("python/streams.py"),
    include_str!("python/display.py"),
    include_str!("python/forks.py"),
    include_str!("python/driver.py"),
);

/// Gives its standard streams to a copy of an interpreter.
const PYTHON_RELAY: &str = include_str!("python/relay.py");

const PYTHON_FIGURES: &str = include_str!("python/figures.py");

/// Starts Node.js with descriptors that it cannot make itself.
const JAVASCRIPT_START: &str = include_str!("javascript/start.sh");
const JAVASCRIPT: &str = include_str!("javascript/main.js");
const JAVASCRIPT_WORKER: &str = include_str!("javascript/worker.js");

const SHELL_START: &str = include_str!("shell/start.sh");
const SHELL_INIT: &str = include_str!("shell/init.sh");

const R: &str = include_str!("r/driver.R");

/// The exit code of a driver whose channel the code closed.
pub(super) const NO_CHANNEL: i32 = 121;

/// The exit code of a relay whose copy ended without a word.
pub(super) const NO_STATUS: i32 = 122;

/// The longest path of a socket, in bytes: `sun_path` of unix(7).
const MAX_SOCKET: usize = 107;

/// The command that runs the driver of a language with `program`.
///
/// The driver is an argument, not a file: no file of the sandbox can replace it. `folder` does not
/// exist, and may be made.
pub(super) fn command(
    language: &Language,
    program: &str,
    folder: &str,
    mark: &str,
    request: &SessionRequest,
) -> Result<ExecRequest> {
    let display_limit = request.display_limit.as_usize();
    let options = WorkerOptions {
        plots: request.plots.iter().map(|format| format.as_str()).collect(),
        display_limit,
        displays_limit: display_limit * super::cell::DISPLAYS_FACTOR,
        preload: &request.preload,
    };
    let encoded = || serde_json::to_string(&options).expect("numbers and names");
    let mut command = match language.name.as_str() {
        "python" => ExecRequest::new(program).args(["-c", PYTHON, PYTHON_FIGURES, &encoded()]),
        "javascript" => ExecRequest::shell(JAVASCRIPT_START).args([
            program,
            JAVASCRIPT,
            JAVASCRIPT_WORKER,
            &encoded(),
            folder,
        ]),
        "sh" | "bash" => {
            ExecRequest::shell(SHELL_START).args([program, folder, mark, SHELL_INIT, "sh"])
        }
        "r" => {
            let limit = options.display_limit.to_string();
            let plots = options.plots.join(" ");
            ExecRequest::shell(SHELL_START).args([program, folder, mark, R, "r", &plots, &limit])
        }
        name => {
            let context = format!("there are no sessions of {name}");
            return Err(
                Error::new(ErrorKind::LanguageNotSupported, "start session", context).with_fix(
                    "use python, javascript, r or shell, or run_code, which starts a new program each time",
                ),
            );
        }
    };
    command.env.clone_from(&request.env);
    command.workdir.clone_from(&request.workdir);
    Ok(command.log(false))
}

/// The command that becomes the channel of a copy, which waits at `socket`. The driver of the first
/// session runs as `driver`. An error says how the path is wrong.
pub(super) fn relay(driver: &ExecRequest, socket: &str) -> Result<ExecRequest, String> {
    if socket.len() > MAX_SOCKET || !socket.starts_with('/') || socket.contains('\0') {
        return Err(format!("{socket:?} as the socket of a copy"));
    }
    let program = driver.argv.first().expect("a driver has a program");
    let mut command =
        ExecRequest::new(OsStr::from_bytes(program)).args(["-I", "-S", "-c", PYTHON_RELAY, socket]);
    command.env.clone_from(&driver.env);
    command.workdir.clone_from(&driver.workdir);
    Ok(command.log(false))
}

/// How the driver of a language speaks.
pub(super) fn form(language: &Language, mark: &str) -> Form {
    match has_marks(language) {
        true => Form::Shell {
            mark: mark.to_owned(),
            has_messages: language.name == "r",
        },
        false => Form::Frames,
    }
}

/// The longest code and standard input of a cell. A shell reads each byte on its own.
pub(super) fn request_limit(language: &Language) -> ByteSize {
    match has_marks(language) {
        true => ByteSize::mib(1),
        false => ByteSize::mib(16),
    }
}

/// Whether the session writes into the execution's own output.
fn has_marks(language: &Language) -> bool {
    matches!(language.name.as_str(), "sh" | "bash" | "r")
}
