//! Opens a sandbox's host folders before the engine mounts them.
//!
//! An engine takes a path, not a descriptor. Three measures replace the descriptor:
//!
//! - Each path is opened without following links that code could have made. It stays open until the
//!   agent has answered.
//! - A path is refused if another party could replace a part of it: another user
//!   ([`trusted_path`]), or the code of another sandbox on the same engine ([`active_writers`]).
//! - The agent gets a list of the objects to expect at the mount points. It refuses to serve if it
//!   finds another one. No code has run by then.

mod active_writers;
mod file_systems;
mod nested;
mod trusted_path;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sandbox_agent::protocol::ExpectedObject;
use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::WORK_FOLDER;
use sandbox_host::safe_path::{Identity, LinkRule, Opened, PathError};

use crate::Tier;
use crate::engine::{Engine, EngineFacts};
pub(crate) use active_writers::encode as encode_folders;
pub(crate) use nested::check as check_nested;

/// The host folders of a plan, by the paths in the plan.
#[derive(Debug, Default)]
pub(crate) struct HostFolders(BTreeMap<PathBuf, Opened>);

/// Owner and permission bits of a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FolderOwner {
    pub user: u32,
    pub group: u32,
    /// Permission bits.
    pub mode: u32,
}

impl HostFolders {
    /// Opens the folders of a plan. Empty for an engine on another host.
    ///
    /// # Errors
    ///
    /// `InvalidSpec` for a folder that does not exist or cannot be reached, and for a link that
    /// must not be followed.
    pub(crate) fn open(tier: Tier, plan: &Plan, facts: &EngineFacts) -> Result<Self> {
        if !facts.local {
            return Ok(Self::default());
        }
        let rule = LinkRule::new(plan.follow_links);
        // First by path, so that no link in a writable folder is followed; then by what was opened.
        let rule = rule.writable(Identity::of_paths(plan.writable_sources()));
        let mut opened = BTreeMap::new();
        for (field, path) in named_paths(plan) {
            let folder = rule.open(path);
            let folder = folder.map_err(|error| open_error(tier, field, path, &error))?;
            let kind = folder.kind();
            if field == MOUNT && !matches!(kind, FileType::Directory | FileType::RegularFile) {
                let context = format!(
                    "{field}: {} is neither a folder nor a regular file",
                    path.display()
                );
                let error = Error::new(ErrorKind::InvalidSpec, "create sandbox", context);
                return Err(error.on(tier).with_fix("name one of these"));
            }
            opened.insert(path.to_owned(), folder);
        }
        let folders = Self(opened);
        let writable_folders = folders.writable_folders(plan);
        for (field, path) in named_paths(plan) {
            if let Some(folder) = folders.0.get(path) {
                let links = folder.refuse_links_in(&writable_folders);
                links.map_err(|error| open_error(tier, field, path, &error))?;
            }
        }
        Ok(folders)
    }

