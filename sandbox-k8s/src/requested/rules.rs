//! Rules for fields that servers and their admission plugins fill in without changing what a pod
//! may do. Any other change is a difference.

/// The permitted values of a field that was not requested, or requested differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmissionRule {
    /// Any value: concerns where the pod runs and its priority, not what it may do.
    Any,
    /// This value, if none was requested.
    Default(&'static str),
    /// This stricter value, whatever was requested.
    Stricter(&'static str),
    /// The requested value, and additions.
    More,
    /// The same quantity in any notation.
    Amount,
    /// Missing, which means `false`.
    Omitted,
    /// An object with only this field.
    Just(&'static str),
}

use AdmissionRule::{Amount, Any, Default, Just, More, Omitted, Stricter};

/// Rules by field path; `[]` matches any element of a list, `*` any name. Init containers have the
/// rules of containers.
const RULES: &[(&str, AdmissionRule)] = &[
    // Scheduling.
    ("spec.affinity", Any),
    ("spec.imagePullSecrets", More),
    ("spec.nodeName", Any),
    ("spec.nodeSelector", More),
    ("spec.overhead", Any),
    ("spec.preemptionPolicy", Any),
    ("spec.priority", Any),
    ("spec.priorityClassName", Any),
    ("spec.schedulerName", Any),
    ("spec.tolerations", More),
    ("spec.topologySpreadConstraints", Any),
    // Fields that servers omit.
    ("spec.hostIPC", Omitted),
    ("spec.hostNetwork", Omitted),
    ("spec.hostPID", Omitted),
    ("spec.containers[].stdin", Omitted),
    ("spec.containers[].tty", Omitted),
    // Fields that servers fill in.
    (
        "spec.containers[].env[].valueFrom.fieldRef.apiVersion",
        Default("v1"),
    ),
    ("spec.containers[].imagePullPolicy", Stricter("Always")),
    ("spec.containers[].resizePolicy", Any),
    ("spec.containers[].resources.limits.*", Amount),
    ("spec.containers[].resources.requests", Any),
    (
        "spec.containers[].securityContext.procMount",
        Default("Default"),
    ),
    (
        "spec.containers[].terminationMessagePath",
        Default("/dev/termination-log"),
    ),
    ("spec.volumes[].emptyDir.sizeLimit", Amount),
    // The SELinux category that OpenShift gives each namespace.
    (
        "spec.containers[].securityContext.seLinuxOptions",
        Just("level"),
    ),
    ("spec.securityContext.seLinuxOptions", Just("level")),
    // Newer servers add these when the pod gets a node.
    ("metadata.labels.topology.kubernetes.io/region", Any),
    ("metadata.labels.topology.kubernetes.io/zone", Any),
];

/// The rule for a path; `None` for fields that must not change.
pub(super) fn rule(path: &str) -> Option<AdmissionRule> {
    let path = path.replacen("spec.initContainers[]", "spec.containers[]", 1);
    let known = RULES
        .iter()
        .find(|(known, _)| match known.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => *known == path,
        });
    known.map(|(_, rule)| *rule)
}
