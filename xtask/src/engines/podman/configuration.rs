//! Podman's configuration where systemd manages neither cgroups nor events.

use std::fs::{self, DirBuilder, create_dir_all};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::account::Account;
use crate::engines::service;
use crate::failure::{Context, Result};
use crate::programs;

/// The folder of the machine's configuration, and of a user's own below the home.
const FOLDER: &str = "/etc/containers";
const FOLDER_BELOW_HOME: &str = ".config/containers";
/// The files' names in it.
const FILE: &str = "containers.conf";
const STORAGE_FILE: &str = "storage.conf";
/// Most open files for a container, as Podman has it.
const OPEN_FILES: u64 = 1_048_576;
/// Most processes for a container; Podman's own number is more than many machines allow.
const PROCESSES: u64 = 32_768;
/// The first kernel that lets ordinary users mount an overlay.
const OVERLAY_KERNEL: (u32, u32) = (5, 13);
/// Writes the machine's configuration only if there is none.
///
/// # Errors
/// When it cannot be written.
pub fn write(engine: &str) -> Result<()> {
    service::write_once(engine, Path::new(FOLDER), FILE, &limited())
}

/// Writes the configuration of a user only if neither the user nor the machine has one. An account
/// of ours that has no storage yet gets the kernel's overlay, where users may mount one.
///
/// # Errors
/// When it cannot be written.
pub fn write_for(engine: &str, account: &Account) -> Result<()> {
    let folder = account.home.join(FOLDER_BELOW_HOME);
    if !Path::new(FOLDER).join(FILE).exists() && !service::has_systemd() {
        account.make_folder(&folder)?;
        service::write_once(engine, &folder, FILE, &limited())?;
    }
    let storage = account.home.join(".local/share/containers/storage");
    if programs::is_root() && !storage.exists() && users_mount_overlays() {
        account.make_folder(&folder)?;
        let storage = storage_text(&account.runtime_folder(), &storage);
        service::write_once(engine, &folder, STORAGE_FILE, &storage)?;
    }
    Ok(())
}

/// The kernel's overlay, which Podman 4.3 does not try by itself: it copies the whole image for each container instead. Both folders are
/// its own choice, and have to be written beside a driver: without them its service cannot commit.
fn storage_text(runtime: &Path, storage: &Path) -> String {
    format!(
        "[storage]\ndriver = \"overlay\"\nrunroot = \"{}\"\ngraphroot = \"{}\"\n",
        runtime.join("containers").display(),
        storage.display()
    )
}

fn users_mount_overlays() -> bool {
    // Without the file nothing is known, and Podman chooses.
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .and_then(|release| version(&release))
        .is_some_and(|found| found >= OVERLAY_KERNEL)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn limited() -> String {
    let hard = |resource| getrlimit(resource).maximum.unwrap_or(u64::MAX);
    text(hard(Resource::Nofile), hard(Resource::Nproc))
}

/// Makes the folder of a socket that is nobody else's business.
///
/// # Errors
/// When it cannot be made.
pub fn make_runtime_folder(folder: &Path) -> Result<()> {
    let doing = || format!("cannot create {}", folder.display());
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        create_dir_all(parent).context(doing)?;
    }
    DirBuilder::new().mode(0o700).create(folder).context(doing)
}

/// Limits that this process may hand on: without the right to raise one above the hard limit, every
/// container fails with Podman's own. runc, because crun refuses machines with both cgroup versions.
fn text(open_files: u64, processes: u64) -> String {
    let (open_files, processes) = (open_files.min(OPEN_FILES), processes.min(PROCESSES));
    format!(
        "[containers]\n\
         default_ulimits = [\"nofile={open_files}:{open_files}\", \"nproc={processes}:{processes}\"]\n\
         \n\
         [engine]\n\
         cgroup_manager = \"cgroupfs\"\n\
         events_logger = \"file\"\n\
         runtime = \"runc\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_above_the_hard_one() {
        let low = text(20_000, u64::MAX);
        assert!(
            low.contains("\"nofile=20000:20000\", \"nproc=32768:32768\""),
            "{low}"
        );
        assert!(text(u64::MAX, 100).contains("\"nofile=1048576:1048576\", \"nproc=100:100\""));
    }

    #[test]
    fn a_storage_has_its_folders_beside_the_driver() {
        let text = storage_text(Path::new("/run/user/7"), Path::new("/home/u/storage"));
        assert_eq!(
            text,
            "[storage]\ndriver = \"overlay\"\nrunroot = \"/run/user/7/containers\"\ngraphroot = \"/home/u/storage\"\n"
        );
    }

    #[test]
    fn a_kernel_release_begins_with_two_numbers() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.13"), Some((5, 13)));
        assert_eq!(version("5-rc1"), None);
        assert!((5, 4) < OVERLAY_KERNEL && (6, 0) > OVERLAY_KERNEL);
    }
}
