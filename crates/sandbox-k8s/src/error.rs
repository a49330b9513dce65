//! The cluster's errors as ours.

use kube::Error as ClusterError;
use sandbox_core::{Error, ErrorKind};

use crate::TIER;

/// What the cluster was asked for: the operation's name in errors, and the right that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Its version.
    Version,
    /// Making the pod of a sandbox.
    CreatePod,
    /// Following what becomes of it.
    WatchPod,
    /// Looking at it.
    GetPod,
    /// Entering it.
    Exec,
    /// Removing it.
    DeletePod,
    /// Finding what was left.
    ListPods,
    /// Bringing the agent.
    CreateAgent,
    /// Looking at the agent that is there.
    GetAgent,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Version => "reach the sandbox backend",
            Self::CreatePod => "create pod",
            Self::WatchPod => "wait for pod",
            Self::GetPod => "look at pod",
            Self::Exec => "enter pod",
            Self::DeletePod => "remove pod",
            Self::ListPods => "list pods",
            Self::CreateAgent | Self::GetAgent => "bring the agent",
        }
    }

    /// Verb and resource, as a role names them.
    fn right(self) -> &'static str {
        match self {
            Self::Version => "get on /version",
            Self::CreatePod => "create on pods",
            Self::WatchPod => "watch on pods",
            Self::GetPod => "get on pods",
            // Older servers ask for `create` whatever the request's own method is.
            Self::Exec => "get and create on pods/exec",
            Self::DeletePod => "delete on pods",
            Self::ListPods => "list on pods",
            Self::CreateAgent => "create on configmaps",
            Self::GetAgent => "get on configmaps",
        }
    }
}

/// An error of the cluster.
pub(crate) fn cluster_error(operation: Operation, error: ClusterError) -> Error {
    let ClusterError::Api(status) = &error else {
        let reason = causes(&error);
        return Error::unavailable(
            TIER,
            format!(
                "{}: the API server does not answer: {reason}",
                operation.name()
            ),
            "see that the cluster runs and that KUBECONFIG names it (`kubectl version`)",
        )
        .with_source(error);
    };
    let words = sandbox_core::escape(&status.message).to_string();
    let new = |kind| Error::new(kind, operation.name(), words.clone()).on(TIER);
    match status.code {
        401 => Error::unavailable(
            TIER,
            format!("the API server does not know who asks: {words}"),
            "renew the credentials of the context (`kubectl auth whoami`)",
        ),
        403 if words.contains("exceeded quota") => new(ErrorKind::SetupFailed)
            .with_fix("ask for less memory or fewer processors, end other sandboxes, or have the namespace's quota raised"),
        403 if is_pod_security(&words) => new(ErrorKind::SetupFailed).with_fix(
            "use a namespace whose pod security level allows the init step, or the profile `restricted`, which leaves the network to the policy",
        ),
        403 => new(ErrorKind::SetupFailed).with_fix(format!(
            "give the account a role with {}",
            operation.right()
        )),
        404 if operation == Operation::CreatePod || operation == Operation::CreateAgent => {
            new(ErrorKind::SetupFailed).with_fix("create the namespace, or name another one")
        }
        404 => new(ErrorKind::SandboxEnded),
        409 => new(ErrorKind::AlreadyExists),
        422 => new(ErrorKind::InvalidSpec),
        _ => new(ErrorKind::Io),
    }
}

/// Whether the namespace's admission has refused the pod for what it asks for.
fn is_pod_security(words: &str) -> bool {
    words.contains("violates PodSecurity") || words.contains("PodSecurityPolicy")
}

/// An error and all of its causes, which say more than it.
fn causes(error: &ClusterError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text += &format!(": {words}");
        }
        cause = error.source();
    }
    sandbox_core::escape(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn refused(code: u16, message: &str) -> ClusterError {
        ClusterError::Api(Box::new(Status::failure(message, "Any").with_code(code)))
    }

    #[test]
    fn each_refusal_has_its_kind_and_keeps_its_words() {
        let words = "pods \"x\" is forbidden: User \"u\" cannot create resource \"pods\"";
        let error = cluster_error(Operation::CreatePod, refused(403, words));
        assert_eq!(error.kind(), ErrorKind::SetupFailed);
        let text = error.to_string();
        assert!(text.contains("cannot create resource"), "{text}");
        assert!(text.contains("create on pods"), "{text}");

        let quota = "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1";
        let text = cluster_error(Operation::CreatePod, refused(403, quota)).to_string();
        assert!(text.contains("quota raised"), "{text}");

        let level = "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\"";
        let text = cluster_error(Operation::CreatePod, refused(403, level)).to_string();
        assert!(text.contains("profile `restricted`"), "{text}");

        for (operation, code, kind) in [
            (Operation::CreatePod, 401, ErrorKind::SandboxUnavailable),
            (Operation::CreatePod, 404, ErrorKind::SetupFailed),
            (Operation::GetPod, 404, ErrorKind::SandboxEnded),
            (Operation::CreatePod, 422, ErrorKind::InvalidSpec),
            (Operation::CreatePod, 500, ErrorKind::Io),
        ] {
            assert_eq!(cluster_error(operation, refused(code, "x")).kind(), kind);
        }
    }

    #[test]
    fn what_could_disturb_a_terminal_is_escaped() {
        let text = cluster_error(Operation::GetPod, refused(500, "a\u{1b}[31mb")).to_string();
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
