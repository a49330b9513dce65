//! Copied test binaries and the conformance suite, as another user.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::requirements::{Requirement, Requirements};
use super::tally::{Reader, Tally};
use super::user_stage::UserStage;
use super::{Counted, ENGINES, Outcome, PROVEN, Run, supervise};
use crate::cargo::{Executable, Profile};
use crate::engines::Owner;
use crate::failure::{Context, Failure, Result};

/// The program of the conformance suite.
const SUITE: &str = "sandbox-conformance";
/// The backend of the guide, which isolates nothing for any user.
const TOY: &str = "toy";
/// Most time for one test binary.
const TEST_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Most time for the suite against one tier.
const SUITE_LIMIT: Duration = Duration::from_secs(20 * 60);

/// What one user runs.
#[derive(Debug)]
pub struct Programme {
    /// The user, as in "ordinary user", for results.
    pub label: &'static str,
    /// The packages whose test binaries run.
    pub packages: &'static [&'static str],
    /// Tests of other packages: the package, the test binary, and the part of the tests' names.
    pub also: &'static [(&'static str, &'static str, &'static str)],
    /// The tier that is measured and compared with its committed profile, if there is one of such a host.
    pub tier: &'static str,
    /// Whether the suite proves itself as well: once for each kind of user is enough, whatever the tier.
    pub proves_itself: bool,
    /// What makes a tier that cannot be measured, or has no such profile, a failure.
    pub requirement: Requirement,
    /// How programs are told what is required.
    pub tell: fn(&Requirements, &mut Command),
}

impl Programme {
    /// What its tests leave to its own run of the suite, or have done as another user to whom it is the same.
    fn measured_elsewhere(&self, run: &Run<'_>) -> Vec<&'static str> {
        let mut elsewhere = ENGINES.to_vec();
        if self.proves_itself {
            elsewhere.extend(PROVEN);
        }
        if run.tests_before {
            elsewhere.push(TOY);
        }
        elsewhere
    }

    /// Runs it as `owner`, else as a user that nobody is.
    ///
    /// # Errors
    /// When something cannot be built, copied or started.
    pub fn run(&self, run: &Run<'_>, owner: Option<Owner>) -> Result<Outcome> {
        let tests = run.workspace.build_tests()?;
        let programs = run.workspace.build_programs(Profile::Dev)?;
        let stage = match owner {
            Some(owner) => UserStage::set_for(run, programs.all(), owner)?,
            None => UserStage::set(run, programs.all())?,
        };
        let mut sum = Sum {
            programme: self,
            run,
            stage: &stage,
            tally: Tally::default(),
            trouble: Vec::new(),
        };
        for package in self.packages {
            let manifest = run.workspace.root.join(package);
            let mut tests: Vec<_> = tests
                .iter()
                .filter(|built| built.test && built.package == manifest)
                .collect();
            tests.sort_by(|one, other| one.name.cmp(&other.name));
            if tests.is_empty() {
                return Err(Failure::new(format!("{package} has no test binary")));
            }
            for test in tests {
                sum.test(package, test, None)?;
            }
        }
        for (package, name, part) in self.also {
            let manifest = run.workspace.root.join(package);
            let mut of_package = tests.iter().filter(|built| built.package == manifest);
            let test = of_package.find(|built| built.test && built.name == *name);
            let missing = || Failure::new(format!("{package} has no test binary {name}"));
            sum.test(package, test.ok_or_else(missing)?, Some(part))?;
        }
        sum.suite()?;
        Ok(Outcome::Counted(sum.finish()))
    }
}

struct Sum<'a> {
    programme: &'a Programme,
    run: &'a Run<'a>,
    stage: &'a UserStage,
    tally: Tally,
    trouble: Vec<String>,
}

impl Sum<'_> {
    /// Runs a test binary, or those of its tests whose names hold `part`.
    fn test(&mut self, package: &str, test: &Executable, part: Option<&str>) -> Result<()> {
        let below = Path::new("deps").join(test.path.file_name().unwrap_or_default());
        let binary = self.stage.copy_program(&test.path, &below)?;
        let name = format!("{package} {}", test.name);
        println!("\n     Running {name} as user {}", self.stage.user());
        let mut reader = Reader::new(self.programme.label, &name);
        let mut command = self.stage.command(&binary, package);
        command.args(part).arg("--show-output");
        (self.programme.tell)(self.run.requirements, &mut command);
        Requirements::leave_out(&mut command, &self.programme.measured_elsewhere(self.run));
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
        self.trouble.extend(self.stage.end_processes(&name)?);
        // Debug binaries are large; one at a time is enough.
        fs::remove_file(&binary).context(|| format!("cannot remove {}", binary.display()))
    }

    /// Measures the tier and compares with the committed profile.
    fn suite(&mut self) -> Result<()> {
        let name = "the conformance suite";
        let Programme {
            tier, requirement, ..
        } = *self.programme;
        let program = self.stage.program(SUITE)?;
        println!("\n     Running {name} as user {}", self.stage.user());
        let mut command = self.stage.command(program, SUITE);
        command
            .args(["--tier", tier, "--check", "--matrix"])
            .arg(self.stage.checkout().join("matrix"));
        command
            .arg("--reports")
            .arg(self.stage.temporary().join("conformance"));
        if !self.programme.proves_itself {
            command.arg("--proven-elsewhere");
        }
        if self.run.requirements.requires(requirement) {
            command.args(["--require", tier]);
        }
        let ended = supervise::run(&mut command, SUITE_LIMIT)?;
        self.trouble.extend(
            ended
                .into_result(name)
                .err()
                .map(|failure| failure.to_string()),
        );
        self.trouble.extend(self.stage.end_processes(name)?);
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
