//! Bind mounts of host folders and files: roots at the same path, the workspace and mounts at their
//! own.

use std::path::Path;

use bollard::models::{Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType};
use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::WORK_FOLDER;
use sandbox_host::disk_split::is_below;

use crate::Tier;
use crate::engine::EngineFacts;
use crate::folders::HostFolders;
use crate::{named_volumes, volume};

/// Trees that the container provides itself.
const CONTAINER_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The bind mounts of a plan, with the paths that were opened.
///
/// # Errors
///
/// `Unsupported` for an engine on another host, and for paths that a container cannot share with
/// its host.
pub(crate) fn binds(
    tier: Tier,
    plan: &Plan,
    facts: &EngineFacts,
    folders: &HostFolders,
) -> Result<Vec<Mount>> {
    let mut binds = Vec::new();
    let bind = |field, path: &Path, target, read_only| {
        bind(tier, field, (path, folders.source(path)), target, read_only)
    };
    for root in &plan.read_roots {
        // A root that is also writable is mounted once.
        if !plan.write_roots.contains(root) {
            binds.push(bind("filesystem_read_roots", root, None, true)?);
        }
    }
    for root in &plan.write_roots {
        binds.push(bind("filesystem_write_roots", root, None, false)?);
    }
    if let Some(workspace) = &plan.workspace {
        let (path, read_only) = (&workspace.path, workspace.read_only);
        binds.push(bind("workspace", path, Some(WORK_FOLDER), read_only)?);
    }
    for mount in &plan.mounts {
        let target = mount.target.to_str().ok_or_else(|| {
            let context = format!("mount: {} is not UTF-8", mount.target.display());
            refused(tier, context, "name another path in the sandbox")
        })?;
        let (source, read_only) = (&mount.source, mount.read_only);
        binds.push(bind("mount", source, Some(target), read_only)?);
    }
    for provided in &plan.provided_folders {
        let target = provided.target.to_str();
        binds.push(bind("packages", &provided.source, target, true)?);
    }
    let folders_of_host = binds.len();
    binds.extend(named_volumes::mounts(tier, plan)?);
    if folders_of_host > 0 && !facts.local {
        return Err(refused(
            tier,
            "the engine runs on another host, which has other files".into(),
            "use a local engine, or leave the roots, the workspace and mounts out",
        ));
    }
    Ok(binds)
}

fn bind(
    tier: Tier,
    field: &str,
    (path, source): (&Path, &Path),
    target: Option<&str>,
    read_only: bool,
) -> Result<Mount> {
    let bad = |why: &str| {
        let context = format!("{field}: {} {why}", path.display());
        refused(
            tier,
            context,
            "name the folders below it that the code needs",
        )
    };
    let text = path.to_str().ok_or_else(|| bad("is not UTF-8"))?;
    let source = source
        .to_str()
        .ok_or_else(|| bad("leads to what is not UTF-8"))?;
    if !path.is_absolute() {
        return Err(bad("is not absolute"));
    }
    let target = target.unwrap_or(text);
    if target.trim_end_matches('/').is_empty() {
        return Err(bad("cannot be mounted over the root of a container"));
    }
    let tree = CONTAINER_TREES
        .iter()
        .chain([&volume::FOLDER, &volume::SOCKET_FOLDER])
        .find(|tree| is_below(target, tree));
    if let Some(tree) = tree {
        return Err(bad(&format!(
            "cannot be mounted: a container has a {tree} of its own"
        )));
    }
    Ok(Mount {
        target: Some(target.to_owned()),
        source: Some(source.to_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            // Folders with file systems below them are refused. One that is mounted later stays out.
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    })
}

fn refused(tier: Tier, context: String, fix: &str) -> Error {
    Error::new(ErrorKind::Unsupported, "create sandbox", context)
        .on(tier)
        .with_fix(fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without opened folders.
    fn binds(tier: Tier, plan: &Plan, facts: &EngineFacts) -> Result<Vec<Mount>> {
        super::binds(tier, plan, facts, &HostFolders::default())
    }
    use crate::family::samples::TIER;
    use crate::lowering::samples::plan;
    use sandbox_core::{CapabilityPolicy, HostMount, SandboxSpec};

    fn roots(read: &[&str], write: &[&str]) -> Plan {
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_read_roots = Some(read.iter().map(Into::into).collect());
        policy.filesystem_write_roots = Some(write.iter().map(Into::into).collect());
        plan(&SandboxSpec::new("sb"), &policy)
    }

    #[test]
    fn paths_that_the_container_provides_are_refused() {
        for path in [
            "/",
            "/proc",
            "/proc/1",
            "/sys/fs",
            "/dev",
            "/.sandbox-agent",
        ] {
            let error = binds(TIER, &roots(&[path], &[]), &EngineFacts::sample()).expect_err(path);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{path}");
            assert!(error.fix().is_some());
        }
    }

    #[test]
    fn mounts_have_their_own_targets() {
        let spec = SandboxSpec::new("sb")
            .mount(HostMount::read_only("/srv/tests", "/tests"))
            .mount(HostMount::read_write("/srv/out", "/etc/out"));
        let plan = plan(&spec, &CapabilityPolicy::new());
        let mounts = binds(TIER, &plan, &EngineFacts::sample()).expect("binds");
        let seen = mounts.iter().map(|mount| {
            let options = mount.bind_options.as_ref().expect("options");
            let private = Some(MountBindOptionsPropagationEnum::RPRIVATE);
            assert_eq!(options.propagation, private);
            let (source, target) = (mount.source.as_deref(), mount.target.as_deref());
            (source, target, mount.read_only)
        });
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [
                (Some("/srv/tests"), Some("/tests"), Some(true)),
                (Some("/srv/out"), Some("/etc/out"), Some(false)),
            ]
        );
        let remote = EngineFacts {
            local: false,
            ..EngineFacts::sample()
        };
        let error = binds(TIER, &plan, &remote).expect_err("another host");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn root_that_is_also_writable_is_mounted_once() {
        let mounts = binds(TIER, &roots(&["/a", "/b"], &["/b"]), &EngineFacts::sample());
        let mounts = mounts.expect("binds");
        let seen = mounts
            .iter()
            .map(|m| (m.target.as_deref(), m.read_only))
            .collect::<Vec<_>>();
        assert_eq!(seen, [(Some("/a"), Some(true)), (Some("/b"), Some(false))]);
    }

    #[test]
    fn file_systems_below_a_bind_are_left_out() {
        let binds = binds(TIER, &roots(&["/a"], &["/b"]), &EngineFacts::sample()).expect("binds");
        for bind in binds {
            let options = bind.bind_options.expect("options");
            assert_eq!(options.non_recursive, Some(true));
        }
    }

    #[test]
    fn remote_engine_refuses_binds() {
        let facts = EngineFacts {
            local: false,
            ..EngineFacts::sample()
        };
        assert!(binds(TIER, &roots(&["/a"], &[]), &facts).is_err());
        assert!(binds(TIER, &roots(&[], &[]), &facts).is_ok());
    }
}
