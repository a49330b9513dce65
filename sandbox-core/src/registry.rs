//! The tiers of the linked backends. A backend crate registers its tiers at link time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::spi::Backend;
use crate::{Error, ErrorKind, Result};

/// Settings of a tier by name, for example `runtime` = `runsc`. They configure the backend, not one
/// sandbox.
pub type Settings = BTreeMap<String, String>;

/// Creates a backend with settings.
pub type OpenWith = fn(&Settings) -> Result<Arc<dyn Backend>>;

/// A setting of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name, as in policy files: `package_network`.
    pub name: &'static str,
    /// A description in one line.
    pub description: &'static str,
}

/// A tier, as a backend crate registers it with [`register!`](crate::register).
///
/// Linking a backend changes no default: a tier is used only if a program names it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The name that users choose it by: `local`, `docker_unsafe`.
    pub tier: &'static str,
    /// Its backend: `local`.
    pub backend: &'static str,
    /// A description in one line.
    pub description: &'static str,
    /// Whether it applies the policy; `false` for an `*_unsafe` tier.
    pub applies_policy: bool,
    /// Creates the backend with its defaults and the environment's values. Does not connect yet.
    pub open: fn() -> Result<Arc<dyn Backend>>,
    /// Creates it with settings; `None` if it has none.
    pub open_with: Option<OpenWith>,
    /// Its settings.
    pub settings: &'static [Setting],
    /// Its published matrix profiles: file name and JSON.
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

    /// Adds settings, and the function that creates the backend with them.
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

    /// Marks a tier that does not apply the policy.
    #[must_use]
    pub const fn without_policy(mut self) -> Self {
        self.applies_policy = false;
        self
    }

    /// Adds the published matrix profiles.
    #[must_use]
    pub const fn with_profiles(
        mut self,
        profiles: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.profiles = profiles;
        self
    }

    /// Creates the backend with these settings. Does not connect yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`] with the known settings if one is unknown, and errors of the
    /// backend.
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
        $crate::spi::inventory::submit! { $registration }
    };
}

/// The feature that links a tier, for the error message about an unknown tier. The crate `sandbox`
/// submits these.
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
/// [`ErrorKind::UnknownBackend`] if two crates registered the same tier.
pub fn tiers() -> Result<Vec<&'static Registration>> {
    sorted(inventory::iter::<Registration>.into_iter().collect())
}

/// The tier with this name.
///
/// # Errors
///
/// [`ErrorKind::UnknownBackend`] with the linked tiers, and the features that link others.
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
    fn unknown_settings_are_refused() {
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
