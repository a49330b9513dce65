//! Backends register themselves at link time.

use std::sync::Arc;

use crate::spi::Backend;
use crate::{Error, ErrorKind, Result};

/// What a backend crate registers for each of its tiers, with [`register!`](crate::register).
///
/// Linking a backend changes nobody's default: a tier is used only when it is named.
#[derive(Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The tier's name, by which users choose it: `local`, `docker_unsafe`.
    pub tier: &'static str,
    /// The backend that it belongs to: `local`.
    pub backend: &'static str,
    /// One line for lists.
    pub description: &'static str,
    /// Whether the policy is applied. `false` is what an `*_unsafe` tier says.
    pub applies_policy: bool,
    /// Makes the backend out of its defaults and the environment. Does not connect to anything yet.
    pub open: fn() -> Result<Arc<dyn Backend>>,
    /// The committed matrix profiles of this tier: (file name, JSON).
    pub profiles: &'static [(&'static str, &'static str)],
}

impl Registration {
    /// A tier that applies the policy.
    #[must_use]
    pub const fn new(
        tier: &'static str,
        backend: &'static str,
        description: &'static str,
        open: fn() -> Result<Arc<dyn Backend>>,
    ) -> Self {
        Self {
            tier,
            backend,
            description,
            applies_policy: true,
            open,
            profiles: &[],
        }
    }

    /// The same without applying any policy.
    #[must_use]
    pub const fn without_policy(mut self) -> Self {
        self.applies_policy = false;
        self
    }

    /// The same with these committed matrix profiles.
    #[must_use]
    pub const fn with_profiles(
        mut self,
        profiles: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.profiles = profiles;
        self
    }
}

inventory::collect!(Registration);

/// Registers a tier: `sandbox_core::register!(Registration::new("local", "local", "…", open));`
#[macro_export]
macro_rules! register {
    ($registration:expr) => {
        $crate::inventory::submit! { $registration }
    };
}

/// Tells which feature would link a tier, so that an unknown name can be answered with it. The facade submits these.
#[derive(Debug)]
pub struct FeatureHint {
    /// The tier's name.
    pub tier: &'static str,
    /// The feature that links it.
    pub feature: &'static str,
}

inventory::collect!(FeatureHint);

/// The linked tiers, sorted by name.
///
/// # Errors
///
/// [`ErrorKind::UnknownBackend`] when two crates registered the same tier.
pub fn tiers() -> Result<Vec<&'static Registration>> {
    sorted(inventory::iter::<Registration>.into_iter().collect())
}

/// The tier of this name.
///
/// # Errors
///
/// [`ErrorKind::UnknownBackend`], listing what is linked and what a feature would add.
pub fn tier(name: &str) -> Result<&'static Registration> {
    let tiers = tiers()?;
    tiers
        .iter()
        .find(|registration| registration.tier == name)
        .copied()
        .ok_or_else(|| unknown(name, &tiers))
}

fn sorted(mut tiers: Vec<&'static Registration>) -> Result<Vec<&'static Registration>> {
    tiers.sort_by_key(|registration| registration.tier);
    match tiers.windows(2).find(|pair| pair[0].tier == pair[1].tier) {
        Some(pair) => Err(Error::new(
            ErrorKind::UnknownBackend,
            "list backends",
            format!("two linked crates register the tier {:?}", pair[0].tier),
        )),
        None => Ok(tiers),
    }
}

fn unknown(name: &str, tiers: &[&Registration]) -> Error {
    let linked = tiers
        .iter()
        .map(|registration| registration.tier)
        .collect::<Vec<_>>();
    let context = if linked.is_empty() {
        format!("no backend {name:?}: none is linked")
    } else {
        format!("no backend {name:?}: linked are {}", linked.join(", "))
    };
    let error = Error::new(ErrorKind::UnknownBackend, "choose backend", context);
    let hints = inventory::iter::<FeatureHint>;
    match hints.into_iter().find(|hint| hint.tier == name) {
        Some(hint) => error.with_fix(format!("build with --features {}", hint.feature)),
        None => {
            let mut more = inventory::iter::<FeatureHint>
                .into_iter()
                .filter(|hint| !linked.contains(&hint.tier))
                .map(|hint| format!("{} (--features {})", hint.tier, hint.feature))
                .collect::<Vec<_>>();
            more.sort();
            if more.is_empty() {
                error
            } else {
                error.with_fix(format!("features add {}", more.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Result<Arc<dyn Backend>> {
        Err(Error::new(ErrorKind::Unsupported, "open", "never opened"))
    }

    #[test]
    fn two_crates_cannot_register_the_same_tier() {
        static A: Registration = Registration::new("toy", "a", "", open);
        static B: Registration = Registration::new("toy", "b", "", open);
        static C: Registration = Registration::new("boat", "c", "", open);
        let error = sorted(vec![&A, &C, &B]).unwrap_err();
        assert!(error.to_string().contains("\"toy\""), "{error}");
        let names = sorted(vec![&A, &C])
            .unwrap()
            .iter()
            .map(|tier| tier.tier)
            .collect::<Vec<_>>();
        assert_eq!(names, ["boat", "toy"]);
    }
}
