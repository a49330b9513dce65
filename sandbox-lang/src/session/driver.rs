//! The programs of ours that run cells, one for each language.

use sandbox_core::{ByteSize, Error, ErrorKind, ExecRequest, Result};

use super::SessionRequest;
use super::channel::Form;
use super::message::Options;
use crate::Language;

const PYTHON: &str = concat!(
    include_str!("python/streams.py"),
    include_str!("python/display.py"),
    include_str!("python/driver.py"),
);

const PYTHON_FIGURES: &str = include_str!("python/figures.py");

/// Starts Node.js with descriptors that it cannot make itself.
const JAVASCRIPT_START: &str = include_str!("javascript/start.sh");
const JAVASCRIPT: &str = include_str!("javascript/main.js");
const JAVASCRIPT_WORKER: &str = include_str!("javascript/worker.js");

const SHELL_START: &str = include_str!("shell/start.sh");
const SHELL_INIT: &str = include_str!("shell/init.sh");

/// The exit code of a driver whose channel the code closed.
pub(super) const NO_CHANNEL: i32 = 121;

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
    let options = Options {
        plots: request.plots.iter().map(|format| format.as_str()).collect(),
        display_limit,
        displays_limit: display_limit * super::cell::DISPLAYS_FACTOR,
        preload: &request.preload,
    };
    let options = serde_json::to_string(&options).expect("numbers and names");
    let mut command = match language.name.as_str() {
        "python" => {
            ExecRequest::new(program).args(["-c", PYTHON, PYTHON_FIGURES, options.as_str()])
        }
        "javascript" => ExecRequest::shell(JAVASCRIPT_START).args([
            program,
            JAVASCRIPT,
            JAVASCRIPT_WORKER,
            options.as_str(),
            folder,
        ]),
        "sh" | "bash" => ExecRequest::shell(SHELL_START).args([program, folder, mark, SHELL_INIT]),
        name => {
            let context = format!("there are no sessions of {name}");
            return Err(
                Error::new(ErrorKind::LanguageNotSupported, "start session", context).with_fix(
                    "use python, javascript or shell, or run_code, which starts a new program each time",
                ),
            );
        }
    };
    command.env.clone_from(&request.env);
    command.workdir.clone_from(&request.workdir);
    Ok(command.log(false))
}

/// How the driver of a language speaks.
pub(super) fn form(language: &Language, mark: &str) -> Form {
    match is_shell(language) {
        true => Form::Shell {
            mark: mark.to_owned(),
        },
        false => Form::Frames,
    }
}

/// The longest code and standard input of a cell. A shell reads each byte on its own.
pub(super) fn request_limit(language: &Language) -> ByteSize {
    match is_shell(language) {
        true => ByteSize::mib(1),
        false => ByteSize::mib(16),
    }
}

fn is_shell(language: &Language) -> bool {
    matches!(language.name.as_str(), "sh" | "bash")
}
