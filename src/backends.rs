//! The backends that the features link, and the features that would link the others.

use sandbox_core::inventory;
use sandbox_core::registry::FeatureHint;

// A crate that is enabled but never named is dropped by the linker, and its registration with it.
#[cfg(feature = "docker")]
extern crate sandbox_docker as _;
#[cfg(feature = "local")]
extern crate sandbox_local as _;

inventory::submit! { FeatureHint { tier: "local", feature: "local" } }
inventory::submit! { FeatureHint { tier: "local_unsafe", feature: "local" } }
inventory::submit! { FeatureHint { tier: "docker", feature: "docker" } }
inventory::submit! { FeatureHint { tier: "docker_unsafe", feature: "docker" } }
