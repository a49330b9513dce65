//! Security contexts of pods and containers.

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};

use crate::config::PodProfile;

/// Capabilities of the agent: SETUID and SETGID to become the code's user, and KILL to end it.
/// SETPCAP (to empty the bounding set) and CHOWN (to hand over folders) are given up after setup.
const AGENT: [&str; 5] = ["CHOWN", "KILL", "SETGID", "SETPCAP", "SETUID"];

/// As [`AGENT`], plus the capability to take the network down, given up before the first client is
/// served.
const AGENT_WITH_NETWORK: [&str; 6] = ["CHOWN", "KILL", "NET_ADMIN", "SETGID", "SETPCAP", "SETUID"];

fn seccomp() -> SeccompProfile {
    SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        localhost_profile: None,
    }
}

/// The security context of the whole pod.
pub(super) fn pod(profile: PodProfile, code: (u32, u32)) -> PodSecurityContext {
    let restricted = profile == PodProfile::Restricted;
    PodSecurityContext {
        run_as_non_root: restricted.then_some(true),
        run_as_user: restricted.then_some(i64::from(code.0)),
        run_as_group: restricted.then_some(i64::from(code.1)),
        seccomp_profile: Some(seccomp()),
        ..PodSecurityContext::default()
    }
}

/// The security context of the container that code runs in.
pub(super) fn main(profile: PodProfile, code: (u32, u32)) -> SecurityContext {
    match profile {
        PodProfile::Restricted => SecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(i64::from(code.0)),
            run_as_group: Some(i64::from(code.1)),
            ..with(&[])
        },
        PodProfile::Hardened => as_root(&AGENT),
    }
}

/// As [`main`], for an agent that takes the network down.
pub(super) fn network_agent() -> SecurityContext {
    as_root(&AGENT_WITH_NETWORK)
}

/// Kubernetes grants added capabilities to root only.
fn as_root(capabilities: &[&str]) -> SecurityContext {
    SecurityContext {
        run_as_non_root: Some(false),
        run_as_user: Some(0),
        run_as_group: Some(0),
        ..with(capabilities)
    }
}

fn with(capabilities: &[&str]) -> SecurityContext {
    let add = capabilities.iter().map(|name| (*name).to_owned());
    SecurityContext {
        privileged: Some(false),
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: (!capabilities.is_empty()).then(|| add.collect()),
        }),
        seccomp_profile: Some(seccomp()),
        ..SecurityContext::default()
    }
}
