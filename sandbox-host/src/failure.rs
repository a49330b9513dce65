//! Maps the agent's failures to errors.

use sandbox_agent::protocol::{FailStep, Failure};
use sandbox_core::spi::escape;
use sandbox_core::{Error, ErrorKind};

/// The error for a failure of the agent. Text from the sandbox is escaped.
#[must_use]
pub fn failure_error(tier: &str, failure: &Failure) -> Error {
    let (kind, operation) = match failure.step {
        FailStep::NotFound => (ErrorKind::ProgramNotFound, "execute"),
        FailStep::NotExecutable => (ErrorKind::NotExecutable, "execute"),
        FailStep::Workdir => (ErrorKind::BadWorkdir, "execute"),
        FailStep::Request => (ErrorKind::InvalidRequest, "execute"),
        FailStep::Terminal => (ErrorKind::Unsupported, "open terminal"),
        FailStep::File => (ErrorKind::Path, "access file"),
        FailStep::Spawn | FailStep::Limits | FailStep::Confinement => {
            (ErrorKind::SetupFailed, "start program")
        }
        FailStep::Attach => (ErrorKind::InvalidRequest, "attach to sandbox"),
        FailStep::Ended => (ErrorKind::SandboxEnded, "use sandbox"),
        FailStep::Protocol => (ErrorKind::Protocol, "talk to the agent"),
        _ => (ErrorKind::SetupFailed, "set up sandbox"),
    };
    let detail = escape(&failure.detail);
    let subject = match failure.step {
        FailStep::Workdir => format!("working folder {detail}"),
        _ => detail,
    };
    let context = match failure.errno {
        0 => subject,
        errno if subject.is_empty() => reason(errno),
        errno => format!("{subject}: {}", reason(errno)),
    };
    let error = Error::new(kind, operation, context).on(tier);
    let error = match failure.step {
        FailStep::Terminal => error.with_fix("run the program without a terminal"),
        _ => error,
    };
    match failure.errno {
        0 => error,
        errno => error.with_os_error(errno),
    }
}

/// The description of an error number.
pub(crate) fn reason(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}
