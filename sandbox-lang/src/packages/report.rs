//! The enforcement report entries for packages.

use sandbox_core::policy::{NetworkPolicy, NetworkRule};
use sandbox_core::{Enforcement, Mechanism, Plan};

use super::{PackageSettings, registry_rules};

/// The entry of [`sandbox_core::Capability::Packages`] for a backend that calls
/// [`crate::packages::provide`].
#[must_use]
pub fn installed() -> Enforcement {
    Enforcement::enforced(Mechanism::InstalledBefore)
}

/// The entry of [`sandbox_core::Capability::PackageInstallation`] if packages are requested, for a
/// backend that calls [`crate::packages::provide`].
#[must_use]
pub fn provisioned(network: &ProvisionNetwork<'_>) -> Enforcement {
    let gap = match network {
        ProvisionNetwork::Full => {
            "that sandbox reaches the whole network, not only the registry".to_owned()
        }
        ProvisionNetwork::Named(network) => format!(
            "that sandbox reaches whatever is in the network {network:?}, not only the registry"
        ),
        ProvisionNetwork::Rules(rules) if rules.is_empty() => {
            return Enforcement::enforced(Mechanism::ProvisionSandbox);
        }
        ProvisionNetwork::Rules(rules) if rules.iter().all(NetworkRule::reads_requests) => {
            return Enforcement::enforced([
                Mechanism::ProvisionSandbox,
                Mechanism::HostDialsAllowedNames,
                Mechanism::RequestsChecked,
            ]);
        }
        ProvisionNetwork::Rules(rules) => {
            let hosts = rules.iter().map(|rule| rule.destination().to_string());
            let hosts = hosts.collect::<Vec<_>>().join(", ");
            let gap = format!(
                "that sandbox reaches only the servers of {hosts}, which may have other names"
            );
            let mechanisms = [
                Mechanism::ProvisionSandbox,
                Mechanism::HostDialsAllowedNames,
            ];
            return Enforcement::partial(mechanisms, gap);
        }
    };
    Enforcement::partial(Mechanism::ProvisionSandbox, gap)
}

/// The network of a provision sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvisionNetwork<'a> {
    /// All of it.
    Full,
    /// The engine's network that the operator chose.
    Named(&'a str),
    /// What these rules allow.
    Rules(Vec<NetworkRule>),
}

impl ProvisionNetwork<'_> {
    /// The network of a backend that enforces rules, for a plan with packages.
    ///
    /// With `ends_tls`, the backend can enforce rules at level `http`.
    #[must_use]
    pub fn by_rules(plan: &Plan, settings: &PackageSettings, ends_tls: bool) -> Self {
        registry_rules(plan, settings, ends_tls).map_or(Self::Full, Self::Rules)
    }
}

/// The entry of [`sandbox_core::Capability::PackageInstallation`] if the plan denies it.
#[must_use]
pub fn denied(plan: &Plan) -> Enforcement {
    match plan.network {
        NetworkPolicy::None => Enforcement::enforced(Mechanism::NoRegistry),
        _ => Enforcement::unenforced(
            "code with a network can fetch packages into folders of its own; network = \"none\" would deny that",
        ),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    use super::*;

    #[test]
    fn network_allows_package_installation() {
        for (network, status) in [
            (NetworkPolicy::None, "enforced"),
            (NetworkPolicy::Full, "unenforced"),
        ] {
            let mut policy = CapabilityPolicy::new();
            policy.package_installation = Some(false);
            policy.network = Some(network);
            let plan = Plan::resolve(&SandboxSpec::new("test"), &policy).expect("a plan");
            assert_eq!(denied(&plan).status(), status);
            assert!(
                plan.demand(sandbox_core::Capability::PackageInstallation)
                    .is_some()
            );
        }
    }
}
