//! The enforcement report entries for packages.

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Enforcement, Mechanism, Plan};

/// The entry of [`sandbox_core::Capability::Packages`] for a backend that calls
/// [`crate::packages::provide`].
#[must_use]
pub fn installed() -> Enforcement {
    Enforcement::enforced(Mechanism::InstalledBefore)
}

/// The entry of [`sandbox_core::Capability::PackageInstallation`] if packages are requested, for a
/// backend that calls [`crate::packages::provide`]. `network`: the network that the operator chose
/// for the provision sandbox; `None` if it has the full network.
#[must_use]
pub fn provisioned(network: Option<&str>) -> Enforcement {
    let reach = match network {
        None => "the whole network".to_owned(),
        Some(network) => format!("whatever is in the network {network:?}"),
    };
    Enforcement::partial(
        Mechanism::ProvisionSandbox,
        format!("that sandbox reaches {reach}, not the registry alone"),
    )
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
