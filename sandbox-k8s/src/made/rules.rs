//! What servers and their admission plugins fill in, and what of it changes nothing: everything else is a difference.

/// What a field may be where nobody asked for it, or something else was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Anything: where the pod runs and how urgent it is, not what it may do.
    Any,
    /// This value, where none was asked for.
    Default(&'static str),
    /// This value, whatever was asked for: it is stricter.
    Stricter(&'static str),
    /// What was asked for, and more.
    More,
    /// The same amount, however it is written.
    Amount,
    /// Nothing, which means `false`.
    Omitted,
    /// An object with this field alone.
    Just(&'static str),
}

use Rule::{Amount, Any, Default, Just, More, Omitted, Stricter};

/// Fields by their paths; `[]` is any element of a list, `*` any name. Init containers are as containers.
const RULES: &[(&str, Rule)] = &[
    // Where and when it runs.
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
    // What servers leave out.
    ("spec.hostIPC", Omitted),
    ("spec.hostNetwork", Omitted),
    ("spec.hostPID", Omitted),
    ("spec.containers[].stdin", Omitted),
    ("spec.containers[].tty", Omitted),
    // What they fill in.
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
    // A category of its own, which OpenShift gives each namespace.
    (
        "spec.containers[].securityContext.seLinuxOptions",
        Just("level"),
    ),
    ("spec.securityContext.seLinuxOptions", Just("level")),
    // Of newer servers, when the pod gets a node.
    ("metadata.labels.topology.kubernetes.io/region", Any),
    ("metadata.labels.topology.kubernetes.io/zone", Any),
];

/// The rule of a field, where it has one.
pub(super) fn rule(path: &str) -> Option<Rule> {
    let path = path.replacen("spec.initContainers[]", "spec.containers[]", 1);
    let known = RULES
        .iter()
        .find(|(known, _)| match known.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => *known == path,
        });
    known.map(|(_, rule)| *rule)
}
