//! The workspace, mounts and storage of a plan.

use std::path::{Path, PathBuf};

use super::{Plan, exceeded};
use crate::mount::{WORKSPACE, check_overlap};
use crate::{
    Capability, CapabilityPolicy, Error, ErrorKind, HostMount, Result, SandboxSpec, StorageMount,
    StoragePlace, StorageVolume, Workspace,
};

/// What a specification mounts, checked against the policy that bounds it.
pub(super) struct Mounted {
    pub(super) workspace: Option<Workspace>,
    pub(super) mounts: Vec<HostMount>,
    pub(super) volumes: Vec<StorageVolume>,
}

pub(super) fn mounted(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Result<Mounted> {
    let (read, write) = (
        &policy.filesystem_read_roots,
        &policy.filesystem_write_roots,
    );
    for mount in &spec.mounts {
        if !policy.allows_mount(mount) {
            return Err(not_allowed(mount, policy));
        }
    }
    let targets = spec.mounts.iter().map(|mount| &mount.target);
    for target in targets.chain(spec.storage.iter().map(|mount| &mount.target)) {
        // A root is at its own path in the sandbox too.
        let roots = read.iter().chain(write).flatten();
        let roots = roots.filter(|root| root.parent().is_some());
        check_overlap(target, roots, "a root of the policy")
            .map_err(|context| Error::new(ErrorKind::InvalidSpec, "create sandbox", context))?;
    }
    let mut mounted = Mounted {
        workspace: spec.workspace.clone(),
        mounts: spec.mounts.clone(),
        volumes: Vec::new(),
    };
    for storage in &spec.storage {
        mounted.add(storage, policy)?;
    }
    Ok(mounted)
}

impl Mounted {
    /// Adds what a name of the policy stands for.
    fn add(&mut self, asked: &StorageMount, policy: &CapabilityPolicy) -> Result<()> {
        let StorageMount { name, target, .. } = asked;
        let Some(storage) = policy.storage.get(name) else {
            let names = policy.storage.keys().cloned().collect::<Vec<_>>();
            let names = joined(names);
            let context = format!("storage: asked for {name}, the policy has {names}");
            return Err(exceeded(
                Capability::FilesystemReadRoots,
                name,
                &names,
                context,
            ));
        };
        let read_only = asked.read_only;
        if storage.read_only && !read_only {
            let context = format!("storage: asked to write to {name}, the policy has it read-only");
            let capability = Capability::FilesystemWriteRoots;
            return Err(exceeded(capability, name, "read-only", context));
        }
        match &storage.place {
            StoragePlace::Path(path) if target == Path::new(WORKSPACE) => {
                let path = path.clone();
                self.workspace = Some(Workspace { path, read_only });
            }
            StoragePlace::Path(path) => self.mounts.push(HostMount {
                source: path.clone(),
                target: target.clone(),
                read_only,
            }),
            place => self.volumes.push(StorageVolume {
                place: place.clone(),
                target: target.clone(),
                read_only,
            }),
        }
        Ok(())
    }
}

fn not_allowed(mount: &HostMount, policy: &CapabilityPolicy) -> Error {
    let (capability, roots) = match mount.read_only {
        true => (
            Capability::FilesystemReadRoots,
            &policy.filesystem_read_roots,
        ),
        false => (Capability::FilesystemWriteRoots, &None),
    };
    let sources = policy.mount_sources.iter().flatten();
    let sources = sources.filter(|source| mount.read_only || !source.read_only);
    let allowed = roots.iter().chain(&policy.filesystem_write_roots).flatten();
    let allowed = allowed.chain(sources.map(|source| &source.path));
    let allowed = joined(allowed.map(|path| path.display().to_string()).collect());
    let access = if mount.read_only {
        "readable"
    } else {
        "writable"
    };
    let context = format!("mount {mount}: the policy allows {access} mounts of {allowed}");
    exceeded(capability, &mount.to_string(), &allowed, context)
}

fn joined(values: Vec<String>) -> String {
    match values.is_empty() {
        true => "none".to_owned(),
        false => values.join(", "),
    }
}

/// The text of a demand for files: roots, then the mounts and volumes with this access.
pub(super) fn with_mounts(
    plan: &Plan,
    read_only: bool,
    mut values: Vec<String>,
    roots: &[PathBuf],
) -> String {
    values.extend(roots.iter().map(|root| root.display().to_string()));
    let mounts = plan.mounts.iter().filter(|it| it.read_only == read_only);
    values.extend(mounts.map(|it| format!("{} at {}", it.source.display(), it.target.display())));
    let volumes = plan.volumes.iter().filter(|it| it.read_only == read_only);
    values.extend(volumes.map(|it| format!("{} at {}", it.place, it.target.display())));
    joined(values)
}
