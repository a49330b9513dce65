//! Removes volumes of other agent builds.

use bollard::query_parameters::{ListVolumesOptions, RemoveVolumeOptions};
use sandbox_core::Result;

use super::{AgentVolume, PREFIX};
use crate::Tier;
use crate::engine::EngineConnection;
use crate::error::{Operation, engine_error, has_status};

/// Removes the volumes of other agents that no container uses.
///
/// # Errors
///
/// The engine does not answer, or the first volume that it could not remove.
pub(crate) async fn remove_unused(
    tier: Tier,
    engine: &EngineConnection,
    current: &AgentVolume,
) -> Result<()> {
    let failed = |error| engine_error(tier, Operation::Volume, error);
    let listed = engine.client.list_volumes(None::<ListVolumesOptions>).await;
    let volumes = listed.map_err(failed)?.volumes.unwrap_or_default();
    let mut result = Ok(());
    for volume in volumes {
        if !is_agent_volume(&volume.name) || volume.name == current.name {
            continue;
        }
        let options = None::<RemoveVolumeOptions>;
        match engine.client.remove_volume(&volume.name, options).await {
            Ok(()) => {}
            // A container uses it, or another process removed it.
            Err(error) if has_status(&error, 409) || has_status(&error, 404) => {}
            Err(error) => result = result.and(Err(failed(error))),
        }
    }
    result
}

/// Whether a volume holds an agent, by its name. Volumes that an engine creates implicitly have no
/// label.
fn is_agent_volume(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::ProfileForm;

    #[test]
    fn only_agent_volumes_match_by_name() {
        assert!(is_agent_volume(
            &AgentVolume::new(b"x".as_slice().into(), ProfileForm::Text).name
        ));
        for other in [
            "data",
            "sandbox-agent-",
            "sandbox-agent-0123456789abcdeg",
            "my-sandbox-agent-0123456789abcdef",
        ] {
            assert!(!is_agent_volume(other), "{other}");
        }
    }
}
