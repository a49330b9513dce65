//! Explains why a pod does not run, from its status: the scheduler's and the kubelet's messages.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use sandbox_core::{Error, ErrorKind};

use crate::TIER;
use crate::egress::LOW_PORTS;
use crate::lowering::CONTAINER;

/// How far a pod has come.
#[derive(Debug)]
pub(crate) enum PodProgress {
    Running,
    /// The pod is starting.
    Pending,
    /// No node has room; holds the scheduler's message. May change.
    Unschedulable(String),
    /// The pod will not run.
    Failed(Error),
}

/// The fix for a cluster that does not answer.
pub(crate) const SEE_CLUSTER: &str =
    "see that the cluster runs and that KUBECONFIG names it (`kubectl version`)";

/// The reason of a pod whose kernel settings its kubelet does not allow. Only pods with egress rules
/// have such a setting.
const FORBIDDEN_SETTING: &str = "SysctlForbidden";

/// Reasons for waiting that will not resolve themselves, and their error kinds.
const PERMANENT: [(&str, ErrorKind); 10] = [
    ("ErrImageNeverPull", ErrorKind::ImageNotFound),
    ("ErrImagePull", ErrorKind::ImageNotFound),
    ("ImagePullBackOff", ErrorKind::ImageNotFound),
    ("InvalidImageName", ErrorKind::InvalidSpec),
    ("ImageInspectError", ErrorKind::SetupFailed),
    ("RegistryUnavailable", ErrorKind::RegistryUnreachable),
    ("CreateContainerConfigError", ErrorKind::SetupFailed),
    ("CreateContainerError", ErrorKind::SetupFailed),
    ("RunContainerError", ErrorKind::SetupFailed),
    ("CrashLoopBackOff", ErrorKind::SetupFailed),
];

/// How far a pod has come, according to its status. It runs when the container of code does.
pub(crate) fn progress(pod: &Pod) -> PodProgress {
    progress_of(pod, CONTAINER)
}

/// As [`progress`], for another container or init container.
pub(crate) fn progress_of(pod: &Pod, container: &str) -> PodProgress {
    let Some(status) = &pod.status else {
        return PodProgress::Pending;
    };
    let init = status.init_container_statuses.iter().flatten();
    let main = status.container_statuses.iter().flatten();
    for container in init.chain(main) {
        if let Some(error) = permanent_failure(container) {
            return PodProgress::Failed(error);
        }
    }
    if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
        let why = status_reason(status)
            .unwrap_or_else(|| "the pod ended before its agent answered".into());
        let error = ended_early(why);
        return PodProgress::Failed(match status.reason.as_deref() {
            Some(FORBIDDEN_SETTING) => error.with_fix(format!(
                "use nodes with Kubernetes 1.22 or newer, or have their kubelets allow it (`--allowed-unsafe-sysctls={LOW_PORTS}`)"
            )),
            _ => error,
        });
    }
    let init = status.init_container_statuses.iter().flatten();
    let mut containers = init.chain(status.container_statuses.iter().flatten());
    let runs = containers.any(|found| {
        let state = found.state.as_ref();
        found.name == container && state.is_some_and(|state| state.running.is_some())
    });
    if runs {
        return PodProgress::Running;
    }
    match unschedulable(status) {
        Some(message) => PodProgress::Unschedulable(message),
        None => PodProgress::Pending,
    }
}

/// The error for a pod that ended before its agent answered.
pub(crate) fn ended_early(why: String) -> Error {
    failed(ErrorKind::SetupFailed, why)
}

fn failed(kind: ErrorKind, context: String) -> Error {
    let context = sandbox_core::spi::escape(&context).to_string();
    let error = Error::new(kind, "start pod", context).on(TIER);
    match kind {
        ErrorKind::ImageNotFound => error.with_fix(
            "let the nodes pull it (`pull`), name an image that they can get, or bring it to every node",
        ),
        _ => error,
    }
}

fn permanent_failure(container: &ContainerStatus) -> Option<Error> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    let (_, kind) = PERMANENT.iter().find(|(known, _)| *known == reason)?;
    let message = waiting.message.as_deref().unwrap_or("no more is known");
    let kind = match *kind {
        // The reason is the same for all three; the registry's message differs.
        ErrorKind::ImageNotFound if is_denied(message) => ErrorKind::ImageDenied,
        ErrorKind::ImageNotFound if is_unreachable(message) => ErrorKind::RegistryUnreachable,
        kind => kind,
    };
    Some(failed(kind, format!("{reason}: {message}")))
}

fn is_denied(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    [
        "unauthorized",
        "denied",
        "authentication required",
        "forbidden",
    ]
    .iter()
    .any(|word| message.contains(word))
}

fn is_unreachable(message: &str) -> bool {
    [
        "no such host",
        "i/o timeout",
        "connection refused",
        "network is unreachable",
        "server misbehaving",
    ]
    .iter()
    .any(|word| message.contains(word))
}

fn unschedulable(status: &PodStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })?;
    Some(condition.message.clone().unwrap_or_default())
}

/// The error for a pod that no node had room for.
pub(crate) fn unschedulable_error(message: &str) -> Error {
    failed(ErrorKind::SetupFailed, format!("Unschedulable: {message}"))
        .with_fix("ask for less memory or fewer processors, or wait until other pods have ended")
}

