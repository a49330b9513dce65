//! Volumes of the engine that the operator named.

use bollard::models::{Mount, MountType, MountVolumeOptions};
use sandbox_core::{Error, ErrorKind, Plan, Result, StoragePlace, StorageVolume};

use crate::Tier;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};
use crate::labels;

/// Checks that the volumes of a plan exist: an engine creates a missing one, empty and of its root.
/// Refuses those of this library, such as the agent's.
///
/// # Errors
///
/// `InvalidSpec` with the volume, and errors of the engine.
pub(crate) async fn check(tier: Tier, engine: &Engine, plan: &Plan) -> Result<()> {
    for volume in &plan.volumes {
        let name = name(tier, volume)?;
        let refused = |why: &str, fix: &str| {
            let context = format!("storage: the volume {name} {why}");
            let error = Error::new(ErrorKind::InvalidSpec, "create sandbox", context);
            Err(error.on(tier).with_fix(fix))
        };
        match engine.client.inspect_volume(name).await {
            Ok(found) if found.labels.contains_key(labels::TIER) => {
                return refused("belongs to this library", "name another volume");
            }
            Ok(_) => {}
            Err(bollard::errors::Error::DockerResponseServerError {
                status_code: 404, ..
            }) => {
                let fix = "create it, and give it to the user that the code runs as";
                return refused("does not exist", fix);
            }
            Err(error) => return Err(engine_error(tier, Operation::Volume, error)),
        }
    }
    Ok(())
}

/// The mounts of the volumes of a plan.
///
/// # Errors
///
/// `Unsupported` for storage that no engine has.
pub(crate) fn mounts(tier: Tier, plan: &Plan) -> Result<Vec<Mount>> {
    let mount = |volume: &StorageVolume| {
        let target = volume.target.to_str().ok_or_else(|| {
            let context = format!("storage: {} is not UTF-8", volume.target.display());
            unsupported(tier, context).with_fix("name another path in the sandbox")
        })?;
        Ok(Mount {
            target: Some(target.to_owned()),
            source: Some(name(tier, volume)?.to_owned()),
            typ: Some(MountType::VOLUME),
            read_only: Some(volume.read_only),
            volume_options: Some(MountVolumeOptions {
                // Files of the image stay out of the operator's volume.
                no_copy: Some(true),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        })
    };
    plan.volumes.iter().map(mount).collect()
}

fn name(tier: Tier, volume: &StorageVolume) -> Result<&str> {
    match &volume.place {
        StoragePlace::Volume(name) => Ok(name),
        place => {
            let engine = tier.family.engine;
            let context = format!("storage: {engine} has no {place}");
            Err(unsupported(tier, context)
                .with_fix("name a path or a volume in the policy's storage, or use another tier"))
        }
    }
}

fn unsupported(tier: Tier, context: String) -> Error {
    Error::new(ErrorKind::Unsupported, "create sandbox", context).on(tier)
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Storage, StorageMount};

    use super::*;
    use crate::family::samples::TIER;
    use crate::lowering::samples::plan;

    #[test]
    fn volumes_are_mounted_without_the_images_files() {
        let policy = CapabilityPolicy::new()
            .storage("lab", Storage::volume("lab-1"))
            .storage("claim", Storage::claim("lab"));
        let with = |mount| plan(&SandboxSpec::new("sb").storage(mount), &policy);
        let plan = with(StorageMount::read_only("lab", "/workspace"));
        let mounts = mounts(TIER, &plan).expect("a volume");
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].source.as_deref(), Some("lab-1"));
        assert_eq!(mounts[0].target.as_deref(), Some("/workspace"));
        assert_eq!(mounts[0].read_only, Some(true));
        let options = mounts[0].volume_options.as_ref().expect("options");
        assert_eq!(options.no_copy, Some(true));
        let error = super::mounts(TIER, &with(StorageMount::read_write("claim", "/a")));
        let error = error.expect_err("of a cluster");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("claim lab"), "{error}");
    }
}
