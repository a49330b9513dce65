//! Settings for choosing a tier by name.

use std::sync::Arc;

use sandbox_core::registry::{Setting, Settings};
use sandbox_core::spi::Backend;
use sandbox_core::{Error, ErrorKind, Result};

use crate::{ContainerBackend, ContainerConfig, EngineFamily};

/// The settings of every engine's tiers.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: RUNTIME,
        description: "OCI runtime, by its name in the engine's configuration",
    },
    Setting {
        name: PACKAGE_NETWORK,
        description: "the engine's network that packages are installed over",
    },
    Setting {
        name: CONDA,
        description: "the image's conda environment that programs run in",
    },
];

const RUNTIME: &str = "runtime";
const PACKAGE_NETWORK: &str = "package_network";
const CONDA: &str = "conda";

impl ContainerConfig {
    /// Applies these settings; each replaces the configured value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`] for an unknown setting, and for a value that is not a valid
    /// engine name.
    pub fn with_settings(mut self, settings: &Settings) -> Result<Self> {
        for (name, value) in settings {
            if !is_name(value) {
                let context = format!("{name}: {value:?} is not a valid engine name");
                return Err(
                    Error::new(ErrorKind::InvalidSpec, "choose backend", context)
                        .with_fix("write letters, digits, '.', '_', '-' and '/'"),
                );
            }
            match name.as_str() {
                RUNTIME => self.runtime = Some(value.clone()),
                PACKAGE_NETWORK => self.package_network = Some(value.clone()),
                CONDA => self.conda = Some(value.clone()),
                _ => {
                    let context = format!("unknown setting {name}");
                    return Err(Error::new(
                        ErrorKind::InvalidSpec,
                        "choose backend",
                        context,
                    ));
                }
            }
        }
        Ok(self)
    }
}

/// Constructors for a family's registrations. They do not connect yet.
impl<F: EngineFamily> ContainerBackend<F> {
    /// The tier with a policy and the default configuration.
    ///
    /// # Errors
    ///
    /// None.
    pub fn open() -> Result<Arc<dyn Backend>> {
        Self::open_with(&Settings::new())
    }

    /// The tier with a policy and these settings.
    ///
    /// # Errors
    ///
    /// As [`ContainerConfig::with_settings`].
    pub fn open_with(settings: &Settings) -> Result<Arc<dyn Backend>> {
        let config = ContainerConfig::default().with_settings(settings)?;
        Ok(Arc::new(Self::new(config)))
    }

    /// The tier without a policy and the default configuration.
    ///
    /// # Errors
    ///
    /// None.
    pub fn open_without_policy() -> Result<Arc<dyn Backend>> {
        Self::open_without_policy_with(&Settings::new())
    }

    /// The tier without a policy and these settings.
    ///
    /// # Errors
    ///
    /// As [`ContainerConfig::with_settings`].
    pub fn open_without_policy_with(settings: &Settings) -> Result<Arc<dyn Backend>> {
        let config = ContainerConfig::default().with_settings(settings)?;
        Ok(Arc::new(Self::without_policy(config)))
    }
}

/// Whether engines accept this as the name of a network or runtime. Names with a colon are refused:
/// they select other networks (another container's).
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    !text.is_empty() && text.len() <= 255 && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Result<ContainerConfig> {
        let settings = Settings::from([(name.to_owned(), value.to_owned())]);
        ContainerConfig::default().with_settings(&settings)
    }

    #[test]
    fn every_setting_is_applied() {
        for setting in SETTINGS {
            let config = set(setting.name, "mine").expect(setting.name);
            let taken = [config.runtime, config.package_network, config.conda];
            let taken = taken.into_iter().flatten().collect::<Vec<_>>();
            assert_eq!(taken, ["mine"], "{}", setting.name);
        }
    }

    #[test]
    fn invalid_engine_names_are_refused() {
        for value in ["", "a b", "container:other", "x\u{1b}[31m", "a\nb"] {
            let error = set(PACKAGE_NETWORK, value).expect_err(value);
            assert_eq!(error.kind(), ErrorKind::InvalidSpec);
            assert!(!error.context().contains('\u{1b}'), "{error}");
        }
        assert!(set("speed", "high").is_err());
    }
}
