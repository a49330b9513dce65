//! The tests that need no rights, run again as a user who has none, and the conformance suite with
//! them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::requirements::Requirement;
use super::tally::{Reader, Tally};
use super::user_stage::UserStage;
use super::{Counted, Outcome, Run, supervise};
use crate::cargo::{self, BACKENDS, Executable};
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
/// The program of the conformance suite.
const SUITE: &str = "sandbox-conformance";
/// The one tier that needs no rights.
const TIER: &str = "local";
/// Most time for one test binary.
const TEST_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Most time for the suite against one tier.
const SUITE_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Runs the copied test binaries of [`PACKAGES`] and the suite as a user with an empty home.
///
/// # Errors
/// When they cannot be built, copied or started.
pub fn run(run: &Run<'_>) -> Result<Outcome> {
    if !programs::is_root() {
        let reason = "not root: the step before has run as an ordinary user already";
        return Ok(Outcome::NotRun(reason.to_owned()));
    }
    // The same packages and features as in the step before, so that nothing is built again.
    let scope = ["--workspace", "--features", BACKENDS];
    let tests = cargo::build(
        run.workspace
            .cargo()
            .arg("test")
            .args(scope)
            .arg("--no-run"),
    )?;
    let programs = cargo::build(run.workspace.cargo().arg("build").args(scope).arg("--bins"))?;
    let stage = UserStage::set(run, &programs)?;
    let mut counted = Sum::default();
    for package in PACKAGES {
        let manifest = run.workspace.root.join("crates").join(package);
        let mut tests: Vec<_> = tests
            .iter()
            .filter(|built| built.test && built.package == manifest)
            .collect();
        tests.sort_by(|one, other| one.name.cmp(&other.name));
        if tests.is_empty() {
            return Err(Failure::new(format!("{package} has no test binary")));
        }
        for test in tests {
            counted.test(run, &stage, package, test)?;
        }
    }
    counted.suite(run, &stage)?;
    Ok(Outcome::Counted(counted.finish()))
}

#[derive(Default)]
struct Sum {
    tally: Tally,
    trouble: Vec<String>,
}

impl Sum {
    fn test(
        &mut self,
        run: &Run<'_>,
        stage: &UserStage,
        package: &str,
        test: &Executable,
    ) -> Result<()> {
        let below = Path::new("deps").join(test.path.file_name().unwrap_or_default());
        let binary = stage.copy_program(&test.path, &below)?;
        let name = format!("{package} {}", test.name);
        println!("\n     Running {name} as user {}", stage.user());
        let mut reader = Reader::new("ordinary user", &name);
        let mut command = stage.command(&binary, package);
        command.arg("--show-output");
        run.requirements.tell_ordinary_user(&mut command);
        let ended = supervise::run_and_read(&mut command, TEST_LIMIT, &mut |line| {
            if reader.line(line) {
                println!("{line}");
            }
        })?;
        let result = reader.finish();
        if let Err(failure) = ended.into_result(&name)
            && result.failed == 0
        {
            self.trouble.push(failure.to_string());
        }
        self.tally.add(result);
        self.trouble.extend(stage.end_processes(&name)?);
        // Debug binaries are large; one at a time is enough.
        fs::remove_file(&binary).context(|| format!("cannot remove {}", binary.display()))
    }

    /// Measures the local tier and compares with the committed profile, if there is one of such a
    /// host.
    fn suite(&mut self, run: &Run<'_>, stage: &UserStage) -> Result<()> {
        let name = "the conformance suite";
        let program = stage.program(SUITE)?;
        println!("\n     Running {name} as user {}", stage.user());
        let mut command = stage.command(program, SUITE);
        command
            .args(["--tier", TIER, "--check", "--matrix"])
            .arg(stage.checkout().join("matrix"));
        command
            .arg("--reports")
            .arg(stage.temporary().join("conformance"));
        if run.requirements.requires(Requirement::Local) {
            command.args(["--require", TIER]);
        }
        let ended = supervise::run(&mut command, SUITE_LIMIT)?;
        self.trouble.extend(
            ended
                .into_result(name)
                .err()
                .map(|failure| failure.to_string()),
        );
        self.trouble.extend(stage.end_processes(name)?);
        Ok(())
    }

    fn finish(mut self) -> Counted {
        if self.tally.results.is_empty() {
            self.trouble
                .push("no test binary has said a result".to_owned());
        }
        let trouble = (!self.trouble.is_empty()).then(|| Failure::new(self.trouble.join("; ")));
        Counted {
            tally: self.tally,
            trouble,
        }
    }
}
