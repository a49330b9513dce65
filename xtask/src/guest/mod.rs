//! `cargo xtask guest`: the local tier on a kernel that this machine does not run.
//!
//! A virtual machine, emulated, with Debian's kernel, control groups of version 2 alone and systemd; in it, as root and as
//! ordinary users with and without a systemd of theirs, a part of the conformance suite (or all of it), checks of what systemd
//! sees, and if asked the tests of the local tier. Everything is slow there, so nothing is said about time.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::cargo::{Executable, Profile, Workspace};
use crate::failure::{Context, Failure, Result};
use crate::programs;

mod image;
mod initrd;
mod machine;

use image::Image;

const BACKEND: &str = "sandbox-local";
/// What runs in the guest beside the tests.
const PROGRAMS: [&str; 2] = ["sandbox", "sandbox-conformance"];
/// What is run of the suite where not all of it is: what control groups and systemd have a part in, and one of each other kind.
/// Probes whose controls have bounds of a few seconds are left out: on a busy machine an emulated one does not meet them.
const PROBES: [&str; 16] = [
    "cpus::",
    "denials::memory",
    "denials::process_limit",
    "detached::found_by_name",
    "detached::outlives_handle",
    "detached::removed",
    "filesystem::read_outside",
    "filesystem::write_outside",
    "kernel::control_groups",
    "memory::",
    "neighbors::temporary_folder",
    "network::tcp4_host_listener",
    "pids::",
    "processes::",
    "subprocess::fork",
    "timeout::stubborn",
];
/// Tests that an emulated processor is too slow for: they have bounds in seconds.
const TOO_SLOW: [&str; 3] = [
    "artifacts::a_flood_of_entries_is_cut_and_said",
    "detached::creation::a_creation_that_is_given_up_leaves_nothing",
    "streams::orders_reach_the_program_though_nobody_reads_what_it_writes",
];

/// What to run in the guest.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// As whom, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHO", default_values = ["root", "user", "stranger"])]
    who: Vec<Who>,
    /// All probes, not only what concerns control groups
    #[arg(long, conflicts_with = "filter")]
    full: bool,
    /// Only probes whose names hold this text
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// The tests of the local tier as well
    #[arg(long)]
    tests: bool,
    /// Write what was measured into the committed profiles
    #[arg(long, requires = "full")]
    write: bool,
    /// Build the guest's disk again
    #[arg(long)]
    force: bool,
    /// Debian mirror for the guest, instead of the one in this machine's apt sources
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Most minutes for the guest
    #[arg(long, value_name = "N", default_value_t = 30)]
    minutes: u64,
}

/// Who runs the suite in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Who {
    /// Root
    Root,
    /// An ordinary user after a login, whose systemd runs
    User,
    /// The same, started by that systemd
    Service,
    /// An ordinary user without a systemd
    Stranger,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::User => "user",
            Self::Service => "service",
            Self::Stranger => "stranger",
        }
    }

    fn steps(self, tests: bool) -> Vec<String> {
        let mut steps = vec!["doctor", "killed-owner", "detached"];
        if self != Self::Stranger {
            steps.push("stopped-scope");
        }
        steps.push("suite");
        if tests {
            steps.push("tests");
        }
        steps.push("nothing-left");
        let named = |step| format!("{}/{step}", self.name());
        steps.into_iter().map(named).collect()
    }
}

