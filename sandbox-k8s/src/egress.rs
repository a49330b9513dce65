//! Connections of code to the hosts that rules allow. The pod's network is down: its agent makes
//! addresses of names local to the pod's own network namespace.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Sysctl;
use sandbox_agent::protocol::NAME_SERVER;
use sandbox_core::policy::{Destination, NetworkPolicy, NetworkRule};
use sandbox_core::{Enforcement, Plan};
use sandbox_host::egress::with_rules;

use crate::config::PodProfile;
use crate::template::PodTemplate;

/// Lets the agent listen on low ports without a capability. It belongs to the pod's network
/// namespace, and kubelets allow it from 1.22 on.
pub(crate) const LOW_PORTS: &str = "net.ipv4.ip_unprivileged_port_start";

/// The port of the agent's name server.
const NAME_SERVER_PORT: u16 = 53;

/// What decides whether a pod can have rules, besides the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EgressFacts<'a> {
    pub profile: PodProfile,
    pub template: Option<&'a PodTemplate>,
}

/// Whether the agent carries connections that rules allow.
pub(crate) fn carries_rules(plan: &Plan, facts: EgressFacts<'_>) -> bool {
    matches!(plan.network, NetworkPolicy::Allow(_)) && obstacle(facts).is_none()
}

/// The report of rules in a pod whose network is `isolated`.
pub(crate) fn report(
    isolated: Enforcement,
    rules: &[NetworkRule],
    facts: EgressFacts<'_>,
) -> Enforcement {
    match obstacle(facts) {
        Some(reason) => Enforcement::unenforced(reason),
        None => with_rules(isolated, rules),
    }
}

/// Why rules cannot work in any such pod.
pub(crate) fn obstacle(facts: EgressFacts<'_>) -> Option<String> {
    if facts.profile == PodProfile::Restricted {
        return Some(format!(
            "rules need an agent that starts with NET_ADMIN, which the profile {} does not allow",
            facts.profile.as_str()
        ));
    }
    let class = facts.template.and_then(PodTemplate::runtime_class)?;
    Some(format!(
        "rules need the kernel of the pod's node, and the runtime class {class} of the pod template may bring another: there is no network at all"
    ))
}

/// The setting of a pod with rules.
pub(crate) fn low_ports() -> Sysctl {
    Sysctl {
        name: LOW_PORTS.to_owned(),
        value: "0".to_owned(),
    }
}

/// Whether the agent itself listens here before code runs.
pub(crate) fn is_of_agent(plan: &Plan, local: SocketAddr) -> bool {
    let NetworkPolicy::Allow(rules) = &plan.network else {
        return false;
    };
    let listens_for = |rule: &NetworkRule| {
        let Destination::Network(network) = rule.destination() else {
            // A name has no listener before it is asked for.
            return false;
        };
        let covers = local.ip().is_unspecified() || network.contains(local.ip());
        !rule.is_deny() && covers && rule.ports().unwrap_or_default().contains(&local.port())
    };
    local == SocketAddr::from((NAME_SERVER, NAME_SERVER_PORT)) || rules.iter().any(listens_for)
}

/// Whether the text of a pod's `/etc/resolv.conf` names the agent as its only name server.
pub(crate) fn names_agent(resolv_conf: &str) -> bool {
    let mut servers = resolv_conf.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "nameserver").then(|| words.next().unwrap_or_default())
    });
    let agent = NAME_SERVER.to_string();
    servers.next() == Some(&agent) && servers.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::tests::plan;
    use sandbox_core::policy::EgressRules;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    fn with(spec: &SandboxSpec) -> Plan {
        let rules = EgressRules::parse(["one.test", "203.0.113.7:5000", "192.0.2.0/24:6000"]);
        let mut policy = CapabilityPolicy::new();
        policy.network = Some(NetworkPolicy::Allow(rules.expect("rules").into_rules()));
        plan(spec, &policy)
    }

    #[test]
    fn rules_are_refused_with_the_reason() {
        let template = PodTemplate::parse("spec: {runtimeClassName: gvisor}").expect("a template");
        let spec = SandboxSpec::new("job");
        let hardened = EgressFacts {
            profile: PodProfile::Hardened,
            template: None,
        };
        assert!(carries_rules(&with(&spec), hardened));
        let no_rules = plan(&spec, &CapabilityPolicy::new());
        assert!(!carries_rules(&no_rules, hardened));
        let restricted = EgressFacts {
            profile: PodProfile::Restricted,
            ..hardened
        };
        let other_runtime = EgressFacts {
            template: Some(&template),
            ..hardened
        };
        for (facts, reason) in [(restricted, "NET_ADMIN"), (other_runtime, "gvisor")] {
            assert!(!carries_rules(&with(&spec), facts), "{reason}");
            let found = obstacle(facts).expect(reason);
            assert!(found.contains(reason), "{found}");
        }
    }

    #[test]
    fn only_listeners_of_the_agent_are_expected() {
        let plan_with_rules = with(&SandboxSpec::new("job"));
        let expected =
            |address: &str| is_of_agent(&plan_with_rules, address.parse().expect("an address"));
        for own in [
            "198.18.0.1:53",
            "203.0.113.7:5000",
            "0.0.0.0:6000",
            "192.0.2.9:6000",
        ] {
            assert!(expected(own), "{own}");
        }
        for other in [
            "127.0.0.1:53",
            "0.0.0.0:53",
            "127.0.0.1:15001",
            "203.0.113.8:5000",
            "192.0.2.9:5000",
            "[::]:53",
            "127.0.0.1:80",
        ] {
            assert!(!expected(other), "{other}");
        }
        let no_rules = plan(&SandboxSpec::new("job"), &CapabilityPolicy::new());
        assert!(!is_of_agent(&no_rules, (NAME_SERVER, 53).into()));
    }

    #[test]
    fn only_the_agent_may_be_the_name_server() {
        assert!(names_agent("nameserver 198.18.0.1\n"));
        assert!(names_agent("search x\nnameserver\t198.18.0.1\noptions y\n"));
        for other in [
            "",
            "nameserver",
            "nameserver 198.18.0.10\n",
            "nameserver 198.18.0.1\nnameserver 10.96.0.10\n",
            "# nameserver 198.18.0.1\n",
        ] {
            assert!(!names_agent(other), "{other:?}");
        }
    }
}
