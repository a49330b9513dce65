//! Environment variables that configure the backend if it is opened by name.

use std::ffi::OsString;

use sandbox_core::{Error, ErrorKind, Result};

use crate::TIER;
use crate::config::PodProfile;

/// The environment variable with the profile of pods, used if the backend is opened by name. Empty
/// counts as unset.
pub const POD_PROFILE_VARIABLE: &str = "SANDBOX_K8S_PROFILE";

/// The profile named by [`POD_PROFILE_VARIABLE`].
///
/// # Errors
///
/// `InvalidSpec` for an unknown value.
pub(crate) fn profile() -> Result<PodProfile> {
    named(std::env::var_os(POD_PROFILE_VARIABLE))
}

fn named(value: Option<OsString>) -> Result<PodProfile> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(PodProfile::default());
    };
    let known = PodProfile::ALL.iter().find(|known| value == known.as_str());
    known.copied().ok_or_else(|| {
        let names = PodProfile::ALL.map(PodProfile::as_str).join(" or ");
        let context = format!("{POD_PROFILE_VARIABLE} is {value:?}, which is not a pod profile");
        Error::new(ErrorKind::InvalidSpec, "open backend", context)
            .on(TIER)
            .with_fix(format!("set it to {names}, or leave it out"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_is_chosen_by_name() {
        for known in PodProfile::ALL {
            assert_eq!(named(Some(known.as_str().into())).expect("known"), known);
        }
        for unset in [None, Some(OsString::new())] {
            assert_eq!(named(unset).expect("unset"), PodProfile::default());
        }
        // `hardened-init` is the former name of `hardened`.
        for unknown in ["baseline", "hardened-init"] {
            let error = named(Some(unknown.into())).expect_err("unknown");
            let fix = error.fix().expect("a fix");
            assert!(fix.contains("hardened or restricted"), "{fix}");
        }
    }
}
