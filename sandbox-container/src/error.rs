//! Converts errors of the engine's client to [`Error`].

use std::fmt;

use bollard::errors::Error as EngineError;
use sandbox_core::{Error, ErrorKind};

use crate::Tier;

/// The request that failed; decides what a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Inspect,
    Create,
    Attach,
    Start,
    Volume,
    Remove,
    List,
    Exec,
    Pull,
    Build,
    ListImages,
    RemoveImage,
    Commit,
    Adopt,
    Quota,
}

impl Operation {
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Self::Inspect => "inspect image",
            Self::Create => "create container",
            Self::Attach => "attach to container",
            Self::Start => "start container",
            Self::Volume => "provide the agent's volume",
            Self::Remove => "remove container",
            Self::List => "list containers",
            Self::Exec => "attach to sandbox",
            Self::Pull => "pull image",
            Self::Build => "build image",
            Self::ListImages => "list images",
            Self::RemoveImage => "remove image",
            Self::Commit => "commit sandbox",
            Self::Adopt => "adopt container",
            Self::Quota => "try the storage's quota",
        }
    }
}

/// Converts an engine error by the operation that failed.
pub(crate) fn engine_error(tier: Tier, operation: Operation, error: EngineError) -> Error {
    let phrase = operation.phrase();
    let (status, message) = match error {
        EngineError::DockerResponseServerError {
            status_code,
            message,
        } => (status_code, message.trim().to_owned()),
        error if is_disconnected(&error) => {
            let context = format!("the engine does not answer: {}", ErrorChain(&error));
            return unavailable(tier, phrase, context);
        }
        error => return Error::new(ErrorKind::Io, phrase, ErrorChain(&error).to_string()).on(tier),
    };
    if is_stopping(&message) {
        let context = format!("the engine is stopping: {message}");
        return unavailable(tier, phrase, context);
    }
    // Only Podman, and only if the option asks for separate users.
    if operation == Operation::Create && message.contains("not find enough available IDs") {
        let context = format!("engine option private_users: {message}");
        return Error::new(ErrorKind::Unsupported, phrase, context)
            .on(tier)
            .with_fix(
                "give the user `containers` subordinate ids on the engine's host (in /etc/subuid and /etc/subgid), or leave the option out",
            );
    }
    let kind = match (operation, status) {
        (Operation::Create | Operation::Inspect, 404) if message.contains("image") => {
            ErrorKind::ImageNotFound
        }
        (Operation::Create, 409) => ErrorKind::AlreadyExists,
        // Podman, if two requests race for one name.
        (Operation::Create, 500) if message.contains("name is already in use") => {
            ErrorKind::AlreadyExists
        }
        (Operation::Create | Operation::Start, _) => ErrorKind::SetupFailed,
        // Podman sets the container up for the first connection to its streams.
        (Operation::Attach, _) if message.starts_with("preparing container") => {
            ErrorKind::SetupFailed
        }
        (Operation::Exec, 404) => ErrorKind::SandboxEnded,
        // The container may end between inspection and exec. Other states, such as paused, do not
        // count.
        (Operation::Exec, _)
            if ["is not running", "container state improper"]
                .iter()
                .any(|text| message.contains(text)) =>
        {
            ErrorKind::SandboxEnded
        }
        _ => ErrorKind::Io,
    };
    Error::new(kind, phrase, message).on(tier)
}

fn unavailable(tier: Tier, phrase: &'static str, context: String) -> Error {
    let (engine, command) = (tier.family.engine, tier.family.command);
    Error::new(ErrorKind::SandboxUnavailable, phrase, context)
        .on(tier)
        .with_fix(format!(
            "see whether {engine} still runs (`{command} version`)"
        ))
}

/// Whether the message is Docker's while it stops: it closes the store of its volumes (bbolt's
/// `ErrDatabaseNotOpen`) before it closes the connections of its clients.
fn is_stopping(message: &str) -> bool {
    message.ends_with("database not open")
}

/// Whether the engine was not reached, or disconnected before it answered.
fn is_disconnected(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::RequestTimeoutError
            | EngineError::SocketNotFoundError(_)
            | EngineError::HyperResponseError { .. }
            | EngineError::HyperLegacyError { .. }
            | EngineError::IOError { .. }
    )
}

/// Whether the engine's response cannot be parsed.
pub(crate) fn is_parse_error(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::JsonDataError { .. } | EngineError::JsonSerdeError { .. }
    )
}

