//! The cluster's programs: the servers built from Debian's source package, the command out of Debian's package of it. No registry has
//! newer servers.
//!
//! What is interrupted goes on where it was, and nothing gets its name before it is whole and says the right version.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::layout::Layout;
use super::output;
use crate::engines::service;
use crate::failure::{Context, Failure, Result};
use crate::programs;

mod compile;
mod openapi;
mod progress;
mod source;

pub use source::CHANGED;

/// What the programs say that they are: what is in Debian's package, whatever its own number.
const VERSION: &str = "v1.20.2";
/// What is needed to build.
const PACKAGES: [(&str, &str); 3] = [
    ("go", "golang-go"),
    ("dpkg-source", "dpkg-dev"),
    ("gcc", "gcc"),
];
/// What the pod's own process needs to be built.
const LIBRARY: (&str, &str) = ("/usr/include/stdio.h", "libc6-dev");
/// All servers in one program: a third of the size, and of the linker's work.
const SERVERS: &str = "hyperkube";
/// The names that it goes by.
const COMPONENTS: [&str; 4] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
];
/// Free room that a build needs, bytes: 0.5 GB of sources and packages, 1.5 GB of what the compiler keeps, and the image archives.
const ROOM: u64 = 3 << 30;

/// Builds what is missing. From nothing this takes about six minutes of processor time, so three to four on two processors.
///
/// # Errors
/// When packages cannot be installed or fetched, the disk is too small, or a build fails.
pub fn build(layout: &Layout) -> Result<()> {
    let bin = layout.cache.join("bin");
    let is_there = |name: &&str| bin.join(name).exists();
    if ![SERVERS, "kubectl", "pause"].iter().all(is_there) {
        check_room(&layout.cache)?;
        let needed: Vec<_> = PACKAGES.into_iter().chain([LIBRARY]).collect();
        service::install(&needed)?;
        fs::create_dir_all(&bin).context(|| format!("cannot create {}", bin.display()))?;
        let source = source::unpacked(layout)?;
        if !is_there(&"kubectl") {
            whole(layout, "kubectl", |path| source::command(layout, path))?;
        }
        if !is_there(&"pause") {
            whole(layout, "pause", |path| pause(&source, path))?;
        }
        if !is_there(&SERVERS) {
            openapi::generate(layout, &source)?;
            whole(layout, SERVERS, |path| {
                compile::servers(layout, &source, path)
            })?;
        }
        source::forget(layout)?;
    }
    for name in COMPONENTS {
        let path = layout.program(name);
        if !path.exists() {
            symlink(SERVERS, &path).context(|| format!("cannot make {}", path.display()))?;
        }
    }
    Ok(())
}

/// Has `make` make a program, and gives it its name only once it is whole.
fn whole(layout: &Layout, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let folder = layout.cache.join("new");
    fs::create_dir_all(&folder).context(|| format!("cannot create {}", folder.display()))?;
    let (from, to) = (folder.join(name), layout.program(name));
    make(&from)?;
    fs::File::open(&from)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&from, &to))
        .context(|| format!("cannot make {}", to.display()))
}

fn check_room(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
    let disk = rustix::fs::statvfs(folder)
        .context(|| format!("cannot ask for the room in {}", folder.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= ROOM {
        return Ok(());
    }
    Err(Failure::new(format!(
        "k8s: {} has room for {:.1} GB, and building the servers takes {:.1}",
        folder.display(),
        gigabytes(free),
        gigabytes(ROOM),
    ))
    .with_fix("make room, or set SANDBOX_CACHE to a folder that has it"))
}

#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// The process that holds a pod's namespaces.
fn pause(source: &Path, path: &Path) -> Result<()> {
    programs::run_with_progress(
        Command::new("gcc")
            .args(["-Os", "-static", "-s", "-DVERSION=sandbox", "-o"])
            .arg(path)
            .arg(source.join("build/pause/linux/pause.c")),
    )
}

/// Compares what a program says of its version.
fn check_version(command: &mut Command) -> Result<()> {
    let said = output(command)?;
    if said.split_whitespace().any(|word| word == VERSION) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "k8s: {} says that it is {:?} instead of {VERSION}",
        command.get_program().to_string_lossy(),
        said.trim()
    )))
}
