//! Claims of the cluster that the operator named.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimVolumeSource, PodSecurityContext, Volume, VolumeMount,
};
use sandbox_core::{Plan, StoragePlace};

/// The volumes of a plan's claims.
pub(super) fn volumes(plan: &Plan) -> impl Iterator<Item = Volume> {
    claims(plan).map(|(index, claim, read_only, _)| Volume {
        name: name(index),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.to_owned(),
            // A server leaves out what is false.
            read_only: read_only.then_some(true),
        }),
        ..Volume::default()
    })
}

/// Where they are mounted.
pub(super) fn mounts(plan: &Plan) -> impl Iterator<Item = VolumeMount> {
    claims(plan).map(|(index, _, read_only, target)| VolumeMount {
        name: name(index),
        mount_path: target.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    })
}

/// Each pod's code has a group of its own, so the node gives the files of claims to that group.
pub(super) fn with_group(
    plan: &Plan,
    code: (u32, u32),
    context: PodSecurityContext,
) -> PodSecurityContext {
    PodSecurityContext {
        fs_group: (!plan.volumes.is_empty()).then(|| i64::from(code.1)),
        ..context
    }
}

/// Index, claim, access and target.
fn claims(plan: &Plan) -> impl Iterator<Item = (usize, &str, bool, &str)> {
    let volumes = plan.volumes.iter().enumerate();
    volumes.filter_map(|(index, volume)| match &volume.place {
        // `check` refuses a target that is not UTF-8.
        StoragePlace::Claim(claim) => Some((
            index,
            claim.as_str(),
            volume.read_only,
            volume.target.to_str()?,
        )),
        _ => None,
    })
}

fn name(index: usize) -> String {
    format!("claim-{index}")
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Storage, StorageMount};

    use super::*;
    use crate::lowering::tests::plan;

    #[test]
    fn claims_are_mounted_at_their_targets() {
        let policy = CapabilityPolicy::new()
            .storage("lab", Storage::claim("lab-claim"))
            .storage("models", Storage::claim("models").read_only());
        let spec = SandboxSpec::new("sb")
            .storage(StorageMount::read_write("lab", "/workspace"))
            .storage(StorageMount::read_only("models", "/models"));
        let plan = plan(&spec, &policy);
        let volumes = volumes(&plan).map(|volume| {
            let claim = volume.persistent_volume_claim.expect("a claim");
            (volume.name, claim.claim_name, claim.read_only)
        });
        assert_eq!(
            volumes.collect::<Vec<_>>(),
            [
                ("claim-0".to_owned(), "lab-claim".to_owned(), None),
                ("claim-1".to_owned(), "models".to_owned(), Some(true)),
            ]
        );
        let mounts = mounts(&plan).map(|mount| (mount.mount_path, mount.read_only));
        assert_eq!(
            mounts.collect::<Vec<_>>(),
            [
                ("/workspace".to_owned(), None),
                ("/models".to_owned(), Some(true)),
            ]
        );
        let context = with_group(&plan, (7, 8), PodSecurityContext::default());
        assert_eq!(context.fs_group, Some(8));
    }
}
