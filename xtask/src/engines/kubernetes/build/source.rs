//! What comes from Debian: the source of the servers, and the command that talks to them.
//!
//! apt checks the signature of the archive's index, and by that the hash of each file; `dpkg-source` compares the files with the
//! description again, when they have lain here for a while.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::layout::Layout;
use super::{VERSION, check_version};
use crate::failure::{Context, Failure, Result};
use crate::images;
use crate::programs;

/// The release whose packages they are.
const RELEASE: &str = "bookworm";
/// The command's package.
const COMMAND: &str = "kubernetes-client";
/// All servers in one program.
const HYPERKUBE: &str = include_str!("../hyperkube.go");

/// What is changed in the kubelet, in few words: the node says it, and profiles that are measured there do.
pub const CHANGED: &str = "status-interval-0.5s,oom-score-0";

/// What is changed in the source: file, what stands there, what is to. [`CHANGED`] names each.
const CHANGES: [(&str, &str, &str); 2] = [
    // Without CAP_SYS_RESOURCE nobody is made less likely to be killed for memory.
    (
        "pkg/kubelet/qos/policy.go",
        "return guaranteedOOMScoreAdj",
        "return 0",
    ),
    // A pod that has ended is reported at the next tick: tests would wait for that.
    (
        "pkg/kubelet/status/status_manager.go",
        "syncPeriod = 10 * time.Second",
        "syncPeriod = 500 * time.Millisecond",
    ),
];

/// The source at the only place where Go of that time builds it, with what is changed in it.
///
/// # Errors
/// When it cannot be fetched, is of another version, or cannot be unpacked.
pub fn unpacked(layout: &Layout) -> Result<PathBuf> {
    let source = layout.go_path().join("src/k8s.io/kubernetes");
    if source.join("cmd/hyperkube").exists() {
        return Ok(source);
    }
    let folder = layout.cache.join("src");
    let description = match description(&folder)? {
        Some(description) => description,
        None => {
            eprintln!("k8s: fetching the source");
            let fetched = Apt::new(layout)
                .and_then(|apt| apt.run(&["source", "--download-only", "kubernetes"]));
            unreachable_mirror(fetched)?;
            self::description(&folder)?.ok_or_else(|| {
                let folder = folder.display();
                Failure::new(format!("apt has put no kubernetes_*.dsc into {folder}"))
            })?
        }
    };
    check_description(&folder.join(&description))?;
    eprintln!("k8s: unpacking the source");
    let unpacked = folder.join("kubernetes");
    remove(&unpacked)?;
    let mut unpack = Command::new("dpkg-source");
    unpack.current_dir(&folder);
    unpack.args(["--extract", &description, "kubernetes"]);
    programs::run_with_progress(&mut unpack).map_err(|failure| {
        let fix = format!("remove {}: it is fetched again", folder.display());
        Failure::new(failure.to_string()).with_fix(fix)
    })?;
    change(&unpacked)?;
    // Under an earlier name of the same place there may be one without the changes.
    remove(&source)?;
    let doing = || format!("cannot make {}", source.display());
    fs::create_dir_all(source.parent().unwrap_or(&source)).context(doing)?;
    fs::rename(&unpacked, &source).context(doing)?;
    Ok(source)
}

/// Puts the command at `path`. It is not installed: a user's own stays what it is.
///
/// # Errors
/// When it cannot be fetched, or is of another version.
pub fn command(layout: &Layout, path: &Path) -> Result<()> {
    eprintln!("k8s: fetching kubectl");
    let folder = layout.cache.join("src/client");
    remove(&folder)?;
    fs::create_dir_all(&folder).context(|| format!("cannot create {}", folder.display()))?;
    let fetched = Apt::new(layout).and_then(|apt| apt.run_in(&folder, &["download", COMMAND]));
    unreachable_mirror(fetched)?;
    let package = find(&folder, |name| name.ends_with(".deb"))?
        .ok_or_else(|| Failure::new(format!("apt has put no package into {}", folder.display())))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.current_dir(&folder).args(["-x", &package, "."]);
    programs::run_with_progress(&mut unpack)?;
    let program = folder.join("usr/bin/kubectl");
    check_version(Command::new(&program).args(["version", "--client", "--short"]))?;
    fs::rename(&program, path).context(|| format!("cannot make {}", path.display()))
}

/// Removes what was only needed to build: 2 GB. What was fetched stays, 35 MB.
///
/// # Errors
/// When something cannot be removed.
pub fn forget(layout: &Layout) -> Result<()> {
    // The packages' modules have files that nobody may write, and no modules are used: folders are writable.
    for place in [
        layout.go_path(),
        layout.go_cache(),
        layout.cache.join("apt"),
        layout.cache.join("new"),
        layout.cache.join("src/client"),
    ] {
        remove(&place)?;
    }
    Ok(())
}

fn remove(place: &Path) -> Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.context(|| format!("cannot remove {}", place.display())),
    }
}

fn unreachable_mirror(fetched: Result<()>) -> Result<()> {
    fetched.map_err(|failure| {
        Failure::new(format!(
            "k8s: Debian's packages cannot be fetched, whose reason apt has told above: {failure}"
        ))
        .with_fix(
            "see that this machine reaches the Debian mirror of its apt sources, \
             or set KUBECONFIG to a cluster's configuration",
        )
    })
}

/// apt, with lists of its own: the system's sources need not have source packages, and it may be of another release.
struct Apt {
    options: Vec<String>,
    folder: PathBuf,
}

