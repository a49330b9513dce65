//! Compiling the servers with Debian's Go.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::super::layout::Layout;
use super::super::output;
use super::progress::Progress;
use super::{COMPONENTS, VERSION, check_version};
use crate::failure::{Context, Failure, Result};

/// What the servers do without: the clouds, whose clients are a quarter of the source, and containers of Docker's.
pub const TAGS: &str = "providerless,dockerless";
/// No tables for debuggers: nobody looks into these servers, and they are a tenth of the compiler's work. Not for Go's own library,
/// which is there compiled.
const COMPILER: &str = "-gcflags=k8s.io/kubernetes/...=-dwarf=false";
/// How often the compiler collects its garbage, in per cent of growth, and the memory that it takes for that, kB.
const COLLECTION: (&str, u64) = ("400", 6 << 20);
/// What is compiled.
const PACKAGE: &str = "./cmd/hyperkube";

/// Go, in the mode in which this source builds: it is older than what Go 1.17 wants of modules.
pub fn go(layout: &Layout, source: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(source);
    environment(&mut command, layout);
    if available_memory().is_some_and(|memory| memory >= COLLECTION.1) {
        command.env("GOGC", COLLECTION.0);
    }
    command
}

/// What a program needs to find packages of Go.
pub fn environment(command: &mut Command, layout: &Layout) {
    command
        .env("GO111MODULE", "off")
        .env("GOPATH", layout.go_path())
        .env("GOCACHE", layout.go_cache())
        .env("CGO_ENABLED", "0")
        .env_remove("GOFLAGS");
}

/// Memory that programs can have, kB, where the kernel says it.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Compiles all servers into one program at `path`. What was compiled before an interruption is not compiled again.
///
/// # Errors
/// When the compiler fails, with what it says, or the program is not the version that it should be.
pub fn servers(layout: &Layout, source: &Path, path: &Path) -> Result<()> {
    let mut list = go(layout, source);
    list.args(["list", "-deps", "-tags", TAGS]);
    list.args(["-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", PACKAGE]);
    let total = output(&mut list)?
        .lines()
        .filter(|line| !line.is_empty())
        .count();
    let begin = Instant::now();
    let mut build = go(layout, source);
    build.args([
        "build",
        "-v",
        "-tags",
        TAGS,
        COMPILER,
        "-ldflags",
        &linker(),
    ]);
    build.arg("-o").arg(path).arg(PACKAGE);
    run(&mut build, &layout.cache.join("new/compiled"), total)?;
    eprintln!("k8s: compiled in {} s", begin.elapsed().as_secs());
    // It goes by the name that it is called by.
    let alias = path.with_file_name(COMPONENTS[0]);
    if !alias.exists() {
        symlink(path.file_name().unwrap_or_default(), &alias)
            .context(|| format!("cannot make {}", alias.display()))?;
    }
    check_version(Command::new(&alias).arg("--version"))
}

/// No tables of symbols, and the version.
fn linker() -> String {
    let mut numbers = VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next(), numbers.next());
    let mut flags = "-s -w".to_owned();
    for package in ["client-go/pkg", "component-base"] {
        for (name, value) in [
            ("gitVersion", VERSION),
            ("gitMajor", major.unwrap_or_default()),
            ("gitMinor", minor.unwrap_or_default()),
            ("gitTreeState", "archive"),
        ] {
            let variable = format!("k8s.io/kubernetes/vendor/k8s.io/{package}/version.{name}");
            flags += &format!(" -X {variable}={value}");
        }
    }
    flags
}

/// Runs the compiler, which says the name of each package that it begins.
fn run(build: &mut Command, record: &Path, total: usize) -> Result<()> {
    let doing = || "cannot start go".to_owned();
    let mut child = build
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context(doing)?;
    let mut progress = Progress::new("k8s: compiling", record, total)?;
    if let Some(said) = child.stderr.take() {
        for line in BufReader::new(said).split(b'\n') {
            let line = line.context(|| "cannot read what go says".to_owned())?;
            progress.line(&String::from_utf8_lossy(&line))?;
        }
    }
    let status = child.wait().context(doing)?;
    let said = progress.finish();
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "go build failed with {status}:\n{}",
        said.join("\n")
    )))
}