    /// Refuses folders that could be replaced before the engine mounts them: by users other than
    /// this one, root and the engine's user, or by code of a running sandbox.
    ///
    /// # Errors
    ///
    /// `Unsupported` with the part of the path and who can replace it; also if the engine cannot
    /// list its containers.
    pub(crate) async fn check_trusted(&self, tier: Tier, engine: &Engine) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let trusted = trusted_path::trusted_users(&engine.facts).map_err(|cause| {
            let error = Error::new(ErrorKind::Io, "create sandbox", format!("/: {cause}"));
            error.on(tier)
        })?;
        for (path, opened) in &self.0 {
            if let Some(untrusted) = trusted_path::find_untrusted(opened, &trusted) {
                return Err(
                    untrusted_error(tier, path, &untrusted.to_string()).with_fix(untrusted.fix())
                );
            }
        }
        for sandbox in active_writers::writers(tier, engine).await? {
            if let Some((path, _)) = self
                .0
                .iter()
                .find(|(_, opened)| sandbox.can_replace_parent_of(opened))
            {
                let why = format!(
                    "code of the sandbox {:?} can exchange a part of it",
                    sandbox.name
                );
                let fix = "wait for the end of that sandbox, or name a folder outside of what it can write to";
                return Err(untrusted_error(tier, path, &why).with_fix(fix));
            }
        }
        Ok(())
    }

    /// The link-free path for the engine to mount in place of a path of the plan.
    pub(crate) fn source<'a>(&'a self, path: &'a Path) -> &'a Path {
        self.0.get(path).map_or(path, |opened| &opened.path)
    }

    /// Owner and permission bits of a folder of the plan, as it was opened.
    ///
    /// # Errors
    ///
    /// The kernel's error for a path that was not opened.
    pub(crate) fn owned(&self, path: &Path) -> io::Result<FolderOwner> {
        let stat = match self.0.get(path) {
            Some(opened) => opened.found,
            None => rustix::fs::stat(path)?,
        };
        Ok(FolderOwner {
            user: stat.st_uid,
            group: stat.st_gid,
            mode: stat.st_mode,
        })
    }

    /// The objects that the agent must find, by mount point.
    pub(crate) fn expected_objects(&self, plan: &Plan) -> Vec<ExpectedObject> {
        let placed = host_mounts(plan).filter_map(|(path, target)| {
            let identity = self.0.get(path)?.identity();
            Some(ExpectedObject {
                path: target.as_os_str().as_encoded_bytes().to_vec(),
                device: identity.device,
                inode: identity.inode,
            })
        });
        placed.collect()
    }

    /// The folders that code of the plan may write to, as they were opened.
    pub(crate) fn writable_folders(&self, plan: &Plan) -> Vec<Identity> {
        let opened = plan.writable_sources().filter_map(|path| self.0.get(path));
        opened.map(Opened::identity).collect()
    }
}

/// The host paths in a plan, each with its path in the sandbox.
fn host_mounts(plan: &Plan) -> impl Iterator<Item = (&Path, &Path)> {
    let same = plan.read_roots.iter().chain(&plan.write_roots);
    let same = same.map(|root| (root.as_path(), root.as_path()));
    let workspace = plan.workspace.iter();
    let workspace = workspace.map(|it| (it.path.as_path(), Path::new(WORK_FOLDER)));
    let mounts = plan.mounts.iter();
    let mounts = mounts.map(|it| (it.source.as_path(), it.target.as_path()));
    let provided = plan.provided_folders.iter();
    let provided = provided.map(|it| (it.source.as_path(), it.target.as_path()));
    same.chain(workspace).chain(mounts).chain(provided)
}

/// The host paths in a plan, each with the name of its field.
fn named_paths(plan: &Plan) -> impl Iterator<Item = (&'static str, &Path)> {
    let read = plan.read_roots.iter();
    let read = read.map(|root| ("filesystem_read_roots", root.as_path()));
    let write = plan.write_roots.iter();
    let write = write.map(|root| ("filesystem_write_roots", root.as_path()));
    let workspace = plan.workspace.iter();
    let workspace = workspace.map(|it| ("workspace", it.path.as_path()));
    let mounts = plan.mounts.iter();
    let mounts = mounts.map(|it| (MOUNT, it.source.as_path()));
    let provided = plan.provided_folders.iter();
    let provided = provided.map(|it| ("packages", it.source.as_path()));
    let named = read.chain(write).chain(workspace);
    named.chain(mounts).chain(provided)
}

/// The name of a mount in errors.
const MOUNT: &str = "mount";

fn open_error(tier: Tier, field: &str, path: &Path, error: &PathError) -> Error {
    let path = path.display();
    let missing = matches!(
        error,
        PathError::System { at: None, cause } if cause.kind() == io::ErrorKind::NotFound
    );
    let (context, fix) = match missing {
        true => (
            format!("{field}: {path} is not there"),
            "make the folder, or leave it out".to_owned(),
        ),
        false => (
            format!("{field}: {path}: {error}"),
            error.fix().unwrap_or_else(|| {
                "name a folder that this user can reach, or leave it out".to_owned()
            }),
        ),
    };
    let error = Error::new(ErrorKind::InvalidSpec, "create sandbox", context);
    error.on(tier).with_fix(fix)
}

fn untrusted_error(tier: Tier, path: &Path, why: &str) -> Error {
    let engine = tier.family.engine;
    let context = format!("{}: {why} while {engine} mounts it", path.display());
    Error::new(ErrorKind::Unsupported, "create sandbox", context).on(tier)
}

#[cfg(test)]
mod tests;