impl Apt {
    /// Fetches the lists where that was not done.
    fn new(layout: &Layout) -> Result<Self> {
        let place = layout.cache.join("apt");
        let folder = layout.cache.join("src");
        for folder in [&place.join("lists/partial"), &place.join("parts"), &folder] {
            fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
        }
        let list = place.join("sources.list");
        fs::write(&list, images::packages(RELEASE)?)
            .context(|| format!("cannot write {}", list.display()))?;
        let options = [
            format!("Dir::Etc::sourcelist={}", list.display()),
            format!("Dir::Etc::sourceparts={}", place.join("parts").display()),
            format!("Dir::State::lists={}", place.join("lists").display()),
            "Dir::Cache::pkgcache=".to_owned(),
            "Dir::Cache::srcpkgcache=".to_owned(),
            // Root's folders are closed to apt's own user, and what it fetches there is checked all the same.
            "APT::Sandbox::User=root".to_owned(),
            // A mirror that does not answer is no success.
            "APT::Update::Error-Mode=any".to_owned(),
            "Acquire::Retries=3".to_owned(),
        ];
        let apt = Self {
            options: options.to_vec(),
            folder,
        };
        let fetched = place.join("fetched");
        if !fetched.exists() {
            apt.run(&["update"])?;
            fs::write(&fetched, "").context(|| format!("cannot write {}", fetched.display()))?;
        }
        Ok(apt)
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        self.run_in(&self.folder, arguments)
    }

    fn run_in(&self, folder: &Path, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("apt-get");
        command.current_dir(folder).arg("-q");
        for option in &self.options {
            command.args(["-o", option]);
        }
        programs::run_with_progress(command.args(arguments))
    }
}

/// The name of the source package's description, which is fetched before what it describes: all of it is there, or `dpkg-source` says
/// what is not.
fn description(folder: &Path) -> Result<Option<String>> {
    let found = find(folder, |name| {
        name.starts_with("kubernetes_") && name.ends_with(".dsc")
    })?;
    let Some(name) = found else { return Ok(None) };
    let path = folder.join(&name);
    let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    // apt goes on with what it has half of, under a folder of its own, and gives it its name when it is whole.
    let whole = files(&text).all(|file| folder.join(file).exists());
    Ok(whole.then_some(name))
}

/// The files that a description lists with their hashes.
fn files(description: &str) -> impl Iterator<Item = &str> {
    description
        .lines()
        .skip_while(|line| *line != "Checksums-Sha256:")
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().nth(2))
}

fn check_description(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path).context(|| format!("cannot read {}", path.display()))?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("Version: "))
        .unwrap_or_default();
    if is_expected(version) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "k8s: Debian's source package is {version:?}, and what is built here is {VERSION}"
    ))
    .with_fix("change VERSION in xtask/src/engines/kubernetes/build/mod.rs, or set KUBECONFIG"))
}

/// Whether a package's version holds ours: what its number hides stands behind `really`.
fn is_expected(version: &str) -> bool {
    let upstream = version.rsplit_once('-').map_or(version, |(text, _)| text);
    let upstream = upstream
        .rsplit_once("really")
        .map_or(upstream, |(_, text)| text);
    Some(upstream) == VERSION.strip_prefix('v')
}

fn find(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Option<String>> {
    let doing = || format!("cannot read {}", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.context(doing)?,
    };
    for entry in entries {
        let name = entry.context(doing)?.file_name();
        let name = name.to_string_lossy();
        if wanted(&name) {
            return Ok(Some(name.into_owned()));
        }
    }
    Ok(None)
}

fn change(source: &Path) -> Result<()> {
    for (name, old, new) in CHANGES {
        let path = source.join(name);
        let doing = || format!("cannot change {}", path.display());
        let text = fs::read_to_string(&path).context(doing)?;
        if !text.contains(old) {
            return Err(Failure::new(format!("{}: there is no {old:?}", doing())));
        }
        fs::write(&path, text.replace(old, new)).context(doing)?;
    }
    let path = source.join("cmd/hyperkube/main.go");
    let doing = || format!("cannot write {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(&path)).context(doing)?;
    fs::write(&path, HYPERKUBE).context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_behind_really_counts() {
        for (version, expected) in [
            ("1.20.5+really1.20.2-1.1+deb12u1", true),
            ("1.20.2-1", true),
            ("1.20.5-1", false),
            ("1.20.2+really1.20.5-1", false),
            ("", false),
        ] {
            assert_eq!(is_expected(version), expected, "{version}");
        }
    }

    #[test]
    fn a_source_is_there_when_all_of_its_files_are() {
        let folder = tempfile::tempdir().expect("temporary folder");
        assert_eq!(description(&folder.path().join("none")), Ok(None));
        let name = "kubernetes_1.dsc";
        let text =
            "Version: 1\nChecksums-Sha256:\n abc 12 a.tar.gz\n def 3 b.tar.xz\nFiles:\n x 1 c\n";
        fs::write(folder.path().join(name), text).expect("write");
        assert_eq!(files(text).collect::<Vec<_>>(), ["a.tar.gz", "b.tar.xz"]);
        fs::write(folder.path().join("a.tar.gz"), "").expect("write");
        assert_eq!(description(folder.path()), Ok(None));
        fs::write(folder.path().join("b.tar.xz"), "").expect("write");
        assert_eq!(description(folder.path()), Ok(Some(name.to_owned())));
    }
}
