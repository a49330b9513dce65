//! The tests that need no rights, run again as a user who has none.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::tally::{Reader, Tally};
use super::user_folder::UserFolder;
use super::{Counted, FEATURES, Outcome, Run, descendants, supervise};
use crate::cargo::{self, Executable};
use crate::failure::{Context, Failure, Result};
use crate::programs;

/// What does something else for root than for others.
const PACKAGES: [&str; 5] = [
    "sandbox-agent",
    "sandbox-host",
    "sandbox-local",
    "sandbox-cli",
    "sandbox-conformance",
];
/// The first user number to try; one that nobody has.
const FIRST_USER: u32 = 12_345;
/// Most time for one test binary.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// Where tests find the program of a package, when the place where cargo built it cannot be read.
const PROGRAM_VARIABLE: &str = "SANDBOX_TEST_BIN";
/// What the user's environment holds besides what is set below.
const PASSED_ON: [&str; 4] = ["LANG", "LC_ALL", "TERM", "RUST_BACKTRACE"];

/// Runs the copied test binaries of [`PACKAGES`] as a user with an empty home.
///
/// # Errors
/// When they cannot be built, copied or started, or a process of that user outlives them.
pub fn run(run: &Run<'_>) -> Result<Outcome> {
    if !programs::is_root() {
        let reason = "not root: the step before has run as an ordinary user already";
        return Ok(Outcome::NotRun(reason.to_owned()));
    }
    // The same packages and features as in the step before, so that nothing is built again.
    let mut command = run.workspace.cargo();
    command.args(["test", "--workspace", "--features", FEATURES, "--no-run"]);
    let built = cargo::build(&mut command)?;
    let user = free_user()?;
    let folder = UserFolder::create(user)?;
    let stage = Stage::set(run, &folder, user, &built)?;
    let mut tally = Tally::default();
    let mut trouble = Vec::new();
    for package in PACKAGES {
        let manifest = run.workspace.root.join("crates").join(package);
        let mut tests: Vec<_> = built
            .iter()
            .filter(|built| built.test && built.package == manifest)
            .collect();
        tests.sort_by(|one, other| one.name.cmp(&other.name));
        if tests.is_empty() {
            return Err(Failure::new(format!("{package} has no test binary")));
        }
        for test in tests {
            stage.run(package, test, &mut tally, &mut trouble)?;
        }
    }
    if tally.results.is_empty() {
        trouble.push("no test binary has said a result".to_owned());
    }
    let trouble = (!trouble.is_empty()).then(|| Failure::new(trouble.join("; ")));
    Ok(Outcome::Counted(Counted { tally, trouble }))
}

/// Everything that the tests of one user find.
struct Stage<'a> {
    run: &'a Run<'a>,
    folder: &'a UserFolder,
    user: u32,
    checkout: PathBuf,
    programs: BTreeMap<String, PathBuf>,
}

impl<'a> Stage<'a> {
    fn set(
        run: &'a Run<'a>,
        folder: &'a UserFolder,
        user: u32,
        built: &[Executable],
    ) -> Result<Self> {
        let checkout = folder.copy_workspace(run.workspace)?;
        let mut programs = BTreeMap::new();
        for program in built.iter().filter(|built| !built.test) {
            let copy = folder.copy_program(&program.path, Path::new(&program.name))?;
            programs.insert(program.name.clone(), copy);
        }
        Ok(Self {
            run,
            folder,
            user,
            checkout,
            programs,
        })
    }

    fn run(
        &self,
        package: &str,
        test: &Executable,
        tally: &mut Tally,
        trouble: &mut Vec<String>,
    ) -> Result<()> {
        let below = Path::new("deps").join(test.path.file_name().unwrap_or_default());
        let binary = self.folder.copy_program(&test.path, &below)?;
        let name = format!("{package} {}", test.name);
        println!("\n     Running {name} as user {}", self.user);
        let mut reader = Reader::new("ordinary user", &name);
        let mut command = self.command(package, &binary);
        let ended = supervise::run_and_read(&mut command, LIMIT, &mut |line| {
            if reader.line(line) {
                println!("{line}");
            }
        })?;
        let result = reader.finish();
        if let Err(failure) = ended.into_result(&name)
            && result.failed == 0
        {
            trouble.push(failure.to_string());
        }
        tally.add(result);
        trouble.extend(self.end_processes(&name)?);
        fs::remove_file(&binary).context(|| format!("cannot remove {}", binary.display()))
    }

    fn command(&self, package: &str, binary: &Path) -> Command {
        let manifest = self.checkout.join("crates").join(package);
        let mut command = Command::new(binary);
        command
            .arg("--show-output")
            .current_dir(&manifest)
            .uid(self.user)
            .gid(self.user)
            .env_clear()
            .envs(
                PASSED_ON
                    .iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("USER", "sandbox-test")
            .env("HOME", self.folder.path.join("home"))
            .env("TMPDIR", self.folder.path.join("tmp"))
            .env("CARGO_MANIFEST_DIR", &manifest)
            .env("CARGO_TARGET_TMPDIR", self.folder.path.join("tmp"))
            .env("INSTA_WORKSPACE_ROOT", &self.checkout)
            .env("INSTA_UPDATE", "no");
        for (name, path) in &self.programs {
            command.env(format!("CARGO_BIN_EXE_{name}"), path);
        }
        if let Some(program) = self.programs.get("sandbox") {
            command.env(PROGRAM_VARIABLE, program);
        }
        self.run.requirements.tell(&mut command);
        command
    }

    /// Nobody but these tests has this user, so that whatever still runs is theirs.
    fn end_processes(&self, name: &str) -> Result<Option<String>> {
        let living = || -> Vec<_> {
            descendants::of_user(self.user)
                .into_iter()
                .filter(|process| !process.zombie)
                .collect()
        };
        let left = living();
        if left.is_empty() {
            return Ok(None);
        }
        let list: Vec<_> = left.iter().map(descendants::describe).collect();
        let begin = Instant::now();
        loop {
            let left = living();
            if left.is_empty() {
                break;
            }
            if begin.elapsed() > Duration::from_secs(5) {
                return Err(Failure::new(format!("cannot end {}", list.join(", "))));
            }
            for process in left {
                supervise::kill(&process)?;
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(format!(
            "{name} left running: {} (ended now)",
            list.join(", ")
        )))
    }
}

/// A number that no account, no range of subordinate users and no process has.
fn free_user() -> Result<u32> {
    let mut taken = Vec::new();
    for (file, field) in [("/etc/passwd", 2), ("/etc/group", 2)] {
        // A machine without one of the files has no entries in it.
        let text = fs::read_to_string(file).unwrap_or_default();
        taken.extend(
            text.lines()
                .filter_map(|line| line.split(':').nth(field)?.parse::<u32>().ok()),
        );
    }
    (FIRST_USER..FIRST_USER + 1000)
        .find(|user| !taken.contains(user) && descendants::of_user(*user).is_empty())
        .ok_or_else(|| Failure::new("found no user number that is free"))
}
