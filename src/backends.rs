//! The backends that the features link, and the features that would link the others.

use sandbox_core::registry::FeatureHint;
use sandbox_core::spi::inventory;

// A crate that is enabled but never named is dropped by the linker, and its registration with it.
#[cfg(feature = "docker")]
extern crate sandbox_docker as _;
#[cfg(feature = "k8s")]
extern crate sandbox_k8s as _;
#[cfg(feature = "local")]
extern crate sandbox_local as _;
#[cfg(feature = "podman")]
extern crate sandbox_podman as _;

inventory::submit! { FeatureHint { tier: "local", feature: "local" } }
inventory::submit! { FeatureHint { tier: "local_unsafe", feature: "local" } }
inventory::submit! { FeatureHint { tier: "docker", feature: "docker" } }
inventory::submit! { FeatureHint { tier: "docker_unsafe", feature: "docker" } }
inventory::submit! { FeatureHint { tier: "podman", feature: "podman" } }
inventory::submit! { FeatureHint { tier: "podman_unsafe", feature: "podman" } }
inventory::submit! { FeatureHint { tier: "k8s", feature: "k8s" } }

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, ErrorKind, SandboxClient, registry};

    /// The tiers that each feature links, and whether it is on.
    const FEATURES: [(&str, &[&str], bool); 4] = [
        ("local", &["local", "local_unsafe"], cfg!(feature = "local")),
        (
            "docker",
            &["docker", "docker_unsafe"],
            cfg!(feature = "docker"),
        ),
        (
            "podman",
            &["podman", "podman_unsafe"],
            cfg!(feature = "podman"),
        ),
        ("k8s", &["k8s"], cfg!(feature = "k8s")),
    ];

    #[test]
    fn only_its_feature_links_a_tier() {
        let linked = registry::tiers().unwrap();
        for (feature, tiers, is_on) in FEATURES {
            for tier in tiers {
                let registration = linked
                    .iter()
                    .find(|registration| registration.tier == *tier);
                assert_eq!(registration.is_some(), is_on, "{tier}");
                if let Some(registration) = registration {
                    assert_eq!(
                        registration.applies_policy,
                        !tier.ends_with("_unsafe"),
                        "{tier}"
                    );
                    continue;
                }
                let error = SandboxClient::open(tier, CapabilityPolicy::new()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnknownBackend);
                assert_eq!(
                    error.fix(),
                    Some(format!("build with --features {feature}").as_str())
                );
            }
        }
    }
}
