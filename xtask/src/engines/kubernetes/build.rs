//! The cluster's programs, built from Debian's source package. No registry has newer servers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::layout::Layout;
use crate::apt;
use crate::engines::service;
use crate::failure::{Context, Failure, Result};
use crate::images;
use crate::programs;

/// The release whose package it is.
const RELEASE: &str = "bookworm";
/// What the programs say that they are: what is in Debian's package, whatever its own number.
const VERSION: (&str, &str, &str) = ("v1.20.2", "1", "20");
/// What is needed to build.
const PACKAGES: [(&str, &str); 3] = [
    ("go", "golang-go"),
    ("dpkg-source", "dpkg-dev"),
    ("gcc", "gcc"),
];
/// What the pod's own process needs to be built.
const LIBRARY: (&str, &str) = ("/usr/include/stdio.h", "libc6-dev");
/// All components in one program: a third of the size.
const HYPERKUBE: &str = include_str!("hyperkube.go");
/// The names that it goes by.
const COMPONENTS: [&str; 4] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
];
/// A file that the package lacks and that a program of it makes.
const GENERATED: &str = "pkg/generated/openapi/zz_generated.openapi.go";

/// What is changed in the source: file, what stands there, what is to.
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

/// Builds what is missing. From nothing this takes 5 to 8 minutes of two processors.
///
/// # Errors
/// When packages cannot be installed or fetched, or a build fails.
pub fn build(layout: &Layout) -> Result<()> {
    let is_there = |name: &str| layout.program(name).exists();
    let whole = is_there("hyperkube") && is_there("kubectl") && is_there("pause");
    if !whole {
        let needed: Vec<_> = PACKAGES.into_iter().chain([LIBRARY]).collect();
        let missing = service::missing_packages(&needed);
        if !missing.is_empty() {
            apt::install(&missing)?;
        }
        let source = source(layout)?;
        let bin = layout.cache.join("bin");
        fs::create_dir_all(&bin).context(|| format!("cannot create {}", bin.display()))?;
        change(&source)?;
        if !source.join(GENERATED).exists() {
            generate(layout, &source)?;
        }
        compile(layout, &source)?;
        pause(layout, &source)?;
    }
    for name in COMPONENTS {
        let path = layout.program(name);
        if !path.exists() {
            symlink("hyperkube", &path).context(|| format!("cannot make {}", path.display()))?;
        }
    }
    Ok(())
}

/// The unpacked source, at the only place where Go of that time builds it.
fn source(layout: &Layout) -> Result<PathBuf> {
    let source = layout.cache.join("gopath/src/k8s.io/kubernetes");
    if source.join("cmd/kubelet").exists() {
        return Ok(source);
    }
    eprintln!("k8s: fetching and unpacking the source");
    let apt = layout.cache.join("apt");
    let folder = layout.cache.join("src");
    let parent = source.parent().unwrap_or(&source);
    for folder in [
        &apt.join("lists/partial"),
        &apt.join("parts"),
        &folder,
        parent,
    ] {
        fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
    }
    let list = apt.join("sources.list");
    fs::write(&list, images::source_packages(RELEASE)?)
        .context(|| format!("cannot write {}", list.display()))?;
    // Lists of its own: the system's sources need not have source packages.
    let options = [
        format!("Dir::Etc::sourcelist={}", list.display()),
        format!("Dir::Etc::sourceparts={}", apt.join("parts").display()),
        format!("Dir::State::lists={}", apt.join("lists").display()),
        "Dir::Cache::pkgcache=".to_owned(),
        "Dir::Cache::srcpkgcache=".to_owned(),
    ];
    let apt_get = || {
        let mut command = Command::new("apt-get");
        for option in &options {
            command.args(["-q", "-o", option]);
        }
        command.current_dir(&folder);
        command
    };
    programs::run_with_progress(apt_get().arg("update"))?;
    programs::run_with_progress(apt_get().args(["source", "--download-only", "kubernetes"]))?;
    let description = description(&folder)?;
    let unpacked = folder.join("kubernetes");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)
            .context(|| format!("cannot remove {}", unpacked.display()))?;
    }
    programs::run_with_progress(Command::new("dpkg-source").current_dir(&folder).args([
        "--extract",
        &description,
        "kubernetes",
    ]))?;
    fs::rename(&unpacked, &source).context(|| format!("cannot make {}", source.display()))?;
    Ok(source)
}

/// The name of the package's description.
fn description(folder: &Path) -> Result<String> {
    let doing = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).context(doing)? {
        let name = entry
            .context(doing)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("kubernetes_") && name.ends_with(".dsc") {
            return Ok(name);
        }
    }
    Err(Failure::new(format!(
        "apt has put no kubernetes_*.dsc into {}",
        folder.display()
    )))
}

