//! Connections of code to the hosts that rules allow. The container has no network: its agent makes
//! addresses of names local to the container's own network namespace.

use bollard::models::Mount;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Enforcement, Plan};
use sandbox_host::egress::with_rules;

use crate::engine::{EngineFacts, KernelIsolation};
use crate::volume;

/// What the agent needs to add addresses and routes. It drops it before code runs.
pub(crate) const CAPABILITY: &str = "NET_ADMIN";

/// Lets the agent listen on low ports without a capability. It belongs to the network namespace.
pub(crate) const LOW_PORTS: (&str, &str) = ("net.ipv4.ip_unprivileged_port_start", "0");

/// The first kernel with that setting.
const LOW_PORTS_SINCE: (u32, u32) = (4, 11);

/// Whether the agent carries connections that rules allow.
pub(crate) fn carries_rules(plan: &Plan, facts: &EngineFacts) -> bool {
    matches!(plan.network, NetworkPolicy::Allow(_)) && obstacle(facts).is_none()
}

/// The report of a network that is `isolated`, with the plan's rules if it has some.
pub(crate) fn report(isolated: Enforcement, plan: &Plan, facts: &EngineFacts) -> Enforcement {
    match (&plan.network, obstacle(facts)) {
        (NetworkPolicy::Allow(_), Some(reason)) => Enforcement::unenforced(reason),
        (NetworkPolicy::Allow(rules), None) => with_rules(isolated, rules),
        _ => isolated,
    }
}

/// Whether rules work in containers of this engine.
pub(crate) fn can_carry_rules(facts: &EngineFacts) -> bool {
    obstacle(facts).is_none()
}

/// Why rules cannot work in containers of this engine.
fn obstacle(facts: &EngineFacts) -> Option<String> {
    if facts.kernel_isolation == KernelIsolation::Machine {
        return Some(format!(
            "rules need the host's kernel or gVisor's, and {} has its own machine: there is no \
             network at all",
            facts.runtime
        ));
    }
    (facts.kernel < LOW_PORTS_SINCE).then(|| {
        format!(
            "rules need Linux {}.{} or newer ({}): there is no network at all",
            LOW_PORTS_SINCE.0, LOW_PORTS_SINCE.1, LOW_PORTS.0
        )
    })
}

/// Mounts the files that make the agent the name server, from the agent's volume, which is at this
/// path of the engine's host.
pub(crate) fn name_mounts(folder: &str) -> [Mount; 2] {
    [
        hosts_mount(folder),
        volume::file_mount(folder, volume::RESOLV_CONF, "/etc/resolv.conf"),
    ]
}

/// Mounts the file with the names that need no network.
pub(crate) fn hosts_mount(folder: &str) -> Mount {
    volume::file_mount(folder, volume::HOSTS, "/etc/hosts")
}
