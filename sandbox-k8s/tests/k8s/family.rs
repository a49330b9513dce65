//! What the tests that engines run as well have to know of pods.

use std::time::Duration;

use sandbox_core::{ByteSize, Cpus, SandboxSpec};

pub use sandbox_k8s::{KubernetesBackend as Backend, KubernetesConfig as Config};

/// What lies in the agent's folder inside.
pub const AGENTS_FOLDER: &str = "agent\n";
/// Whether the limit of memory counts swap: a node of a cluster has none.
pub const LIMITS_SWAP: bool = false;
/// Whether the storage itself bounds the number of files.
pub const BOUNDS_EMPTY_FILES: bool = false;
/// Whether interfaces of a network are there, and down.
pub const HAS_INTERFACES_DOWN: bool = true;

/// A life that a sandbox comes to live, and that a test waits for: a pod's begins before its containers do.
pub const SHORT_LIFE: Duration = Duration::from_secs(10);

/// What every backend of the tests is made of: one that waits for the room of pods that others have.
pub fn config() -> Config {
    Config::default().scheduling_timeout(Duration::from_secs(60))
}

/// What does not hold on pods, by the beginnings of the tests' names, and why.
pub const NOT_HERE: &[(&str, &str)] = &[
    (
        "isolation::roots_and_workspace_appear_as_asked",
        "a pod sees no folder of this host",
    ),
    (
        "lifetime::a_name_is_taken_once",
        "a pod's name is its own, and a sandbox's is free until it is detached",
    ),
    (
        "hostile::an_agent_that_breaks_the_protocol_is_ended",
        ANSWERS_NOTHING_ELSE,
    ),
    (
        "hostile::an_agent_that_stalls_holds_nobody",
        ANSWERS_NOTHING_ELSE,
    ),
    (
        "isolation::no_subprocess_where_the_policy_says_so",
        "what a node's kernel can do is not known before the pod runs: a program can be replaced by another one, and that is said",
    ),
    (
        "hostile::code_of_root_cannot_make_its_end_a_success",
        "root as the code's user is refused",
    ),
];

const ANSWERS_NOTHING_ELSE: &str = "limits are read through the agent before anything is executed: one that does not answer is refused before";

/// Whether code may be this user: nobody else's on the node.
pub fn is_codes_user(user: &str) -> bool {
    user.parse::<u32>().is_ok_and(|user| user >= 0x1000_0000)
}

/// A sandbox that a small node has room for many of: what a pod may use is reserved for it.
pub fn sized(spec: SandboxSpec) -> SandboxSpec {
    spec.memory(ByteSize::mib(256)).cpus(Cpus::milli(100))
}

/// A script in the agent's place: only what a client meets is in the script's hands, so that the pod comes to run at all.
pub fn agent(script: &str) -> String {
    let steps = "case \"$1\" in serve) exec sleep 300;; esac";
    format!("#!/bin/sh\n{steps}\n{script}")
}