fn change(source: &Path) -> Result<()> {
    for (name, old, new) in CHANGES {
        let path = source.join(name);
        let doing = || format!("cannot change {}", path.display());
        let text = fs::read_to_string(&path).context(doing)?;
        if text.contains(old) {
            fs::write(&path, text.replace(old, new)).context(doing)?;
        } else if !text.contains(new) {
            return Err(Failure::new(format!("{}: there is no {old:?}", doing())));
        }
    }
    let path = source.join("cmd/hyperkube/main.go");
    let doing = || format!("cannot write {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(&path)).context(doing)?;
    fs::write(&path, HYPERKUBE).context(doing)
}

/// Go, in the mode in which this source builds.
fn go(layout: &Layout, source: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(source)
        .env("GO111MODULE", "off")
        .env("GOPATH", layout.cache.join("gopath"))
        .env("GOCACHE", layout.cache.join("gocache"))
        .env("CGO_ENABLED", "0")
        .env_remove("GOFLAGS");
    command
}

fn generate(layout: &Layout, source: &Path) -> Result<()> {
    eprintln!("k8s: generating the API's description");
    let generator = layout.program("openapi-gen");
    programs::run_with_progress(
        go(layout, source)
            .args(["build", "-o"])
            .arg(&generator)
            .arg("./vendor/k8s.io/kube-openapi/cmd/openapi-gen"),
    )?;
    let listed = super::output(go(layout, source).args(["list", "-deps", "./cmd/kube-apiserver"]))?;
    let mut packages: Vec<_> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("k8s.io/kubernetes/"))
        .filter(|package| is_described(&source.join(package)))
        .map(|package| format!("k8s.io/kubernetes/{package}"))
        .collect();
    packages.sort();
    packages.dedup();
    let report = layout.cache.join("violations.report");
    programs::run_with_progress(
        Command::new(generator)
            .current_dir(source)
            .env("GO111MODULE", "off")
            .env("GOPATH", layout.cache.join("gopath"))
            .env("GOCACHE", layout.cache.join("gocache"))
            .args(["--logtostderr", "-i", &packages.join(",")])
            .args(["-p", "k8s.io/kubernetes/pkg/generated/openapi"])
            .args(["-O", "zz_generated.openapi"])
            .args(["-h", "vendor/k8s.io/code-generator/hack/boilerplate.go.txt"])
            .arg("-r")
            .arg(report),
    )
}

/// Whether a package says that it belongs into the description.
fn is_described(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        entry.path().extension().is_some_and(|name| name == "go")
            && fs::read_to_string(entry.path()).is_ok_and(|text| {
                text.lines().any(|line| {
                    line.strip_prefix("//")
                        .is_some_and(|rest| rest.trim_start().starts_with("+k8s:openapi-gen="))
                })
            })
    })
}

fn compile(layout: &Layout, source: &Path) -> Result<()> {
    eprintln!("k8s: compiling, which takes minutes");
    let (version, major, minor) = VERSION;
    let mut flags = "-s -w".to_owned();
    for package in ["client-go/pkg", "component-base"] {
        let variable = |name: &str, value: &str| {
            format!(" -X k8s.io/kubernetes/vendor/k8s.io/{package}/version.{name}={value}")
        };
        for (name, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "archive"),
        ] {
            flags += &variable(name, value);
        }
    }
    let new = layout.cache.join("new");
    fs::create_dir_all(&new).context(|| format!("cannot create {}", new.display()))?;
    programs::run_with_progress(
        go(layout, source)
            .args([
                "build",
                "-trimpath",
                "-tags",
                "providerless",
                "-ldflags",
                &flags,
                "-o",
            ])
            .arg(format!("{}/", new.display()))
            .args(["./cmd/hyperkube", "./cmd/kubectl"]),
    )?;
    // Only what is whole gets its name.
    for name in ["hyperkube", "kubectl"] {
        let (from, to) = (new.join(name), layout.program(name));
        fs::rename(&from, &to).context(|| format!("cannot make {}", to.display()))?;
    }
    fs::remove_dir(&new).context(|| format!("cannot remove {}", new.display()))
}

fn pause(layout: &Layout, source: &Path) -> Result<()> {
    programs::run_with_progress(
        Command::new("gcc")
            .args(["-Os", "-static", "-s", "-DVERSION=sandbox", "-o"])
            .arg(layout.program("pause"))
            .arg(source.join("build/pause/linux/pause.c")),
    )
}
