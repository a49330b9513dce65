//! Installing Debian packages, for tasks that were asked to change the machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::programs;

/// How long apt waits for another package manager to finish, in seconds.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=300";
const OS_RELEASE: &str = "/etc/os-release";
const LISTS: &str = "/var/lib/apt/lists";

/// Installs `packages` and says so on stderr. Refreshes the package lists first where there are
/// none, and once more where the first attempt fails (lists that are too old name files that the
/// mirror no longer has).
///
/// # Errors
/// When not root, when the system is not Debian or a descendant of it, or when apt fails.
pub fn install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if !runs_debian() {
        return Err(
            Failure::new(format!("cannot install {names}: not a Debian-like system"))
                .with_fix("install the equivalent packages by hand"),
        );
    }
    if !programs::is_root() {
        return Err(
            Failure::new(format!("cannot install {names}: not root")).with_fix(format!(
                "sudo apt-get install --no-install-recommends {names}"
            )),
        );
    }
    eprintln!("installing Debian packages: {names}");
    if !has_package_lists(Path::new(LISTS)) {
        update()?;
        return install_now(packages);
    }
    install_now(packages).or_else(|failure| {
        eprintln!("{failure}; trying again with fresh package lists");
        update()?;
        install_now(packages)
    })
}

/// True where `/etc/os-release` names Debian or a descendant of it.
pub fn runs_debian() -> bool {
    fs::read_to_string(OS_RELEASE).is_ok_and(|text| is_debian_like(&text))
}

fn update() -> Result<()> {
    programs::run_with_progress(apt_get().arg("update"))
}

fn install_now(packages: &[&str]) -> Result<()> {
    programs::run_with_progress(
        apt_get()
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages),
    )
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["-q", "-o", LOCK_TIMEOUT, "-o", "Dpkg::Use-Pty=0"])
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn has_package_lists(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
    })
}

fn is_debian_like(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| matches!(*key, "ID" | "ID_LIKE"))
        .any(|(_, value)| {
            value
                .trim_matches(['"', '\''])
                .split_whitespace()
                .any(|id| id == "debian")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_its_descendants_are_recognised() {
        assert!(is_debian_like("NAME=\"Debian\"\nID=debian\n"));
        assert!(is_debian_like("ID=ubuntu\nID_LIKE=\"debian\"\n"));
        assert!(is_debian_like("ID=mint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian_like(
            "ID=fedora\nHOME_URL=https://example.org/?ID=debian\n"
        ));
    }

    #[test]
    fn only_package_indexes_count_as_lists() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("lock"), "")?;
        fs::create_dir(folder.path().join("partial"))?;
        assert!(!has_package_lists(folder.path()));
        fs::write(
            folder.path().join("mirror_dists_stable_main_Packages.lz4"),
            "",
        )?;
        assert!(has_package_lists(folder.path()));
        Ok(())
    }
}
