//! Restrictions that the creator of a container has opened.

use sandbox_core::{Capability, CapabilityPolicy};

use super::taken;
use crate::engine_api::EngineApi;
use crate::foreign::Foreign;
use crate::probes::prelude::*;

/// The engines whose API names an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    ByAll,
    ByRootful,
    ByDocker,
    ByPodman,
}

/// An option of the engine's API, and a capability that does not hold with it.
type Hole = (&'static str, Capability, Named);

const HOLES: &[Hole] = &[
    (
        r#"{"Privileged": true}"#,
        Capability::FilesystemWriteRoots,
        Named::ByRootful,
    ),
    (
        r#"{"SecurityOpt": ["seccomp=unconfined"]}"#,
        Capability::Privileges,
        Named::ByAll,
    ),
    (
        r#"{"SecurityOpt": ["apparmor=unconfined"]}"#,
        Capability::Privileges,
        Named::ByAll,
    ),
    (
        r#"{"SecurityOpt": ["label=disable"]}"#,
        Capability::Privileges,
        Named::ByAll,
    ),
    (
        r#"{"PidMode": "host"}"#,
        Capability::Processes,
        Named::ByAll,
    ),
    (
        r#"{"UTSMode": "host"}"#,
        Capability::Processes,
        Named::ByAll,
    ),
    // Rootless Podman cannot share what the host has not mounted.
    (
        r#"{"IpcMode": "host"}"#,
        Capability::Processes,
        Named::ByRootful,
    ),
    // Rootless Podman names no devices.
    (
        r#"{"Devices": [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/void",
            "CgroupPermissions": "rwm"}]}"#,
        Capability::FilesystemReadRoots,
        Named::ByRootful,
    ),
    // Podman takes rules for devices over its own API only.
    (
        r#"{"DeviceCgroupRules": ["c 1:3 r"]}"#,
        Capability::FilesystemWriteRoots,
        Named::ByDocker,
    ),
    // Podman's default.
    (
        r#"{"UsernsMode": "host"}"#,
        Capability::Privileges,
        Named::ByDocker,
    ),
    (
        r#"{"MaskedPaths": [], "ReadonlyPaths": []}"#,
        Capability::FilesystemWriteRoots,
        Named::ByDocker,
    ),
    (
        r#"{"SecurityOpt": ["unmask=ALL"]}"#,
        Capability::FilesystemWriteRoots,
        Named::ByPodman,
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
            Named::ByAll => true,
            Named::ByRootful => !is_rootless,
            Named::ByDocker => context.tier() == "docker",
            Named::ByPodman => context.tier() == "podman",
        };
        let of_engine = HOLES.iter().filter(|hole| is_there(hole.2));
        holes.extend(of_engine.map(|(options, capability, _)| {
            let options = Some(*options);
            (
                options.unwrap_or_default(),
                *capability,
                Foreign { options, ..plain },
            )
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
