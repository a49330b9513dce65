//! The programs of ours that run cells, one for each language.

use sandbox_core::{Error, ErrorKind, ExecRequest, Result};

use super::SessionRequest;
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
    request: &SessionRequest,
) -> Result<ExecRequest> {
    let display_limit = request.display_limit.as_usize();
    let options = Options {
        plots: request.plots.iter().map(|format| format.as_str()).collect(),
        display_limit,
        displays_limit: display_limit * super::cell::DISPLAYS_FACTOR,
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
        name => {
            let context = format!("there are no sessions of {name}");
            return Err(
                Error::new(ErrorKind::LanguageNotSupported, "start session", context).with_fix(
                    "use python or javascript, or run_code, which starts a new program each time",
                ),
            );
        }
    };
    command.env.clone_from(&request.env);
    command.workdir.clone_from(&request.workdir);
    Ok(command.log(false))
}
