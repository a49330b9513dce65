//! The jobs of a run, and the lane of each.

mod suites;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::job::{Extent, Job, Lane, OutputKind, SUITE, lane_of, measured_by_suite};
use super::requirements::{Requirement, Requirements};
use super::user::User;
use crate::cargo::{BACKENDS, Executable, ExecutableKind, SCOPE, Workspace};
use crate::conformance::PROFILES;
use crate::failure::{Context, Failure};

/// The time limit for one tool that checks the whole workspace on a slow machine.
const TOOL_LIMIT: Duration = Duration::from_secs(40 * 60);
/// The time limit of one test program or one run of the suite.
const TEST_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Selects quick tests of the local backend's main functions.
const CORE_OF_LOCAL: [&str; 4] = ["isolation::", "lifetime::", "limits::", "streams::"];
/// The packages whose behavior depends on the user.
const USER_PACKAGES: [&str; 5] = [
    "sandbox-agent",
    "sandbox-host",
    "sandbox-local",
    "sandbox-cli",
    SUITE,
];
/// Tests of these packages that do not depend on the user.
const SAME_FOR_ALL_USERS: [(&str, &str); 6] = [
    ("sandbox-agent", "static_program"),
    (SUITE, "attacks"),
    (SUITE, "guide"),
    (SUITE, "profiles"),
    (SUITE, "toy"),
    ("sandbox-cli", "docker"),
];

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
    pub user: Option<Arc<User>>,
    /// The user of rootless Podman, if root runs this.
    pub rootless: Option<Arc<User>>,
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
        // The guide is a test in the lane of the checks. It mostly waits, so it comes before them,
        // and compilers use the processors that other lanes leave at the end.
        let mut jobs = self.tests()?;
        jobs.extend(self.checks()?);
        jobs.extend(self.local_suites()?);
        if self.extent == Extent::Full {
            jobs.push(self.real_clients()?);
        }
        if self.extent != Extent::Quick {
            for (requirement, lane) in [
                (Requirement::Docker, Lane::Docker),
                (Requirement::Podman, Lane::Podman),
                (Requirement::Kubernetes, Lane::Kubernetes),
            ] {
                if self.requirements.uses(requirement) {
                    jobs.extend(self.engine_suites(requirement, lane)?);
                }
            }
            if let Some(user) = &self.user {
                jobs.extend(self.tests_as_user(user)?);
            }
            if let Some(user) = &self.rootless {
                jobs.extend(self.rootless(user)?);
            }
        }
        Ok(jobs)
    }

    fn checks(&self) -> Result<Vec<Job>, Failure> {
        // A file that was removed and is not committed yet is listed too.
        let format = "git ls-files --deduplicate '*.rs' | while read -r file; do \
                      [ ! -f \"$file\" ] || echo \"$file\"; done | xargs rustfmt --check";
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-c", format]);
        shell.current_dir(&self.workspace.root);
        let scripts = "for file in .ci/run ci/*.sh ci/guest/*.sh; do bash -n \"$file\" || exit; done; \
                       ! command -v shellcheck || \
                       shellcheck -ax -P SCRIPTDIR -S warning .ci/run ci/{clients,engines,images,guest,mutation-score,newer-engine}.sh";
        let mut lint = Command::new("bash");
        lint.args(["-c", scripts]);
        lint.current_dir(&self.workspace.root);
        let mut clippy = self.workspace.cargo();
        clippy.args(["clippy", "--all-targets"]).args(SCOPE);
        clippy.args(["--", "-D", "warnings"]);
        let mut jobs = vec![
            self.tool("format", shell),
            self.tool("shell scripts", lint),
            self.tool("clippy", clippy),
            self.tool("matrix", self.suite_command(&["--check-committed"])),
        ];
        if self.extent == Extent::Quick {
            return Ok(jobs);
        }
        let mut docs = self.workspace.cargo();
        docs.args(["doc", "--workspace", "--no-deps", "--features", BACKENDS]);
        let flags = std::env::var("RUSTDOCFLAGS").unwrap_or_default();
        docs.env("RUSTDOCFLAGS", format!("{flags} -D warnings"));
        // Under `nice`, `/proc/self/exe` would be `nice`.
        let own = std::env::current_exe();
        let own = own.context(|| "cannot find this program".to_owned())?;
        let mut bench = Command::new(own);
        bench.args(["bench", "--smoke"]);
        let mut examples = self.workspace.cargo();
        examples.args(["test", "--doc"]).args(SCOPE);
        jobs.push(self.tool("docs", docs));
        jobs.push(Job {
            output: OutputKind::ManyTests,
            ..self.tool("examples in the documentation", examples)
        });
        jobs.push(self.tool("benchmark, once", bench));
        Ok(jobs)
    }

    fn tool(&self, name: &str, command: Command) -> Job {
        Job {
            lane: Lane::Checks,
            name: name.to_owned(),
            command,
            limit: TOOL_LIMIT,
            output: OutputKind::Plain,
            user: None,
            copy: None,
        }
    }

    /// The test programs, as the caller.
    fn tests(&self) -> Result<Vec<Job>, Failure> {
        let mut jobs = Vec::new();
        for test in self
            .built
            .iter()
            .filter(|built| built.kind != ExecutableKind::Program)
        {
            let package = self.package(test);
            let lane = lane_of(&package, test);
            let usable = match lane {
                Lane::Docker => self.requirements.uses(Requirement::Docker),
                Lane::Podman => self.requirements.uses(Requirement::Podman),
                Lane::PodmanRootless => self.requirements.uses(Requirement::PodmanRootless),
                Lane::Kubernetes => self.requirements.uses(Requirement::Kubernetes),
                Lane::Checks | Lane::Local => true,
            };
            if !usable || measured_by_suite(&package, test) {
                continue;
            }
            let mut command = self.test_command(test);
            match (&*package, &*test.name, self.extent) {
                ("sandbox-local", "local", Extent::Quick) => {
                    // These programs take one filter.
                    for filter in CORE_OF_LOCAL {
                        let mut command = self.test_command(test);
                        command.arg(filter);
                        let mut job = self.test_job(lane, test, command);
                        job.name = format!("{} {filter}", job.name);
                        jobs.push(job);
                    }
                    continue;
                }
                (_, _, Extent::Quick) if test.kind == ExecutableKind::IntegrationTests => continue,
                (SUITE, "interrupts", _) => {
                    command.args(["--skip", "docker::", "--skip", "podman::"]);
                }
                ("sandbox-local", "endurance", Extent::Commit) => {
                    command.args(["--skip", "without_user_namespaces"]);
                }
                _ => {}
            }
            if self.user.is_some() && USER_PACKAGES.contains(&&*package) {
                // Another job of this run is the same as an ordinary user.
                command.args(["--skip", "as_an_ordinary_user"]);
                command.args(["--skip", "as_ordinary_user"]);
            }
            let kills_node = self.extent == Extent::Full
                && self.owns_cluster
                && (&*package, &*test.name) == ("sandbox-k8s", "faults");
            if kills_node {
                command.env("SANDBOX_FAULTS_OWN_CLUSTER", "1");
            }
            jobs.push(self.test_job(lane, test, command));
            if kills_node {
                let mut up = Command::new(self.workspace.root.join("ci/engines.sh"));
                up.args(["up", "k8s"]);
                jobs.push(Job {
                    lane,
                    ..self.tool("repair of the node", up)
                });
            }
        }
        if self.extent == Extent::Full {
            for (requirement, lane) in [
                (Requirement::Docker, Lane::Docker),
                (Requirement::Podman, Lane::Podman),
            ] {
                if self.requirements.uses(requirement) {
                    let interrupts = self.test(SUITE, "interrupts")?;
                    let mut command = self.test_command(interrupts);
                    command.arg(format!("{}::", requirement.name()));
                    jobs.push(self.test_job(lane, interrupts, command));
                }
            }
        }
        Ok(jobs)
    }

    fn test_job(&self, lane: Lane, test: &Executable, mut command: Command) -> Job {
        let required: &[Requirement] = match lane {
            Lane::Checks | Lane::Local => &[Requirement::Local, Requirement::Browser],
            Lane::Docker => &[Requirement::Docker],
            Lane::Podman => &[Requirement::Podman],
            Lane::PodmanRootless => &[Requirement::PodmanRootless],
            Lane::Kubernetes => &[Requirement::Kubernetes],
        };
        command.env("SANDBOX_REQUIRE", self.requirements.names(required));
        Job {
            lane,
            name: self.test_name(test),
            command,
            limit: TEST_LIMIT,
            output: OutputKind::Tests,
            user: None,
            copy: None,
        }
    }

    /// A test program with the environment that `cargo test` gives it.
    fn test_command(&self, test: &Executable) -> Command {
        let mut command = Command::new(&test.path);
        command
            .current_dir(&test.package)
            .env("CARGO", self.workspace.cargo().get_program())
            .env("CARGO_MANIFEST_DIR", &test.package)
            .env("CARGO_PKG_NAME", self.package(test))
            .env("KUBECONFIG", &self.kubeconfig);
        self.set_common(&mut command);
        for program in self.programs() {
            let variable = format!("CARGO_BIN_EXE_{}", program.name);
            command.env(variable, &program.path);
        }
        command
    }

    fn set_common(&self, command: &mut Command) {
        // A snapshot that differs is a failure, never a new file in the checkout.
        command.env("INSTA_UPDATE", "no");
        // Jobs of this run measure every backend with the suite.
        let measured = "docker,podman,k8s,local,self-checks";
        command.env("SANDBOX_MEASURED_ELSEWHERE", measured);
        if self.extent == Extent::Full {
            command.env("SANDBOX_TEST_FULL", "1");
        }
    }

    /// The tests that depend on the user, as an ordinary user, and the local backend's suite.
    fn tests_as_user(&self, user: &Arc<User>) -> Result<Vec<Job>, Failure> {
        let mut jobs = Vec::new();
        let integration = self
            .built
            .iter()
            .filter(|test| test.kind == ExecutableKind::IntegrationTests);
        for test in integration {
            let package = self.package(test);
            let endurance = test.name == "endurance" && self.extent != Extent::Full;
            let same = SAME_FOR_ALL_USERS.contains(&(&*package, &*test.name));
            if !USER_PACKAGES.contains(&&*package)
                || same
                || endurance
                || measured_by_suite(&package, test)
            {
                continue;
            }
            let mut job = self.user_job(Lane::Local, user, test);
            match (&*test.name, self.extent) {
                ("interrupts", _) => {
                    job.command
                        .args(["--skip", "docker::", "--skip", "podman::"]);
                }
                ("local", Extent::Commit) => {
                    job.command.args(["--skip", "without_user_namespaces"]);
                }
                _ => {}
            }
            let required = self.requirements.names(&[Requirement::Local]);
            job.command.env("SANDBOX_REQUIRE", required);
            jobs.push(job);
        }
        let is_required = self.requirements.requires(Requirement::Local);
        jobs.push(self.user_suite(Lane::Local, user, "local", is_required));
        Ok(jobs)
    }

    /// The tests of Podman and its suite as the user of rootless Podman.
    fn rootless(&self, user: &Arc<User>) -> Result<Vec<Job>, Failure> {
        let is_required = self.requirements.requires(Requirement::PodmanRootless);
        let mut tests = vec![
            (self.test("sandbox-podman", "podman")?, ""),
            (self.test("sandbox-podman", "faults")?, ""),
        ];
        if self.extent == Extent::Full {
            tests.push((self.test(SUITE, "interrupts")?, "podman::"));
        }
        let mut jobs = Vec::new();
        for (test, filter) in tests {
            let mut job = self.user_job(Lane::PodmanRootless, user, test);
            if !filter.is_empty() {
                job.command.arg(filter);
            }
            let required = if is_required { "podman" } else { "" };
            job.command.env("SANDBOX_REQUIRE", required);
            jobs.push(job);
        }
        jobs.push(self.user_suite(Lane::PodmanRootless, user, "podman", is_required));
        Ok(jobs)
    }

    fn user_job(&self, lane: Lane, user: &Arc<User>, test: &Executable) -> Job {
        let copy = user.program(&format!("test-{}", test.name));
        let package = self.package(test);
        let folder = user.checkout().join(&package);
        let mut command = Command::new(&copy);
        command
            .current_dir(&folder)
            .env_clear()
            .envs(user.environment())
            .env("CARGO_MANIFEST_DIR", &folder)
            .env("CARGO_PKG_NAME", &package)
            .env("SANDBOX_TEST_BIN", user.program("sandbox"));
        self.set_common(&mut command);
        for program in self.programs() {
            let variable = format!("CARGO_BIN_EXE_{}", program.name);
            command.env(variable, user.program(&program.name));
        }
        Job {
            lane,
            name: format!("{} as user {}", self.test_name(test), user.uid()),
            command,
            limit: TEST_LIMIT,
            output: OutputKind::Tests,
            user: Some(Arc::clone(user)),
            copy: Some((test.path.clone(), copy)),
        }
    }

    fn user_suite(&self, lane: Lane, user: &Arc<User>, backend: &str, required: bool) -> Job {
        let mut command = Command::new(user.program(SUITE));
        command
            .current_dir(user.checkout())
            .env_clear()
            .envs(user.environment())
            .args(["--tier", backend, "--check", "--matrix"])
            .arg(user.checkout().join(PROFILES))
            .arg("--reports")
            .arg(user.temporary().join("conformance"));
        // Once for each kind of user is enough.
        if self.extent == Extent::Commit || backend != "local" {
            command.arg("--proven-elsewhere");
        }
        if required {
            command.args(["--require", backend]);
        }
        let name = format!("suite as user {}", user.uid());
        Job {
            user: Some(Arc::clone(user)),
            ..self.suite_job(lane, &name, command)
        }
    }

    fn programs(&self) -> impl Iterator<Item = &Executable> {
        let programs = self.built.iter();
        programs.filter(|built| built.kind == ExecutableKind::Program)
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
