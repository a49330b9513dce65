//! Maps errors of the cluster to errors of this library.

use kube::Error as ClusterError;
use kube::client::UpgradeConnectionError;
use sandbox_core::{Error, ErrorKind};

use crate::TIER;
use crate::failure::SEE_CLUSTER;

/// A request to the cluster. Determines the operation in errors, and the right that the request
/// needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterOperation {
    /// Get the server's version.
    Version,
    /// Create a pod.
    CreatePod,
    /// Watch pods.
    WatchPod,
    /// Get a pod.
    GetPod,
    /// Execute a program in a pod.
    Exec,
    /// Remove a pod.
    DeletePod,
    /// List pods.
    ListPods,
    /// Create the agent's ConfigMap.
    CreateAgent,
    /// Get the agent's ConfigMap.
    GetAgent,
    /// Create the NetworkPolicy.
    CreateNetworkPolicy,
    /// Get the NetworkPolicy.
    GetNetworkPolicy,
    /// Create the Secret of a detached sandbox.
    CreateSecret,
    /// Get the Secret of a detached sandbox.
    GetSecret,
}

impl ClusterOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Version => "get server version",
            Self::CreatePod => "create pod",
            Self::WatchPod => "wait for pod",
            Self::GetPod => "get pod",
            Self::Exec => "enter pod",
            Self::DeletePod => "remove pod",
            Self::ListPods => "list pods",
            Self::CreateAgent | Self::GetAgent => "install the agent",
            Self::CreateNetworkPolicy | Self::GetNetworkPolicy => "deny the network",
            Self::CreateSecret => "store sandbox record",
            Self::GetSecret => "find sandbox",
        }
    }

    /// Whether the request creates an object, which needs an existing namespace.
    fn makes(self) -> bool {
        matches!(
            self,
            Self::CreatePod | Self::CreateAgent | Self::CreateNetworkPolicy | Self::CreateSecret
        )
    }

    /// Verb and resource, as in a role.
    pub(crate) fn right(self) -> &'static str {
        match self {
            Self::Version => "get on /version",
            Self::CreatePod => "create on pods",
            Self::WatchPod => "watch on pods",
            Self::GetPod => "get on pods",
            // A websocket is opened with `get`; newer servers require `create` as well.
            Self::Exec => "get and create on pods/exec",
            Self::DeletePod => "delete on pods",
            Self::ListPods => "list on pods",
            Self::CreateAgent => "create on configmaps",
            Self::GetAgent => "get on configmaps",
            Self::CreateNetworkPolicy => "create on networkpolicies",
            Self::GetNetworkPolicy => "get on networkpolicies",
            Self::CreateSecret => "create on secrets",
            Self::GetSecret => "get on secrets",
        }
    }
}

/// Converts an error of the cluster.
pub(crate) fn cluster_error(operation: ClusterOperation, error: ClusterError) -> Error {
    let (code, message) = match &error {
        ClusterError::Api(status) => (status.code, status.message.clone()),
        // Here the client library drops the server's message.
        ClusterError::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(status)) => {
            (status.as_u16(), format!("the API server answers {status}"))
        }
        _ => {
            let name = operation.name();
            let reason = causes(&error);
            return Error::unavailable(
                TIER,
                format!("{name}: the API server does not answer: {reason}"),
                SEE_CLUSTER,
            )
            .with_source(error);
        }
    };
    let message = sandbox_core::spi::escape(&message).to_string();
    let new = |kind| Error::new(kind, operation.name(), message.clone()).on(TIER);
    let admitted = operation.makes().then(|| admission(&message)).flatten();
    match (code, admitted) {
        (401, _) => Error::unavailable(
            TIER,
            format!("the API server does not accept the credentials: {message}"),
            "renew the credentials of the context (`kubectl auth whoami`)",
        ),
        (403, _) if is_missing_right(&message) || operation == ClusterOperation::Exec => {
            new(ErrorKind::SetupFailed).with_fix(format!(
                "give the account a role with {} (docs/kubernetes.md has the whole role)",
                operation.right()
            ))
        }
        // Webhooks choose their status codes, and an unreachable webhook is a server error.
        (_, Some(fix)) => new(ErrorKind::SetupFailed).with_fix(fix),
        (403, _) => new(ErrorKind::SetupFailed).with_fix("check what the namespace admits"),
        (404, _) if operation.makes() => {
            new(ErrorKind::SetupFailed).with_fix("create the namespace, or name another one")
        }
        (404, _) => new(ErrorKind::SandboxEnded),
        (409, _) if message.contains("already exists") => new(ErrorKind::AlreadyExists),
        (422, _) => new(ErrorKind::InvalidSpec),
        _ => new(ErrorKind::Io),
    }
}

/// Whether the message means a missing role.
fn is_missing_right(message: &str) -> bool {
    message.contains(" cannot ") && message.contains(" resource ")
}