/// Whether the engine answered with this status.
pub(crate) fn has_status(error: &EngineError, status: u16) -> bool {
    matches!(error, EngineError::DockerResponseServerError { status_code, .. } if *status_code == status)
}

/// Whether the engine has no such container. Podman may use another status for one being removed.
pub(crate) fn is_container_missing(error: &EngineError) -> bool {
    has_status(error, 404) || message_contains(error, "no such container")
}

/// Whether Podman reports a transient state, such as a container that ends during its removal.
pub(crate) fn is_transient_state(error: &EngineError) -> bool {
    message_contains(error, "container state improper")
}

/// Whether another mount namespace still has the file system of a container that is removed, as that
/// of a program that just starts: moby/moby#22260.
pub(crate) fn is_busy(error: &EngineError) -> bool {
    message_contains(error, "device or resource busy")
}

/// Whether the engine's message contains these words.
pub(crate) fn message_contains(error: &EngineError, words: &str) -> bool {
    matches!(error, EngineError::DockerResponseServerError { message, .. } if message.contains(words))
}

/// An error and its causes in one line: the outer error alone only reads "client error".
pub(crate) struct ErrorChain<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous = self.0.to_string();
        f.write_str(&previous)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !previous.contains(&text) {
                write!(f, ": {text}")?;
                previous = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::samples::TIER;

    fn answered(operation: Operation, status_code: u16, message: &str) -> Error {
        let message = message.to_owned();
        let error = EngineError::DockerResponseServerError {
            status_code,
            message,
        };
        engine_error(TIER, operation, error)
    }

    #[test]
    fn error_kind_depends_on_the_operation() {
        for (operation, status, message, kind) in [
            (
                Operation::Create,
                404,
                "No such image: x",
                ErrorKind::ImageNotFound,
            ),
            (
                Operation::Attach,
                500,
                "preparing container 0123 for attach: runc: runc create failed",
                ErrorKind::SetupFailed,
            ),
            (
                Operation::Create,
                409,
                "name in use",
                ErrorKind::AlreadyExists,
            ),
            (
                Operation::Create,
                500,
                "creating container storage: that name is already in use",
                ErrorKind::AlreadyExists,
            ),
            (
                Operation::Create,
                400,
                "Unknown runtime",
                ErrorKind::SetupFailed,
            ),
            (Operation::Start, 400, "OCI runtime", ErrorKind::SetupFailed),
            (Operation::Remove, 500, "busy", ErrorKind::Io),
            (
                Operation::Exec,
                409,
                "Container 01 is not running",
                ErrorKind::SandboxEnded,
            ),
            (
                Operation::Exec,
                409,
                "Container 01 is paused",
                ErrorKind::Io,
            ),
        ] {
            let error = answered(operation, status, message);
            assert_eq!(error.kind(), kind, "{message}");
        }
    }

    #[test]
    fn file_system_of_another_mount_namespace_is_busy() {
        let removal = |message: &str| EngineError::DockerResponseServerError {
            status_code: 500,
            message: message.into(),
        };
        assert!(is_busy(&removal(
            "driver \"overlay2\" failed to remove root filesystem: unlinkat /x/merged: device or \
             resource busy"
        )));
        assert!(!is_busy(&removal("driver \"overlay2\": permission denied")));
    }

    #[test]
    fn missing_subordinate_ids_name_the_option() {
        let message = "creating container storage: could not find enough available IDs";
        let error = answered(Operation::Create, 500, message);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.context().starts_with("engine option private_users"));
        assert!(error.fix().is_some_and(|fix| fix.contains("/etc/subuid")));
    }

    #[test]
    fn stopping_engine_is_unavailable() {
        let message = "error while mounting volume '/d/v/_data': get v: database not open";
        let error = answered(Operation::Volume, 500, message);
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
        assert!(error.fix().is_some(), "{error}");
    }

    #[test]
    fn disconnected_engine_is_unavailable() {
        let error = std::io::Error::from(std::io::ErrorKind::BrokenPipe).into();
        let error = engine_error(TIER, Operation::Start, error);
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
        assert!(error.fix().is_some());
    }

    #[test]
    fn repeated_cause_is_printed_once() {
        let inner = std::io::Error::other("no route");
        let error = EngineError::from(inner);
        assert_eq!(ErrorChain(&error).to_string(), "no route");
    }
}
