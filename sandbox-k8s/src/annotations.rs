//! Annotations that do not change what a pod may do. Annotations steer networks, runtimes,
//! injectors and cloud accounts, and no list of those is complete. So this lists the harmless ones;
//! all others are refused.

/// Harmless with any value.
const WITH_ANY_VALUE: &[&str] = &[
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "karpenter.sh/do-not-disrupt",
    "karpenter.sh/do-not-evict",
    "kubectl.kubernetes.io/default-container",
    "kubernetes.io/description",
    // Limits of the pod's traffic, if the network supports them.
    "kubernetes.io/egress-bandwidth",
    "kubernetes.io/ingress-bandwidth",
    // Records of the API server's admission plugins.
    "kubernetes.io/limit-ranger",
    "kubernetes.io/psp",
    "openshift.io/scc",
];

/// Harmless with these values only, which switch something off or state what holds anyway.
const WITH_VALUES: &[(&str, &[&str])] = &[
    ("consul.hashicorp.com/connect-inject", &["false"]),
    ("kuma.io/sidecar-injection", &["disabled", "false"]),
    ("linkerd.io/inject", &["disabled"]),
    ("sidecar.istio.io/inject", &["false"]),
    ("vault.hashicorp.com/agent-inject", &["false"]),
    // Servers before 1.27 repeat the seccomp profile of the pod's security context here.
    (
        "seccomp.security.alpha.kubernetes.io/pod",
        &["runtime/default"],
    ),
];

/// The same for a container; followed by the container's name.
const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Whether an annotation does not change what a pod may do. By Kubernetes' rules, a name without a
/// domain is private to its users. Some runtimes, however, use dotted names without a slash
/// (`io.kubernetes.cri-o.Devices`).
pub(crate) fn is_harmless(name: &str, value: &str) -> bool {
    if !name.contains(['/', '.']) || WITH_ANY_VALUE.contains(&name) {
        return true;
    }
    if name.starts_with(SECCOMP_OF) {
        return value == "runtime/default";
    }
    let with = WITH_VALUES.iter().find(|(known, _)| *known == name);
    with.is_some_and(|(_, values)| values.contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_harmless_annotations_are_accepted() {
        for (name, value) in [
            ("k8s.v1.cni.cncf.io/networks", "x"),
            ("v1.multus-cni.io/default-network", "x"),
            ("io.kubernetes.cri-o.Devices", "/dev/sda"),
            ("io.kubernetes.cri-o.userns-mode", "host"),
            ("seccomp-profile.kubernetes.cri-o.io/POD", "unconfined"),
            ("seccomp.security.alpha.kubernetes.io/pod", "unconfined"),
            (
                "container.seccomp.security.alpha.kubernetes.io/sandbox",
                "unconfined",
            ),
            (
                "container.apparmor.security.beta.kubernetes.io/sandbox",
                "unconfined",
            ),
            ("io.katacontainers.config.hypervisor.path", "/x"),
            ("dev.gvisor.flag.network", "host"),
            ("run.oci.keep_original_groups", "1"),
            ("sidecar.istio.io/inject", "true"),
            ("linkerd.io/inject", "enabled"),
            ("vault.hashicorp.com/agent-inject", "true"),
            ("iam.amazonaws.com/role", "admin"),
        ] {
            assert!(!is_harmless(name, value), "{name}: {value}");
        }
        for (name, value) in [
            ("team", "x"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
            ("sidecar.istio.io/inject", "false"),
            (
                "seccomp.security.alpha.kubernetes.io/pod",
                "runtime/default",
            ),
        ] {
            assert!(is_harmless(name, value), "{name}: {value}");
        }
    }
}
