//! Whether the engine's storage bounds what a container writes into its own layer over the image: tried, not believed.
//!
//! Engines take a size for that layer on some storage drivers. What becomes of it differs: some refuse it, some ignore it, and where
//! the kernel's own quotas of btrfs count for it, the image's files count too and the kernel suspends all limits whenever a container
//! goes. So a container of a small image is made, never started, and written to through the engine.

mod trial;

use sandbox_core::Plan;

use crate::Tier;
use crate::engine::{Engine, EngineFacts};

/// Whether a container's own layer can be given a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Quota {
    /// It can, and holds whatever of the image is below.
    Works,
    /// It cannot, for this reason.
    Missing(String),
    /// Nobody has asked: no layer can be written.
    NotNeeded,
}

/// Whether a container may be made to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    Allowed,
    /// Only what is known already is told: nothing is made for a question.
    No,
}

/// The name that engines know the size by.
pub(crate) const OPTION: &str = "size";

impl Quota {
    /// What the engine can do for the root of this plan: tried once in the engine's life in this process, and again where it could
    /// not be tried.
    pub(crate) async fn of(tier: Tier, engine: &Engine, plan: &Plan, trial: Trial) -> Self {
        if !plan.writable_root {
            return Self::NotNeeded;
        }
        if let Some(why) = hopeless(&engine.facts) {
            return Self::Missing(why);
        }
        if trial == Trial::No {
            return engine.quota.get().cloned().unwrap_or_else(|| {
                Self::Missing(format!(
                    "not measured: whether the engine's storage ({}) has quotas is tried when a sandbox is made",
                    engine.facts.storage
                ))
            });
        }
        let tried = engine.quota.get_or_try_init(|| trial::run(tier, engine));
        match tried.await {
            Ok(quota) => quota.clone(),
            Err(error) => Self::Missing(format!(
                "whether the engine's storage ({}) has quotas could not be tried: {}",
                engine.facts.storage,
                error.context()
            )),
        }
    }
}

/// Why it needs no trial: drivers of layers over a file system without quotas for folders refuse a size. `None` where there may be some.
fn hopeless(facts: &EngineFacts) -> Option<String> {
    let (driver, backing) = (facts.storage.as_str(), facts.backing.as_str());
    let layers = matches!(driver, "overlay" | "overlay2" | "fuse-overlayfs");
    (layers && !matches!(backing, "xfs" | "")).then(|| {
        format!(
            "the engine's storage ({driver} on {backing}) has no quotas; overlay2 on xfs mounted with pquota has, and btrfs with simple quotas"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_storage_that_may_have_quotas_is_tried() {
        let of = |storage: &str, backing: &str| {
            hopeless(&EngineFacts {
                storage: storage.into(),
                backing: backing.into(),
                ..EngineFacts::sample()
            })
        };
        let why = of("overlay2", "extfs").expect("none there");
        assert!(why.contains("overlay2 on extfs"), "{why}");
        for (storage, backing) in [
            ("overlay2", "xfs"),
            ("overlay", ""),
            ("btrfs", ""),
            ("zfs", "zfs"),
        ] {
            assert_eq!(of(storage, backing), None, "{storage} on {backing}");
        }
    }
}
