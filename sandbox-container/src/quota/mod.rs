//! Tests whether the engine's storage limits a container's writable layer.
//!
//! Engines accept a size for that layer on some storage drivers. Some then refuse it, some ignore
//! it. With classic btrfs quotas the image's files count as well, and the kernel suspends all
//! limits whenever a container is removed. So a container of a small image is created, never
//! started, and written to through the engine.

mod trial;

use sandbox_core::Plan;

use crate::Tier;
use crate::engine::{Engine, EngineFacts};

/// Whether a container's writable layer can have a size limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LayerQuota {
    /// It can, regardless of the image's size.
    Works,
    /// It cannot, for this reason.
    Missing(String),
    /// Not tested: the plan has no writable root.
    NotNeeded,
}

/// Whether a container may be created to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaTrial {
    Allowed,
    /// Only a cached result is used.
    CachedOnly,
}

/// The engines' name for the size option.
pub(crate) const OPTION: &str = "size";

impl LayerQuota {
    /// The result for the root of this plan. Tested once per engine and process, and again if the
    /// test failed.
    pub(crate) async fn of(tier: Tier, engine: &Engine, plan: &Plan, trial: QuotaTrial) -> Self {
        if !plan.writable_root {
            return Self::NotNeeded;
        }
        if let Some(why) = unsupported_reason(&engine.facts) {
            return Self::Missing(why);
        }
        if trial == QuotaTrial::CachedOnly {
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

/// Why a test is pointless: overlay drivers refuse a size on file systems without project quotas.
/// `None` if quotas may work.
fn unsupported_reason(facts: &EngineFacts) -> Option<String> {
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
    fn only_storage_that_may_have_quotas_is_tested() {
        let of = |storage: &str, backing: &str| {
            unsupported_reason(&EngineFacts {
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
