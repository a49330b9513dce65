//! The guest's system: Debian with its kernel, systemd and two ordinary users, on a disk in the cache.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::initrd;
use crate::apt;
use crate::failure::{Context, Failure, Result};
use crate::images;
use crate::lock::Lock;
use crate::places;
use crate::programs;

/// The packages of a guest; what they recommend is left out.
const PACKAGES: &str = "linux-image-cloud-amd64,systemd-sysv,dbus-user-session,libpam-systemd,\
                        busybox-static,python3,python3-pip";
/// What the first disk holds at most. The file is sparse.
const SIZE: &str = "2G";
/// Runs what is on the second disk, and ends the machine.
const WORK: &str = "[Unit]
Description=What the second disk says
After=multi-user.target systemd-logind.service systemd-user-sessions.service

[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/sh -c 'mount -o ro /dev/vdb /media && exec /bin/bash /media/run'
ExecStopPost=/bin/systemctl poweroff --force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
";
/// Units that take time, and that nobody needs in a machine that runs for minutes.
const MASKED: [&str; 20] = [
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "systemd-journal-flush.service",
    "systemd-machine-id-commit.service",
    "systemd-modules-load.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-sysctl.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
    "systemd-update-utmp.service",
];

/// The user whose systemd always runs.
pub const USER: &str = "tester";
/// The user without one.
pub const STRANGER: &str = "stranger";

/// The files that a machine starts from.
#[derive(Debug, Clone)]
pub struct Image {
    pub kernel: PathBuf,
    pub initrd: PathBuf,
    pub disk: PathBuf,
}

impl Image {
    /// The one in the cache, built where it is missing or of an earlier recipe.
    ///
    /// # Errors
    /// When it cannot be built: that takes root, for the owners of its files.
    pub fn find(force: bool, mirror: Option<&str>) -> Result<Self> {
        let cache = places::cache_folder("guest")?;
        let _lock = Lock::acquire(&cache)?;
        let folder = cache.join(recipe());
        let image = Self {
            kernel: folder.join("vmlinuz"),
            initrd: folder.join("initrd"),
            disk: folder.join("disk"),
        };
        if folder.exists() && !force {
            return Ok(image);
        }
        if !programs::is_root() {
            return Err(Failure::new(
                "a guest's disk is made by root, for the owners of its files",
            )
            .with_fix("run it once as root"));
        }
        if programs::find("mke2fs").is_none() {
            apt::install(&["e2fsprogs"])?;
        }
        let begin = Instant::now();
        eprintln!("building {}; this takes about a minute", folder.display());
        let partial = cache.join("partial");
        remove(&partial)?;
        fs::create_dir_all(&partial).context(|| format!("cannot create {}", partial.display()))?;
        let built = build(&partial, mirror);
        if built.is_err() {
            // What was being built counts more than what is left of it: the next run removes it.
            let _ = fs::remove_dir_all(&partial);
        }
        built?;
        for entry in fs::read_dir(&cache)
            .context(|| "cannot read the cache".to_owned())?
            .flatten()
        {
            let path = entry.path();
            if path.is_dir() && path != partial {
                remove(&path)?;
            }
        }
        fs::rename(&partial, &folder).context(|| format!("cannot create {}", folder.display()))?;
        eprintln!("built in {:.0} s", begin.elapsed().as_secs_f64());
        Ok(image)
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(cause).context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn arguments() -> Vec<String> {
    [
        "--variant=minbase".to_owned(),
        format!("--include={PACKAGES}"),
        "--aptopt=APT::Install-Recommends \"false\"".to_owned(),
        "--dpkgopt=path-exclude=/usr/share/man/*".to_owned(),
        "--dpkgopt=path-exclude=/usr/share/locale/*".to_owned(),
        "--dpkgopt=path-exclude=/usr/share/doc/*".to_owned(),
        format!("--customize-hook=chroot \"$1\" useradd -m -u 1000 -s /bin/bash {USER}"),
        format!("--customize-hook=chroot \"$1\" useradd -m -u 1001 -s /bin/bash {STRANGER}"),
    ]
    .to_vec()
}

/// A name that changes with everything that an image is made of.
fn recipe() -> String {
    let mut hasher = blake3::Hasher::new();
    for part in arguments() {
        hasher.update(part.as_bytes()).update(b"\0");
    }
    hasher.update(WORK.as_bytes());
    hasher.update(MASKED.concat().as_bytes());
    hasher.update(initrd::INIT.as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

fn build(folder: &Path, mirror: Option<&str>) -> Result<()> {
    let archive = folder.join("system.tar");
    images::debian(&arguments(), mirror, &archive)?;
    let system = folder.join("system");
    let doing = |path: &Path| {
        let text = format!("cannot write {}", path.display());
        move || text
    };
    fs::create_dir(&system).context(doing(&system))?;
    let mut unpack = Command::new("tar");
    unpack
        .args(["--numeric-owner", "-xpf"])
        .arg(&archive)
        .arg("-C")
        .arg(&system);
    programs::run_with_progress(&mut unpack)?;
    prepare(&system)?;
    fs::rename(kernel(&system)?, folder.join("vmlinuz")).context(doing(&folder.join("vmlinuz")))?;
    let initrd = folder.join("initrd");
    fs::write(&initrd, initrd::build(&system)?).context(doing(&initrd))?;
    // Nothing else of it is of use on the disk.
    remove(&system.join("boot"))?;
    make_disk(&system, &folder.join("disk"), SIZE)?;
    remove(&system)?;
    fs::remove_file(&archive).context(doing(&archive))
}

/// Makes a disk with the files of a folder.
///
/// # Errors
/// When mke2fs fails.
pub fn make_disk(folder: &Path, disk: &Path, size: &str) -> Result<()> {
    let program = programs::find("mke2fs")
        .ok_or_else(|| Failure::new("mke2fs is missing").with_fix("apt-get install e2fsprogs"))?;
    let mut command = Command::new(program);
    command.args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"]);
    programs::run_with_progress(command.arg(folder).arg(disk).arg(size))
}

fn kernel(system: &Path) -> Result<PathBuf> {
    let boot = system.join("boot");
    let entries = fs::read_dir(&boot).context(|| format!("cannot read {}", boot.display()))?;
    entries
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"))
        .map(|entry| entry.path())
        .ok_or_else(|| Failure::new("the guest's system has no kernel"))
}

/// What makes the system start fast, with our service and the user's systemd.
fn prepare(system: &Path) -> Result<()> {
    let units = system.join("etc/systemd/system");
    let wants = units.join("multi-user.target.wants");
    let doing = || "cannot prepare the guest's system".to_owned();
    fs::write(system.join("etc/hostname"), "guest\n").context(doing)?;
    fs::write(system.join("etc/fstab"), "").context(doing)?;
    fs::write(units.join("work.service"), WORK).context(doing)?;
    fs::create_dir_all(&wants).context(doing)?;
    symlink("../work.service", wants.join("work.service")).context(doing)?;
    for unit in MASKED {
        let path = units.join(unit);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(cause).context(doing);
            }
            _ => symlink("/dev/null", &path).context(doing)?,
        }
    }
    let linger = system.join("var/lib/systemd/linger");
    fs::create_dir_all(&linger).context(doing)?;
    fs::write(linger.join(USER), "").context(doing)
}
