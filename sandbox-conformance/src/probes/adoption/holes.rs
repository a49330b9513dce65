//! Restrictions that the creator of a container has opened.

use sandbox_core::{Capability, CapabilityPolicy};

use super::taken;
use crate::engine_api::EngineApi;
use crate::foreign::Foreign;
use crate::probes::prelude::*;

/// The engines whose API names an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamedBy {
    All,
    Rootful,
    Docker,
    Podman,
}

/// An option of the engine's API, and a capability that does not hold with it.
type Hole = (&'static str, Capability, NamedBy);

const HOLES: &[Hole] = &[
    (
        r#"{"Privileged": true}"#,
        Capability::FilesystemWriteRoots,
        NamedBy::Rootful,
    ),
    (
        r#"{"SecurityOpt": ["seccomp=unconfined"]}"#,
        Capability::Privileges,
        NamedBy::All,
    ),
    (
        r#"{"SecurityOpt": ["apparmor=unconfined"]}"#,
        Capability::Privileges,
        NamedBy::All,
    ),
    (
        r#"{"SecurityOpt": ["label=disable"]}"#,
        Capability::Privileges,
        NamedBy::All,
    ),
    (
        r#"{"PidMode": "host"}"#,
        Capability::Processes,
        NamedBy::All,
    ),
    (
        r#"{"UTSMode": "host"}"#,
        Capability::Processes,
        NamedBy::All,
    ),
    // Rootless Podman cannot share what the host has not mounted.
    (
        r#"{"IpcMode": "host"}"#,
        Capability::Processes,
        NamedBy::Rootful,
    ),
    // Rootless Podman names no devices.
    (
        r#"{"Devices": [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/void",
            "CgroupPermissions": "rwm"}]}"#,
        Capability::FilesystemReadRoots,
        NamedBy::Rootful,
    ),
    // Podman takes rules for devices over its own API only.
    (
        r#"{"DeviceCgroupRules": ["c 1:3 r"]}"#,
        Capability::FilesystemWriteRoots,
        NamedBy::Docker,
    ),
    // Podman's default.
    (
        r#"{"UsernsMode": "host"}"#,
        Capability::Privileges,
        NamedBy::Docker,
    ),
    (
        r#"{"MaskedPaths": [], "ReadonlyPaths": []}"#,
        Capability::FilesystemWriteRoots,
        NamedBy::Docker,
    ),
    (
        r#"{"SecurityOpt": ["unmask=ALL"]}"#,
        Capability::FilesystemWriteRoots,
        NamedBy::Podman,
    ),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    // User 0 of the host is refused where files of the kernel are not masked.
    let plain = Foreign {
        user: 1000,
        ..Foreign::default()
    };
    let mut accepted = CapabilityPolicy::new();
    let waived = context
        .adopting(plain, async |adopter| {
            accepted = adopter.waived(accepted.clone()).await?;
            adopter.adopt_under(accepted.clone()).await?.kill().await?;
            Ok(None)
        })
        .await?;
    let added = Foreign {
        opened: true,
        ..plain
    };
    let mut holes = vec![("an added capability", Capability::Privileges, added)];
    if let Some(engine) = EngineApi::of(context.tier()).await? {
        let is_rootless = engine.is_rootless().await?;
        let is_there = |named| match named {
            NamedBy::All => true,
            NamedBy::Rootful => !is_rootless,
            NamedBy::Docker => context.tier() == "docker",
            NamedBy::Podman => context.tier() == "podman",
        };
        let of_engine = HOLES.iter().filter(|hole| is_there(hole.2));
        holes.extend(of_engine.map(|(options, capability, _)| {
            let foreign = Foreign {
                options: Some(*options),
                ..plain
            };
            (*options, *capability, foreign)
        }));
    }
    let foreigns: Vec<_> = holes.iter().map(|hole| hole.2).collect();
    let answers = match &waived {
        Ok(_) => context.adopt_each(&foreigns, &accepted).await?,
        Err(_) => Vec::new(),
    };
    let deviation = waived.map(|_| {
        let mut answers = holes.iter().zip(answers);
        answers.find_map(|((what, capability, _), answer)| {
            taken(answer, *capability).map(|taken| format!("{what}: {taken}"))
        })
    });
    context.record_attack(behavior("adopt opened containers", deviation));
    context.no_host_effect("an adoption that is refused changes nothing");
    Ok(())
}