/// Runs the guest and says what failed; exits with 1 where something did.
///
/// # Errors
/// When the guest cannot be made or started, or does not come to its end.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Failure::new("the guest is x86-64, and so are its programs")
            .with_fix("run it on such a machine"));
    }
    let workspace = Workspace::find()?;
    let image = Image::find(arguments.force, arguments.mirror.as_deref())?;
    let scratch = Scratch::create()?;
    let files = scratch.0.join("files");
    stage(arguments, &workspace, &files)?;
    let begin = Instant::now();
    let limit = Duration::from_secs(arguments.minutes * 60);
    let ran = machine::run(&image, &files, &scratch.0, limit, &mut |line| {
        println!("{line}");
    })?;
    eprintln!("the guest ran for {:.0} s", begin.elapsed().as_secs_f64());
    let said = said(&ran.console);
    let mut expected = Vec::new();
    for who in &arguments.who {
        expected.extend(who.steps(arguments.tests));
    }
    expected.push("end".to_owned());
    let mut failed = 0;
    println!();
    for step in &expected {
        let result = said.get(step.as_str()).copied().unwrap_or("not run");
        println!("{step}: {result}");
        failed += usize::from(result != "ok");
    }
    println!("guest: {} passed, {failed} failed", expected.len() - failed);
    if arguments.write && failed == 0 {
        take_profiles(&ran.results, &workspace.root.join("matrix"))?;
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// A folder that is removed with this.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("sandbox-guest-{}", std::process::id()));
        fs::create_dir(&path).context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// What the guest has said of each step.
fn said(console: &[String]) -> BTreeMap<&str, &str> {
    let steps = console.iter().filter_map(|line| {
        // The kernel writes on the console as well.
        let (_, step) = line.split_once("GUEST ")?;
        step.trim_end().split_once(' ')
    });
    steps.collect()
}

/// Puts everything that the guest needs into a folder.
fn stage(arguments: &Arguments, workspace: &Workspace, files: &Path) -> Result<()> {
    let programs = workspace.build_programs(Profile::Dev)?;
    for name in PROGRAMS {
        copy_program(programs.file(name)?, &files.join("bin").join(name))?;
    }
    if arguments.tests {
        let tests = workspace.build_tests()?;
        let source = workspace.root.join(BACKEND);
        // What endures takes minutes on a machine that is not emulated.
        let ours =
            |test: &&Executable| test.test && test.package == source && test.name != "endurance";
        for test in tests.iter().filter(ours) {
            copy_program(&test.path, &files.join("tests").join(&test.name))?;
        }
        copy_folder(&source, &files.join("checkout").join(BACKEND))?;
    }
    let write = |name: &str, text: &str| {
        let path = files.join(name);
        fs::write(&path, text).context(|| format!("cannot write {}", path.display()))
    };
    write("run", include_str!("run.sh"))?;
    write("checks.sh", include_str!("checks.sh"))?;
    write("settings", &settings(arguments))
}

/// Settings, as the guest's shell reads them.
fn settings(arguments: &Arguments) -> String {
    let who: Vec<_> = arguments.who.iter().map(|who| who.name()).collect();
    let mut suite = vec!["--skip-self-checks"];
    if arguments.write {
        suite.push("--write-profile");
    }
    let filters: Vec<_> = match (arguments.full, arguments.filter.as_slice()) {
        (true, _) => Vec::new(),
        (false, []) => PROBES.to_vec(),
        (false, chosen) => chosen.iter().map(String::as_str).collect(),
    };
    suite.extend(filters.iter().flat_map(|filter| ["--filter", filter]));
    let skip = TOO_SLOW.iter().flat_map(|test| ["--skip", test]);
    let list = |words: &mut dyn Iterator<Item = &str>| {
        let quoted = words.map(|word| format!("'{}'", word.replace('\'', "")));
        quoted.collect::<Vec<_>>().join(" ")
    };
    format!(
        "WHO='{}'\nRUN_SUITE=1\nRUN_TESTS={}\nSUITE=({})\nSKIP=({})\n",
        who.join(" "),
        if arguments.tests { "1" } else { "" },
        list(&mut suite.into_iter()),
        list(&mut skip.into_iter()),
    )
}

/// Copies a program without what only a debugger reads, which is most of it.
fn copy_program(from: &Path, to: &Path) -> Result<()> {
    copy_file(from, to)?;
    let Some(strip) = programs::find("strip") else {
        return Ok(());
    };
    programs::run_with_progress(Command::new(strip).arg("--strip-debug").arg(to))
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let doing = || format!("cannot copy {}", from.display());
    for entry in fs::read_dir(from).context(doing)? {
        let entry = entry.context(doing)?;
        let to = to.join(entry.file_name());
        match entry.file_type().context(doing)?.is_dir() {
            true => copy_folder(&entry.path(), &to)?,
            false => copy_file(&entry.path(), &to)?,
        }
    }
    Ok(())
}

/// Everybody in the guest may read it, whatever the umask is here.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let doing = || format!("cannot copy {} to {}", from.display(), to.display());
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).context(doing)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755)).context(doing)?;
    fs::copy(from, to).context(doing)?;
    let executable = from.metadata().context(doing)?.permissions().mode() & 0o100 != 0;
    let mode = if executable { 0o755 } else { 0o644 };
    fs::set_permissions(to, Permissions::from_mode(mode)).context(doing)
}

/// Copies the profiles out of the guest's archive.
fn take_profiles(archive: &Path, matrix: &Path) -> Result<()> {
    let doing = || format!("cannot read {}", archive.display());
    let file = fs::File::open(archive).context(doing)?;
    let mut taken = 0;
    for entry in tar::Archive::new(file).entries().context(doing)? {
        let mut entry = entry.context(doing)?;
        let path = entry.path().context(doing)?.into_owned();
        let in_matrix = path
            .parent()
            .is_some_and(|folder| folder.ends_with("matrix"));
        let (true, Some(name)) = (in_matrix, path.file_name()) else {
            continue;
        };
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            entry.unpack(matrix.join(name)).context(doing)?;
            eprintln!("wrote {}", name.display());
            taken += 1;
        }
    }
    match taken {
        0 => Err(Failure::new("the guest has written no profile")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_not_run() {
        let console = [
            "GUEST root/doctor ok\r",
            "[ 1.2] oom GUEST root/suite failed",
            "ok",
        ];
        let console = console.map(str::to_owned);
        let said = said(&console);
        assert_eq!(said.get("root/doctor"), Some(&"ok"));
        assert_eq!(said.get("root/suite"), Some(&"failed"));
        assert_eq!(said.len(), 2);
        assert!(
            Who::Root
                .steps(false)
                .iter()
                .all(|step| step != "root/tests")
        );
    }

    #[test]
    fn the_scripts_know_everybody_and_every_step() {
        let (run, checks) = (include_str!("run.sh"), include_str!("checks.sh"));
        for who in Who::value_variants() {
            assert!(run.contains(&format!("{}) ", who.name())), "{who:?}");
            for step in who.steps(true) {
                let (_, step) = step.split_once('/').expect("a name");
                assert!(checks.contains(&format!("step {step} ")), "{step}");
            }
        }
    }
}
