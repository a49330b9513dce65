//! Engines with options of the operator for their sandboxes.

use std::sync::Arc;

use sandbox_core::Result;
use sandbox_core::registry::Settings;
use sandbox_core::spi::Backend;

/// A path that the options hide besides the engine's own. Engines do not.
pub(crate) const MASKED: &str = "/proc/zoneinfo";

/// The host name that the options set.
pub(crate) const HOST_NAME: &str = "tightened";

/// The size of a file that the options allow, in bytes.
pub(crate) const FILE_SIZE: u64 = 1 << 20;

/// A tier with options.
pub(crate) struct Tightened {
    /// With those of the constants above.
    pub(crate) backend: Arc<dyn Backend>,
    /// Each with options that it must refuse, and their text.
    pub(crate) refused: Vec<(String, Arc<dyn Backend>)>,
}

/// Opens a tier's engine with options.
type Open = fn(&Settings) -> Result<Tightened>;

/// The tiers with such options.
const TIERS: &[(&str, Open)] = &[
    #[cfg(feature = "docker")]
    ("docker", open::<sandbox_docker::Docker>),
    #[cfg(feature = "podman")]
    ("podman", open::<sandbox_podman::Podman>),
];

/// Options that loosen a sandbox, or mean nothing.
#[cfg(feature = "engines")]
fn refused() -> Vec<sandbox_container::EngineOptions> {
    use sandbox_container::{EngineOptions, Ulimit};
    let none = EngineOptions::default;
    vec![
        none().apparmor("unconfined"),
        none().masked_path("proc/zoneinfo"),
        none().masked_path("/"),
        none().masked_path("/proc/../sys"),
        none().masked_path("/proc/a:/proc/b"),
        none().ulimit(Ulimit::OpenFiles, 16),
        none().ulimit(Ulimit::MessageQueues, 819_201),
        none().processors("all"),
        none().cpu_shares(1025),
        none().cpu_shares(1),
        none().io_weight(501),
        none().oom_score_adj(1001),
        none().hostname("two words"),
    ]
}

#[cfg(feature = "engines")]
fn open<F: sandbox_container::EngineFamily>(settings: &Settings) -> Result<Tightened> {
    use sandbox_container::{ContainerBackend, ContainerConfig, EngineOptions, Ulimit};
    let config = ContainerConfig::default().with_settings(settings)?;
    let with = |options| {
        let backend = ContainerBackend::<F>::new(config.clone().options(options));
        Arc::new(backend) as Arc<dyn Backend>
    };
    let options = EngineOptions::default()
        .masked_path(MASKED)
        .hostname(HOST_NAME)
        .ulimit(Ulimit::FileSize, FILE_SIZE);
    let refused = refused().into_iter();
    Ok(Tightened {
        backend: with(options),
        refused: refused
            .map(|options| (format!("{options:?}"), with(options)))
            .collect(),
    })
}

/// A tier with options; `None` if it has none.
///
/// # Errors
///
/// Errors of the settings.
pub(crate) fn of(tier: &str, settings: &Settings) -> Result<Option<Tightened>> {
    let found = TIERS.iter().find(|(name, _)| *name == tier);
    found.map(|(_, open)| open(settings)).transpose()
}