/// Why a pod that ran has ended; `None` if it runs.
pub(crate) fn end_reason(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let ended = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    let mut containers = status.container_statuses.iter().flatten();
    let stopped = containers.any(|container| {
        let state = container.state.as_ref();
        container.name == CONTAINER && state.is_some_and(|state| state.terminated.is_some())
    });
    (ended || stopped)
        .then(|| status_reason(status).unwrap_or_else(|| "its agent has ended".into()))
}

/// Why a pod has ended, if its status says so.
pub(crate) fn status_reason(status: &PodStatus) -> Option<String> {
    let part = |reason: Option<&str>, message: Option<&str>| match (reason, message) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
        (None, None) => None,
    };
    // For example Evicted, DeadlineExceeded or NodeLost.
    if let Some(message) = part(status.reason.as_deref(), status.message.as_deref()) {
        return Some(message);
    }
    let init = status.init_container_statuses.iter().flatten();
    let main = status.container_statuses.iter().flatten();
    for container in init.chain(main) {
        let Some(ended) = container
            .state
            .as_ref()
            .and_then(|state| state.terminated.as_ref())
        else {
            continue;
        };
        if ended.exit_code == 0 {
            continue;
        }
        let reason = ended.reason.as_deref().unwrap_or("Error");
        let message = ended.message.as_deref().unwrap_or("").trim();
        let name = &container.name;
        let code = ended.exit_code;
        let message = format!("container {name}: {reason} (exit code {code}) {message}");
        return Some(message.trim_end().to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {}, "status": status})).expect("a pod")
    }

    fn error(status: serde_json::Value) -> Error {
        match progress(&pod(status)) {
            PodProgress::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }

    fn waiting(reason: &str, message: &str) -> serde_json::Value {
        json!({"phase": "Pending", "containerStatuses": [{
            "name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}},
        }]})
    }

    #[test]
    fn waiting_reasons_map_to_error_kinds() {
        for (reason, message, kind) in [
            (
                "ErrImageNeverPull",
                "Container image \"x\" is not present",
                ErrorKind::ImageNotFound,
            ),
            (
                "ImagePullBackOff",
                "Back-off pulling image \"x\"",
                ErrorKind::ImageNotFound,
            ),
            ("ErrImagePull", "401 Unauthorized", ErrorKind::ImageDenied),
            (
                "ErrImagePull",
                "dial tcp: no such host",
                ErrorKind::RegistryUnreachable,
            ),
            (
                "CreateContainerConfigError",
                "image has non-numeric user",
                ErrorKind::SetupFailed,
            ),
        ] {
            let error = error(waiting(reason, message));
            assert_eq!(error.kind(), kind, "{reason}");
            let text = error.to_string();
            assert!(text.contains(reason), "{text}");
        }
    }

    #[test]
    fn starting_container_is_not_a_failure() {
        for reason in ["ContainerCreating", "PodInitializing"] {
            let found = progress(&pod(waiting(reason, "")));
            assert!(matches!(found, PodProgress::Pending), "{found:?}");
        }
        assert!(matches!(progress(&Pod::default()), PodProgress::Pending));
    }

    #[test]
    fn unschedulable_pod_is_not_failed() {
        let status = json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient cpu.",
        }]});
        match progress(&pod(status)) {
            PodProgress::Unschedulable(message) => assert!(message.contains("Insufficient cpu")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ended_pod_reports_its_reason() {
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"});
        assert!(
            error(evicted)
                .to_string()
                .contains("Evicted: The node was low")
        );
        for (statuses, name, message) in [
            (
                "initContainerStatuses",
                "network",
                "the network is not denied",
            ),
            (
                "containerStatuses",
                CONTAINER,
                "cannot take the network away: eth0: EPERM",
            ),
        ] {
            let failed = json!({"phase": "Failed", statuses: [{
                "name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 71, "reason": "Error", "message": format!("{message}\n")}},
            }]});
            let text = error(failed).to_string();
            let expected = format!("container {name}: Error (exit code 71) {message}");
            assert!(text.contains(&expected), "{text}");
        }
    }

    #[test]
    fn pod_ends_with_its_phase_or_its_agent() {
        let ended = |code: i32| {
            json!({"phase": "Running", "containerStatuses": [{
                "name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code, "reason": "OOMKilled"}},
            }]})
        };
        let why = end_reason(&pod(ended(137))).expect("over");
        assert!(why.contains("OOMKilled"), "{why}");
        assert_eq!(
            end_reason(&pod(ended(0))).as_deref(),
            Some("its agent has ended")
        );
        assert!(end_reason(&pod(json!({"phase": "Failed", "reason": "Evicted"}))).is_some());
        assert_eq!(end_reason(&pod(json!({"phase": "Running"}))), None);
        assert_eq!(end_reason(&Pod::default()), None);
    }

    #[test]
    fn only_the_sandbox_container_counts_as_running() {
        let status = |name: &str| {
            json!({"phase": "Running", "containerStatuses": [{
                "name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {}},
            }]})
        };
        assert!(matches!(
            progress(&pod(status(CONTAINER))),
            PodProgress::Running
        ));
        assert!(matches!(
            progress(&pod(status("sidecar"))),
            PodProgress::Pending
        ));
    }
}