/// Fragments of admission errors, and the fixes.
const ADMISSION: [(&str, &str); 14] = [
    ("exceeded quota", QUOTA),
    ("failed quota", QUOTA),
    ("usage per Container", LIMITS),
    ("usage per Pod", LIMITS),
    ("ratio per Container", LIMITS),
    ("ratio per Pod", LIMITS),
    (
        "because it is being terminated",
        "wait until the namespace is gone and create it again, or name another one",
    ),
    ("violates PodSecurity", LEVEL),
    ("PodSecurityPolicy", LEVEL),
    ("admission webhook", OPERATOR),
    ("ValidatingAdmissionPolicy", OPERATOR),
    (
        "failed calling webhook",
        "repair the webhook: the cluster accepts nothing until it answers",
    ),
    ("service account", TEMPLATE),
    ("Class", TEMPLATE),
];
const QUOTA: &str = "ask for less memory or fewer processors, end other sandboxes, or have the namespace's quota raised";
const LIMITS: &str =
    "ask for as much memory and as many processors as the namespace's LimitRange lets a pod have";
const LEVEL: &str = "use a namespace whose pod security level allows the capability `NET_ADMIN`, or the profile `restricted`, which leaves the network to the policy";
const OPERATOR: &str =
    "ask the cluster's operator for the admission rules: one of them has refused this object";
const TEMPLATE: &str = "use accounts and classes in the pod template that exist in the cluster";

fn admission(message: &str) -> Option<&'static str> {
    let known = ADMISSION.iter().find(|(known, _)| message.contains(known));
    known.map(|(_, fix)| *fix)
}

/// An error with all of its causes.
fn causes(error: &ClusterError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text += &format!(": {message}");
        }
        cause = error.source();
    }
    sandbox_core::spi::escape(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn refused(code: u16, message: &str) -> ClusterError {
        ClusterError::Api(Box::new(Status::failure(message, "Any").with_code(code)))
    }

    #[test]
    fn server_errors_map_to_kinds_and_keep_messages() {
        let message =
            "pods is forbidden: User \"u\" cannot create resource \"pods\" in API group \"\"";
        let error = cluster_error(ClusterOperation::CreatePod, refused(403, message));
        assert_eq!(error.kind(), ErrorKind::SetupFailed);
        let text = error.to_string();
        assert!(text.contains("cannot create resource"), "{text}");
        assert!(text.contains("create on pods"), "{text}");

        let quota = "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1";
        let text = cluster_error(ClusterOperation::CreatePod, refused(403, quota)).to_string();
        assert!(text.contains("quota raised"), "{text}");

        let taken = refused(409, "pods \"x\" already exists");
        let taken = cluster_error(ClusterOperation::CreatePod, taken);
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);

        // Secrets are subject to admission, too.
        let quota = "secrets \"x\" is forbidden: exceeded quota: q, requested: secrets=1";
        let text = cluster_error(ClusterOperation::CreateSecret, refused(403, quota)).to_string();
        assert!(text.contains("quota raised"), "{text}");

        let level = "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\"";
        let text = cluster_error(ClusterOperation::CreatePod, refused(403, level)).to_string();
        assert!(text.contains("profile `restricted`"), "{text}");

        for (operation, code, kind) in [
            (
                ClusterOperation::CreatePod,
                401,
                ErrorKind::SandboxUnavailable,
            ),
            (ClusterOperation::CreatePod, 404, ErrorKind::SetupFailed),
            (ClusterOperation::GetPod, 404, ErrorKind::SandboxEnded),
            (ClusterOperation::CreatePod, 422, ErrorKind::InvalidSpec),
            (ClusterOperation::CreatePod, 409, ErrorKind::Io),
            (ClusterOperation::CreatePod, 500, ErrorKind::Io),
        ] {
            assert_eq!(cluster_error(operation, refused(code, "x")).kind(), kind);
        }
    }

    /// Messages of Kubernetes 1.20 and 1.33.
    #[test]
    fn admission_errors_differ_from_missing_rights() {
        for (code, message, fix) in [
            (
                403,
                "pods \"x\" is forbidden: maximum memory usage per Container is 32Mi, but limit is 64Mi",
                "LimitRange",
            ),
            (
                403,
                "pods \"x\" is forbidden: unable to create new content in namespace n because it is being terminated",
                "name another one",
            ),
            (
                403,
                "pods \"x\" is forbidden: failed quota: q: must specify limits.nvidia.com/gpu",
                "quota",
            ),
            (
                403,
                "pods \"x\" is forbidden: error looking up service account n/none: serviceaccount \"none\" not found",
                "pod template",
            ),
            (
                403,
                "pods \"x\" is forbidden: no PriorityClass with name none was found",
                "pod template",
            ),
            (
                403,
                "pods \"x\" is forbidden: pod rejected: RuntimeClass \"none\" not found",
                "pod template",
            ),
            (
                403,
                "admission webhook \"w.example\" denied the request: no pods on Sundays",
                "has refused",
            ),
            (
                400,
                "admission webhook \"w.example\" denied the request: no pods on Sundays",
                "has refused",
            ),
            (
                422,
                "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p.example' with binding 'b' denied request: no pods on Sundays",
                "has refused",
            ),
            (
                500,
                "Internal error occurred: failed calling webhook \"w.example\": dial tcp: refused",
                "repair",
            ),
            (403, "pods \"x\" is forbidden: something new", "admits"),
        ] {
            let error = cluster_error(ClusterOperation::CreatePod, refused(code, message));
            assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
            let fix_text = error.fix().unwrap_or_default();
            assert!(fix_text.contains(fix), "{message}: {fix_text}");
            assert!(!fix_text.contains("role"), "{message}: {fix_text}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        let text =
            cluster_error(ClusterOperation::GetPod, refused(500, "a\u{1b}[31mb")).to_string();
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
