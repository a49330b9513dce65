//! The user's state folder: locks, private files, and the keys of detached sandboxes.

mod hand_over;
mod names;
mod record;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sandbox_core::{Error, ErrorKind, Result};

pub use hand_over::HandOver;
pub use names::NameRecords;
pub use record::{DetachedRecord, lifetime};

/// The path of the state folder, which may not exist. Configured, or else `/run/sandbox` for root,
/// `$XDG_RUNTIME_DIR/sandbox`, or `/tmp/sandbox-UID`.
#[must_use]
pub fn folder(configured: Option<&Path>, user: u32) -> PathBuf {
    if let Some(folder) = configured {
        return folder.to_owned();
    }
    if user == 0 {
        return "/run/sandbox".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("sandbox"),
        _ => format!("/tmp/sandbox-{user}").into(),
    }
}

/// The path without links, as mounts show it. The folder need not exist.
#[must_use]
pub fn resolved(folder: PathBuf) -> PathBuf {
    let found = folder.canonicalize().or_else(|missing| {
        let parent = folder.parent().ok_or(missing)?.canonicalize()?;
        Ok::<_, io::Error>(parent.join(folder.file_name().unwrap_or_default()))
    });
    // If its parent is missing, too, preparing the folder reports that.
    found.unwrap_or(folder)
}

/// The user who owns the state.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user's existing state folder; `None` if it is missing.
///
/// # Errors
///
/// If others may access the folder.
pub fn found(tier: &str, configured: Option<&Path>) -> Result<Option<PathBuf>> {
    let folder = folder(configured, user());
    match std::fs::symlink_metadata(&folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => prepare(tier, &folder, user()).map(|()| Some(folder)),
    }
}

/// Creates the state folder if missing, and checks that only this user may access it.
///
/// # Errors
///
/// `SetupFailed` with what is there instead, and a fix.
pub fn prepare(tier: &str, folder: &Path, user: u32) -> Result<()> {
    let refused = |context: String, fix: &str| {
        Err(
            Error::new(ErrorKind::SetupFailed, "prepare the state folder", context)
                .on(tier)
                .with_fix(fix),
        )
    };
    let shown = folder.display();
    if let Err(cause) = std::fs::DirBuilder::new().mode(0o700).create(folder)
        && cause.kind() != io::ErrorKind::AlreadyExists
    {
        return refused(
            format!("{shown}: {cause}"),
            "make its parent folder, or set another state folder",
        );
    }
    let found = match std::fs::symlink_metadata(folder) {
        Ok(found) => found,
        Err(cause) => return refused(format!("{shown}: {cause}"), "set another state folder"),
    };
    if !found.is_dir() || found.uid() != user {
        return refused(
            format!("{shown} is not a folder of user {user}"),
            "remove it, or set another state folder",
        );
    }
    if found.mode() & 0o077 != 0 {
        return refused(
            format!(
                "{shown} has mode {:03o}: others may enter",
                found.mode() & 0o777
            ),
            "chmod 700 it",
        );
    }
    Ok(())
}

/// Reads a file in a private folder: at most `limit` bytes, and not through a link.
///
/// # Errors
///
/// Errors of opening and reading.
pub fn read_private(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    let mut text = Vec::new();
    file.take(limit).read_to_end(&mut text)?;
    Ok(text)
}

/// Creates a file that only this user may read. It must not exist.
///
/// # Errors
///
/// Errors of creating and writing.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)
}

/// The error for an unknown detached sandbox.
#[must_use]
pub fn not_found(tier: &str, name: &str) -> Error {
    let context = format!("no sandbox {name:?}");
    Error::new(ErrorKind::SandboxNotFound, "find sandbox", context)
        .on(tier)
        .with_fix("`sandbox ls` lists those that there are")
}

/// The error for a detached sandbox that has ended and left something.
#[must_use]
pub fn ended(tier: &str, name: &str) -> Error {
    let context = format!("the sandbox {name:?} has ended");
    Error::new(ErrorKind::SandboxEnded, "find sandbox", context)
        .on(tier)
        .with_fix(format!("remove what it left with `sandbox rm {name}`"))
}

/// The error for a name in use by a detached sandbox, running or ended.
#[must_use]
pub fn name_is_taken(tier: &str, name: &str, has_ended: bool) -> Error {
    let (context, fix) = if has_ended {
        (
            format!("a sandbox {name:?} has ended and left something"),
            format!("remove it with `sandbox rm {name}`, or choose another name"),
        )
    } else {
        (
            format!("a sandbox {name:?} exists"),
            format!("choose another name, or end it with `sandbox rm {name}`"),
        )
    };
    Error::new(ErrorKind::AlreadyExists, "create sandbox", context)
        .on(tier)
        .with_fix(fix)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn me() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn state_folder_is_private_and_reusable() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("state");
        prepare("local", &folder, me()).expect("made");
        prepare("local", &folder, me()).expect("found");
        let mode = std::fs::metadata(&folder)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn unsafe_state_folders_are_refused() {
        let parent = tempfile::tempdir().expect("a folder");
        let link = parent.path().join("link");
        symlink(parent.path(), &link).expect("a link");
        assert!(prepare("local", &link, me()).is_err());

        let open = parent.path().join("open");
        std::fs::create_dir(&open).expect("a folder");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let error = prepare("local", &open, me()).expect_err("others may enter");
        assert_eq!(error.fix(), Some("chmod 700 it"));

        assert!(prepare("local", &parent.path().join("a/b"), me()).is_err());
        assert!(prepare("local", parent.path(), me() + 1).is_err());
    }
}
