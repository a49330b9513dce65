//! What holds of packages, for the report of a backend.

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Enforcement, Plan};

/// What is enforced of [`sandbox_core::Capability::Packages`] by a backend that calls [`crate::packages::provide`].
#[must_use]
pub fn installed() -> Enforcement {
    Enforcement::enforced("installed before the code runs, and read-only for it")
}

/// What is enforced of [`sandbox_core::Capability::PackageInstallation`] where packages are asked for, by a backend that calls
/// [`crate::packages::provide`] and gives the provision sandbox the whole network, or `network` where the operator chose that one.
#[must_use]
pub fn provisioned(network: Option<&str>) -> Enforcement {
    let reach = match network {
        None => "the whole network".to_owned(),
        Some(network) => format!("whatever is in the network {network:?}"),
    };
    Enforcement::partial(
        "a sandbox of its own, wheels alone, no secrets, no workspace",
        format!("that sandbox reaches {reach}, not the registry alone"),
    )
}

/// What is enforced of [`sandbox_core::Capability::PackageInstallation`] where the plan denies it.
#[must_use]
pub fn denied(plan: &Plan) -> Enforcement {
    match plan.network {
        NetworkPolicy::None => Enforcement::enforced("no network to a registry"),
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
    fn a_network_is_a_way_to_packages() {
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
