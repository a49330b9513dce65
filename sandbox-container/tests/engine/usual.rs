//! What the tests that other backends run as well have to know, and what holds of every engine's family.

use std::time::Duration;

use sandbox_container::{ContainerConfig, ProfileForm};
use sandbox_core::SandboxSpec;

use crate::family::FAMILY;

/// What lies in the agent's folder inside.
pub const AGENTS_FOLDER: &str = match FAMILY.profile_form {
    ProfileForm::Text => "agent\n",
    ProfileForm::File => "agent\nseccomp.json\n",
};
/// Whether the limit of memory counts swap.
pub const LIMITS_SWAP: bool = true;
/// Whether the storage itself bounds the number of files.
pub const BOUNDS_EMPTY_FILES: bool = FAMILY.full_tmpfs;
/// Whether interfaces of a network are there, and down.
pub const HAS_INTERFACES_DOWN: bool = false;

/// A life that a sandbox comes to live, and that a test waits for.
pub const SHORT_LIFE: Duration = Duration::from_secs(1);

/// What every backend of the tests is made of.
pub fn config() -> ContainerConfig {
    ContainerConfig::default()
}

/// Whether code may be this user.
pub fn is_codes_user(user: &str) -> bool {
    user == "1000"
}

/// A sandbox that any engine has room for.
pub fn sized(spec: SandboxSpec) -> SandboxSpec {
    spec
}

/// A script in the agent's place.
pub fn agent(script: &str) -> String {
    format!("#!/bin/sh\n{script}")
}
