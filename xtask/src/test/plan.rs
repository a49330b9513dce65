//! The jobs of a run, and the lane of each.

mod suites;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::job::{Extent, Job, Lane, OutputKind, lane_of, measured_by_suite};
use super::name_of;
use super::requirements::{Requirement, Requirements};
use super::user::User;
use crate::cargo::{Executable, ExecutableKind, SCOPE, Workspace, programs};
use crate::conformance::PACKAGE as SUITE;
use crate::failure::{Context, Failure};

/// The time limit for one tool that checks the whole workspace on a slow machine.
const TOOL_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Selects quick tests of the local backend's main functions.
const CORE_OF_LOCAL: [&str; 4] = ["isolation::", "lifetime::", "limits::", "streams::"];
/// The packages whose behavior depends on the user.
const USER_PACKAGES: [&str; 5] = ["sandbox-agent", "sandbox-host", LOCAL, "sandbox-cli", SUITE];
/// Tests of these packages that do not depend on the user.
const SAME_FOR_ALL_USERS: [(&str, &str); 6] = [
    ("sandbox-agent", "static_program"),
    (SUITE, "attacks"),
    (SUITE, "guide"),
    (SUITE, "profiles"),
    (SUITE, "toy"),
    ("sandbox-cli", "docker"),
];
/// Of the tests that depend on the user, those that a commit also runs as an ordinary user.
const COMMIT_AS_USER: [(&str, &str); 3] = [
    ("sandbox-agent", "confinement"),
    ("sandbox-host", "seccomp_kernel"),
    (LOCAL, "local"),
];
const LOCAL: &str = "sandbox-local";
/// Tests of what runs above the agent. A commit runs them on the local backend, as one user.
const ABOVE_THE_AGENT: [&str; 5] = [
    "installers::",
    "libraries::",
    "packages::",
    "session::",
    "sessions::",
];
/// Tests whose code Docker and Podman share. A commit runs them on Docker, and the suite on both.
const SHARED_BY_ENGINES: [&str; 14] = [
    "code::", "conda::", "egress::", "exchange", "exec::", "folders:", "language", "limits::",
    "mounts::", "recipes:", "secrets:", "speed::", "stats::", "terminal",
];
/// Tests of code that runs above the backend, and a hundred pods at once.
const NIGHTLY_ON_PODS: [&str; 3] = ["code::", "languages::", "scale::"];
/// Probes that mostly wait. A commit leaves them out where the suite itself is under test.
const WAITING_PROBES: [&str; 3] = ["sessions::", "streams::", "timeout::"];

/// What the plan depends on.
#[derive(Debug)]
pub struct Planner<'a> {
    /// The workspace.
    pub workspace: &'a Workspace,
    /// Everything that was built.
    pub built: &'a [Executable],
    /// What may be used.
    pub requirements: &'a Requirements,
    /// How much to run.
    pub extent: Extent,
    /// The ordinary user, if root runs this.
    pub user: Option<User>,
    /// The user of rootless Podman, if root runs this.
    pub rootless: Option<User>,
    /// The cluster's configuration for tests.
    pub kubeconfig: String,
    /// Whether `cargo xtask engines up k8s` started that cluster; tests may then kill its daemons.
    pub owns_cluster: bool,
}

