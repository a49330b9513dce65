//! Backends register themselves at link time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::spi::Backend;
use crate::{Error, ErrorKind, Result};

/// What a user sets of a tier beside policy and specification, by the setting's name: `runtime` to `runsc`. A tier takes those
/// alone that it says it has.
pub type Settings = BTreeMap<String, String>;

/// Makes a backend under settings.
pub type OpenWith = fn(&Settings) -> Result<Arc<dyn Backend>>;

/// A setting that a tier has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name, as in policy files: `package_network`.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
}

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
    /// The same under settings, where the tier has any.
    pub open_with: Option<OpenWith>,
    /// The settings that it has.
    pub settings: &'static [Setting],
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
            open_with: None,
            settings: &[],
            profiles: &[],
        }
    }

    /// The same with these settings, under which `open_with` makes the backend.
    #[must_use]
    pub const fn with_settings(
        mut self,
        settings: &'static [Setting],
        open_with: OpenWith,
    ) -> Self {
        self.settings = settings;
        self.open_with = Some(open_with);
        self
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

    /// Makes the backend under these settings. Does not connect to anything yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`] for a setting that the tier does not have, naming those that it has; and what opening finds.
    pub fn opened(&self, settings: &Settings) -> Result<Arc<dyn Backend>> {
        let has = |name: &str| self.settings.iter().any(|setting| setting.name == name);
        if let Some(name) = settings.keys().find(|name| !has(name)) {
            let known = self.settings.iter().map(|setting| setting.name);
            let known = match known.collect::<Vec<_>>().join(", ") {
                known if known.is_empty() => "it has none".to_owned(),
                known => format!("it has {known}"),
            };
            let context = format!("tier {} has no setting {name}: {known}", self.tier);
            return Err(
                Error::new(ErrorKind::InvalidSpec, "choose backend", context)
                    .on(self.tier)
                    .with_fix("leave it out, or choose another tier"),
            );
        }
        match self.open_with {
            Some(open_with) if !settings.is_empty() => open_with(settings),
            _ => (self.open)(),
        }
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
        format!("unknown tier {name:?}: no backend is linked")
    } else {
        format!("unknown tier {name:?}; available: {}", linked.join(", "))
    };
    let error = Error::new(ErrorKind::UnknownBackend, "choose backend", context);
    let hints = inventory::iter::<FeatureHint>;
    if let Some(hint) = hints.into_iter().find(|hint| hint.tier == name) {
        return error.with_fix(format!("build with --features {}", hint.feature));
    }
    let mut fixes = inventory::iter::<FeatureHint>
        .into_iter()
        .filter(|hint| !linked.contains(&hint.tier))
        .map(|hint| format!("build with --features {} for {}", hint.feature, hint.tier))
        .collect::<Vec<_>>();
    fixes.sort();
    if !linked.is_empty() {
        fixes.insert(0, "choose one of these".to_owned());
    }
    match fixes.is_empty() {
        true => error,
        false => error.with_fix(fixes.join(", or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Result<Arc<dyn Backend>> {
        Err(Error::new(ErrorKind::Unsupported, "open", "never opened"))
    }

    #[test]
    fn a_setting_is_taken_or_refused_by_its_name() {
        fn open_with(settings: &Settings) -> Result<Arc<dyn Backend>> {
            Err(Error::new(ErrorKind::Io, "open", settings["speed"].clone()))
        }
        const SPEED: &[Setting] = &[Setting {
            name: "speed",
            description: "how fast",
        }];
        let set = |name: &str| Settings::from([(name.to_owned(), "high".to_owned())]);
        let refused = |tier: &Registration, settings| match tier.opened(&settings) {
            Ok(_) => panic!("neither opens"),
            Err(error) => error,
        };
        let plain = Registration::new("toy", "a", "", open);
        let error = refused(&plain, set("speed"));
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
        assert!(error.context().contains("it has none"), "{error}");
        let tier = plain.with_settings(SPEED, open_with);
        assert!(
            refused(&tier, set("sped"))
                .context()
                .contains("it has speed")
        );
        assert_eq!(refused(&tier, set("speed")).context(), "high");
        assert_eq!(refused(&tier, Settings::new()).context(), "never opened");
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
