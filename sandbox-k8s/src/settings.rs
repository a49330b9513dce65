//! Settings for choosing the tier by name.

use std::sync::Arc;

use sandbox_core::registry::{Setting, Settings};
use sandbox_core::spi::Backend;
use sandbox_core::{Error, ErrorKind, Result};

use crate::{KubernetesBackend, KubernetesConfig, TIER};

/// The settings of the tier.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: CONTEXT,
        description: "context of the kubeconfig file",
    },
    Setting {
        name: NAMESPACE,
        description: "namespace of the pods",
    },
];

const CONTEXT: &str = "context";
const NAMESPACE: &str = "namespace";

/// Opens the tier with settings. Does not connect yet.
pub(crate) fn open_with(settings: &Settings) -> Result<Arc<dyn Backend>> {
    let config = KubernetesConfig::from_environment()?.with_settings(settings)?;
    Ok(Arc::new(KubernetesBackend::new(config)))
}

impl KubernetesConfig {
    /// Applies these settings; each replaces the configured value.
    ///
    /// # Errors
    ///
    /// `InvalidSpec` for an unknown setting, and for an empty value.
    pub fn with_settings(mut self, settings: &Settings) -> Result<Self> {
        let refused = |context: String| {
            Err(Error::new(ErrorKind::InvalidSpec, "choose backend", context).on(TIER))
        };
        for (name, value) in settings {
            if value.is_empty() {
                return refused(format!("{name} is empty"));
            }
            match name.as_str() {
                CONTEXT => self.context = Some(value.clone()),
                NAMESPACE => self.namespace = Some(value.clone()),
                _ => return refused(format!("unknown setting {name}")),
            }
        }
        Ok(self)
    }

    /// The settings that open a tier with this context and namespace.
    pub(crate) fn settings(&self) -> Settings {
        let given = [(CONTEXT, &self.context), (NAMESPACE, &self.namespace)].into_iter();
        given
            .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_applied_and_recorded() {
        let settings = [("context", "kind"), ("namespace", "team")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = Settings::from(settings);
        let config = KubernetesConfig::default();
        let config = config.with_settings(&settings).expect("valid");
        assert_eq!(config.namespace.as_deref(), Some("team"));
        assert_eq!(config.settings(), settings);
        assert_eq!(KubernetesConfig::default().settings(), Settings::new());
        for (name, value) in [("namespace", ""), ("speed", "high")] {
            let bad = Settings::from([(name.to_owned(), value.to_owned())]);
            let error = KubernetesConfig::default().with_settings(&bad).map(drop);
            assert_eq!(error.expect_err(name).kind(), ErrorKind::InvalidSpec);
        }
    }
}