impl Planner<'_> {
    /// Every job, in the order in which those of each lane run.
    ///
    /// # Errors
    /// If a program was not built.
    pub fn jobs(&self) -> Result<Vec<Job>, Failure> {
        // The suite and the guide mostly wait, so they come first, and compilers use the processors
        // that other lanes leave at the end.
        let mut jobs = vec![self.local_suite()?];
        jobs.extend(self.tests()?);
        jobs.extend(self.checks()?);
        if self.extent == Extent::Full {
            jobs.push(self.real_clients()?);
        }
        if self.extent != Extent::Quick {
            for lane in [Lane::Docker, Lane::Podman, Lane::Kubernetes] {
                if let Some(engine) = self.usable_engine(lane) {
                    jobs.extend(self.engine_suites(lane, engine)?);
                }
            }
            if let Some(user) = &self.user {
                jobs.extend(self.tests_as_user(user));
            }
            if let Some(user) = &self.rootless {
                jobs.extend(self.rootless(user)?);
            }
        }
        Ok(jobs)
    }

    fn usable_engine(&self, lane: Lane) -> Option<Requirement> {
        let used = |engine: &Requirement| self.requirements.uses(*engine);
        lane.engine().filter(used)
    }

    fn checks(&self) -> Result<Vec<Job>, Failure> {
        // A file that was removed and is not committed yet is listed too.
        let format = "git ls-files --deduplicate '*.rs' | while read -r file; do \
                      [ ! -f \"$file\" ] || echo \"$file\"; done | xargs rustfmt --check";
        let scripts = "for file in .ci/run ci/*.sh ci/guest/*.sh; do bash -n \"$file\" || exit; done; \
                       ! command -v shellcheck || \
                       shellcheck -ax -P SCRIPTDIR -S warning .ci/run ci/{clients,engines,images,guest,newer-engine}.sh";
        let mut clippy = self.workspace.cargo();
        clippy.args(["clippy", "--all-targets"]).args(SCOPE);
        clippy.args(["--", "-D", "warnings"]);
        let mut committed = self.suite(None)?;
        committed.arg("--check-committed");
        let mut jobs = vec![
            tool("format", self.bash(format)),
            tool("shell scripts", self.bash(scripts)),
            tool("clippy", clippy),
            tool("matrix", committed),
        ];
        if self.extent == Extent::Quick {
            return Ok(jobs);
        }
        let mut docs = self.workspace.cargo();
        docs.args(["doc", "--no-deps"]).args(SCOPE);
        let flags = std::env::var("RUSTDOCFLAGS").unwrap_or_default();
        docs.env("RUSTDOCFLAGS", format!("{flags} -D warnings"));
        // Under `nice`, `/proc/self/exe` would be `nice`.
        let own = std::env::current_exe();
        let mut bench = Command::new(own.context(|| "cannot find this program")?);
        bench.args(["bench", "--smoke"]);
        let mut examples = self.workspace.cargo();
        examples.args(["test", "--doc"]).args(SCOPE);
        jobs.push(tool("docs", docs));
        jobs.push(Job {
            output: OutputKind::ManyTests,
            ..tool("examples in the documentation", examples)
        });
        jobs.push(tool("benchmark, once", bench));
        Ok(jobs)
    }

    fn bash(&self, script: &str) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["-o", "pipefail", "-c", script]);
        bash.current_dir(&self.workspace.root);
        bash
    }

    /// The test programs, as the caller.
    fn tests(&self) -> Result<Vec<Job>, Failure> {
        let mut jobs = Vec::new();
        for test in self.built {
            let package = self.package(test);
            let lane = lane_of(&package, test);
            let usable = lane.engine().is_none() || self.usable_engine(lane).is_some();
            if test.kind == ExecutableKind::Program || !usable || measured_by_suite(&package, test)
            {
                continue;
            }
            let mut job = self.test_job(lane, test);
            match (&*package, &*test.name, self.extent) {
                (LOCAL, "local", Extent::Quick) => {
                    // These programs take one filter.
                    jobs.extend(CORE_OF_LOCAL.map(|filter| {
                        let mut job = self.test_job(lane, test);
                        job.command.arg(filter);
                        job.name = format!("{} {filter}", job.name);
                        job
                    }));
                    continue;
                }
                (_, _, Extent::Quick) if test.kind == ExecutableKind::IntegrationTests => continue,
                (SUITE, "guide", Extent::Commit) => skip(&mut job, &["steps_of_the_guide"]),
                (SUITE, "toy", Extent::Commit) => skip(&mut job, &WAITING_PROBES),
                ("sandbox-podman" | "sandbox-k8s", "faults", Extent::Commit) => continue,
                (_, "docker" | "podman" | "k8s", Extent::Commit) if lane.engine().is_some() => {
                    skip(&mut job, &ABOVE_THE_AGENT);
                    match lane {
                        Lane::Podman => skip(&mut job, &SHARED_BY_ENGINES),
                        Lane::Kubernetes => skip(&mut job, &NIGHTLY_ON_PODS),
                        _ => {}
                    }
                }
                (SUITE, "interrupts", _) => skip(&mut job, &["docker::", "podman::"]),
                (LOCAL, "endurance", Extent::Commit) => {
                    skip(&mut job, &["without_user_namespaces"]);
                }
                _ => {}
            }
            if self.user.is_some() && self.runs_as_user(&package, test) {
                // Another job of this run is the same as an ordinary user.
                skip(&mut job, &["as_an_ordinary_user", "as_ordinary_user"]);
            }
            let kills_node = self.extent == Extent::Full
                && self.owns_cluster
                && (&*package, &*test.name) == ("sandbox-k8s", "faults");
            if kills_node {
                job.command.env("SANDBOX_FAULTS_OWN_CLUSTER", "1");
            }
            jobs.push(job);
            if kills_node {
                let up = tool("repair of the node", self.bash("ci/engines.sh up k8s"));
                jobs.push(Job { lane, ..up });
            }
        }
        if self.extent == Extent::Full {
            for lane in [Lane::Docker, Lane::Podman] {
                if let Some(engine) = self.usable_engine(lane) {
                    let mut job = self.test_job(lane, self.test(SUITE, "interrupts")?);
                    job.command.arg(format!("{}::", name_of(&engine)));
                    jobs.push(job);
                }
            }
        }
        Ok(jobs)
    }

    /// A test program with the environment that `cargo test` gives it.
    fn test_job(&self, lane: Lane, test: &Executable) -> Job {
        let mut command = Command::new(&test.path);
        command
            .env("CARGO", self.workspace.cargo().get_program())
            .env("KUBECONFIG", &self.kubeconfig);
        self.set_common(&mut command, test, &test.package, |program| {
            program.path.clone()
        });
        let required = match lane.engine() {
            Some(engine) => self.requirements.names(&[engine]),
            None => self
                .requirements
                .names(&[Requirement::Local, Requirement::Browser]),
        };
        command.env("SANDBOX_REQUIRE", required);
        Job::new(lane, self.test_name(test), command, OutputKind::Tests)
    }

    /// Sets what tests of the caller and of other users have in common. `folder` is the package's,
    /// and `file` is where that user has a program.
    fn set_common(
        &self,
        command: &mut Command,
        test: &Executable,
        folder: &Path,
        file: impl Fn(&Executable) -> PathBuf,
    ) {
        command
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env("CARGO_PKG_NAME", self.package(test))
            // A snapshot that differs is a failure, never a new file in the checkout.
            .env("INSTA_UPDATE", "no")
            // Jobs of this run measure every backend with the suite.
            .env(
                "SANDBOX_MEASURED_ELSEWHERE",
                "docker,podman,k8s,local,self-checks",
            );
        if self.extent == Extent::Full {
            command.env("SANDBOX_TEST_FULL", "1");
        }
        for program in programs(self.built) {
            command.env(format!("CARGO_BIN_EXE_{}", program.name), file(program));
        }
    }

    /// Whether a test program also runs as an ordinary user.
    fn runs_as_user(&self, package: &str, test: &Executable) -> bool {
        let named = (package, &*test.name);
        test.kind == ExecutableKind::IntegrationTests
            && !measured_by_suite(package, test)
            && match self.extent {
                Extent::Quick => false,
                Extent::Commit => COMMIT_AS_USER.contains(&named),
                Extent::Full => {
                    USER_PACKAGES.contains(&package) && !SAME_FOR_ALL_USERS.contains(&named)
                }
            }
    }

    /// The tests that depend on the user, as an ordinary user, and the local backend's suite.
    fn tests_as_user(&self, user: &User) -> Vec<Job> {
        let mut jobs = Vec::new();
        for test in self.built {
            if !self.runs_as_user(&self.package(test), test) {
                continue;
            }
            let required = self.requirements.names(&[Requirement::Local]);
            let mut job = self.user_job(Lane::LocalUser, user, test, &required);
            match (&*test.name, self.extent) {
                ("interrupts", _) => skip(&mut job, &["docker::", "podman::"]),
                ("local", Extent::Commit) => {
                    skip(&mut job, &["without_user_namespaces"]);
                    skip(&mut job, &ABOVE_THE_AGENT);
                }
                _ => {}
            }
            jobs.push(job);
        }
        let is_required = self.requirements.requires(Requirement::Local);
        jobs.push(self.user_suite(Lane::LocalUser, user, "local", is_required));
        jobs
    }

    /// The tests of Podman and its suite as the user of rootless Podman.
    fn rootless(&self, user: &User) -> Result<Vec<Job>, Failure> {
        let lane = Lane::PodmanRootless;
        let is_required = self.requirements.requires(Requirement::PodmanRootless);
        let required = if is_required { "podman" } else { "" };
        let mut jobs = Vec::new();
        // The suite has each probe of what differs without root.
        if self.extent == Extent::Full {
            for name in ["podman", "faults"] {
                let test = self.test("sandbox-podman", name)?;
                jobs.push(self.user_job(lane, user, test, required));
            }
            let mut job = self.user_job(lane, user, self.test(SUITE, "interrupts")?, required);
            job.command.arg("podman::");
            jobs.push(job);
        }
        jobs.push(self.user_suite(lane, user, "podman", is_required));
        Ok(jobs)
    }

    fn user_job(&self, lane: Lane, user: &User, test: &Executable, required: &str) -> Job {
        let name = format!("test-{}", test.name);
        let folder = user.checkout().join(self.package(test));
        let mut command = user.command(&name, folder.clone());
        command
            .env("SANDBOX_TEST_BIN", user.program("sandbox"))
            .env("SANDBOX_REQUIRE", required);
        self.set_common(&mut command, test, &folder, |program| {
            user.program(&program.name)
        });
        let (uid, gid) = (user.account.uid, user.account.gid);
        let title = format!("{} as user {uid}", self.test_name(test));
        Job {
            user: Some((uid, gid)),
            copy: Some((test.path.clone(), user.program(&name))),
            ..Job::new(lane, title, command, OutputKind::Tests)
        }
    }

    fn test(&self, package: &str, name: &str) -> Result<&Executable, Failure> {
        let is_wanted = |test: &&Executable| {
            test.kind == ExecutableKind::IntegrationTests
                && test.name == name
                && self.package(test) == package
        };
        self.built
            .iter()
            .find(is_wanted)
            .ok_or_else(|| Failure::new(format!("{package} has no test program {name}")))
    }

    /// The name of the package: its folder, except for the root package.
    fn package(&self, built: &Executable) -> String {
        match built.package.file_name() {
            Some(name) if built.package != self.workspace.root => {
                name.to_string_lossy().into_owned()
            }
            _ => "sandbox".to_owned(),
        }
    }

    fn test_name(&self, test: &Executable) -> String {
        match test.kind {
            ExecutableKind::IntegrationTests => format!("{} {}", self.package(test), test.name),
            _ => format!("{} unit tests of {}", self.package(test), test.name),
        }
    }
}

/// A check of the whole workspace.
fn tool(name: &str, command: Command) -> Job {
    Job {
        limit: TOOL_LIMIT,
        ..Job::new(Lane::Checks, name, command, OutputKind::Plain)
    }
}

/// Leaves out the tests whose names contain one of these texts.
fn skip(job: &mut Job, tests: &[&str]) {
    for test in tests {
        job.command.args(["--skip", test]);
    }
}
