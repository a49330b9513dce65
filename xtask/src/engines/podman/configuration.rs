//! Podman's configuration where systemd manages neither cgroups nor events.

use std::fs::{DirBuilder, create_dir_all};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::engines::service;
use crate::failure::{Context, Result};

/// The folder of the machine's configuration.
pub const FOLDER: &str = "/etc/containers";
/// The file's name in it.
pub const FILE: &str = "containers.conf";
/// Most open files for a container, as Podman has it.
const OPEN_FILES: u64 = 1_048_576;
/// Most processes for a container; Podman's own number is more than many machines allow.
const PROCESSES: u64 = 32_768;

/// Writes the configuration in `folder` only if there is none.
///
/// # Errors
/// When it cannot be written.
pub fn write(engine: &str, folder: &Path) -> Result<()> {
    let hard = |resource| getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let text = text(hard(Resource::Nofile), hard(Resource::Nproc));
    service::write_once(engine, folder, FILE, &text)
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
}
