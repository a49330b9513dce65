//! Lists attached sandboxes: running containers of this tier that are not detached.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox_core::{Result, SandboxInfo, SandboxOwner, SandboxSpec, SandboxState};

use crate::Tier;
use crate::engine::{EngineConnection, ListedContainer};
use crate::label_origin;
use crate::labels;
use sandbox_host::Owner;

/// The attached sandboxes of all clients of the engine, sorted by name.
pub(crate) async fn list(tier: Tier, engine: &EngineConnection) -> Result<Vec<SandboxInfo>> {
    let filters = [format!("{}={tier}", labels::TIER)];
    let mut list = Vec::new();
    for container in engine.list(tier, &filters).await? {
        let Some(info) = info(tier, &container) else {
            continue;
        };
        if !label_origin::has_inherited_labels(tier, engine, &container.id).await? {
            list.push(info);
        }
    }
    list.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(list)
}

/// The list entry of a container; `None` unless it is a running attached sandbox.
fn info(tier: Tier, container: &ListedContainer) -> Option<SandboxInfo> {
    if !container.runs || container.labels.contains_key(labels::DETACHED) {
        return None;
    }
    let name = container.labels.get(labels::NAME)?;
    SandboxSpec::new(name).validate().ok()?;
    let created = u64::try_from(container.created?).ok()?;
    let created = UNIX_EPOCH.checked_add(Duration::from_secs(created))?;
    let mut info = SandboxInfo::new(name, tier.name, SandboxState::Running, created);
    let lifetime = container.labels.get(labels::LIFETIME);
    info.expires = lifetime
        .and_then(|seconds| seconds.parse().ok())
        .and_then(|seconds| SystemTime::checked_add(&created, Duration::from_secs(seconds)));
    // Containers of earlier versions have no such label.
    let specified = container.labels.get(labels::SPECIFIED);
    info.labels = specified
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    info.owner = Some(match container.labels.get(labels::OWNER) {
        Some(label) => match Owner::from_label(label).and_then(|owner| owner.pid_on_this_host()) {
            Some(pid) => SandboxOwner::process(pid),
            None => SandboxOwner::labeled(label),
        },
        None => SandboxOwner::unknown(),
    });
    Some(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::samples;

    fn container(labels: &[(&str, &str)]) -> ListedContainer {
        let labels = labels.iter();
        ListedContainer {
            id: "0123".into(),
            created: Some(100),
            labels: labels
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            runs: true,
        }
    }

    #[test]
    fn running_attached_container_is_listed_with_its_owner() {
        let own = Owner::current().to_label();
        let labels = [
            (labels::NAME, "lab"),
            (labels::OWNER, own.as_str()),
            (labels::LIFETIME, "60"),
            (labels::SPECIFIED, "{\"team\":\"x\"}"),
            ("of-the-image", "y"),
        ];
        let listed = info(samples::TIER, &container(&labels)).expect("listed");
        assert_eq!(listed.name, "lab");
        assert_eq!(listed.owner, Some(SandboxOwner::this_process()));
        assert_eq!(listed.expires, Some(UNIX_EPOCH + Duration::from_secs(160)));
        assert_eq!(listed.labels, [("team".into(), "x".into())].into());
        let remote = "0:1:2:another-start:1";
        let labels = [(labels::NAME, "lab"), (labels::OWNER, remote)];
        let listed = info(samples::TIER, &container(&labels)).expect("listed");
        assert_eq!(listed.owner, Some(SandboxOwner::labeled(remote)));
    }

    #[test]
    fn other_containers_are_not_listed() {
        let name = (labels::NAME, "lab");
        let listed = |labels: &[(&str, &str)]| info(samples::TIER, &container(labels));
        assert_eq!(listed(&[]), None);
        assert_eq!(listed(&[(labels::NAME, "no/name")]), None);
        assert_eq!(listed(&[name, (labels::DETACHED, "true")]), None);
        let ended = ListedContainer {
            runs: false,
            ..container(&[name])
        };
        assert_eq!(info(samples::TIER, &ended), None);
        let listed = listed(&[name]).expect("listed");
        assert_eq!(listed.owner, Some(SandboxOwner::unknown()));
    }
}
