//! The jobs that run the suite, and unchanged clients.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Planner, TEST_LIMIT};
use crate::conformance::PROFILES;
use crate::failure::Failure;
use crate::test::job::{Extent, Job, Lane, OutputKind, SUITE};
use crate::test::requirements::Requirement;

impl Planner<'_> {
    /// The suite on the local backend, with its self-checks, as the caller and as an ordinary user.
    pub(super) fn local_suites(&self) -> Result<Vec<Job>, Failure> {
        let mut command = self.suite_command(&["--tier", "local", "--check"]);
        match self.extent {
            Extent::Quick => drop(command.arg("--proven-elsewhere")),
            Extent::Commit => drop(command.arg("--own-probes")),
            Extent::Full => {}
        }
        if self.requirements.requires(Requirement::Local) {
            command.args(["--require", "local"]);
        }
        Ok(vec![self.suite_job(Lane::Local, "suite", command)])
    }

    /// Unchanged clients of HTTPS, registries, git, SSH and databases, under egress rules.
    pub(super) fn real_clients(&self) -> Result<Job, Failure> {
        let sandbox = self.programs().find(|program| program.name == "sandbox");
        let sandbox = sandbox.ok_or_else(|| Failure::new("sandbox was not built"))?;
        let mut command = Command::new(self.workspace.root.join("ci/clients.sh"));
        if self.requirements.requires(Requirement::Local) {
            command.arg("--require");
        }
        command.arg(&sandbox.path).arg("local");
        Ok(Job {
            output: OutputKind::Tests,
            ..self.suite_job(Lane::Local, "real clients", command)
        })
    }

    /// The suite on an engine, and that engine's mutants.
    pub(super) fn engine_suites(
        &self,
        requirement: Requirement,
        lane: Lane,
    ) -> Result<Vec<Job>, Failure> {
        let backend = requirement.name();
        let measure = |reports: &str| {
            let mut command =
                self.suite_command(&["--tier", backend, "--check", "--proven-elsewhere"]);
            command.arg("--reports").arg(self.reports(reports));
            if self.requirements.requires(requirement) {
                command.args(["--require", backend]);
            }
            command
        };
        let mut jobs = vec![self.suite_job(lane, "suite", measure(backend))];
        if requirement == Requirement::Kubernetes {
            let mut restricted = measure("k8s-restricted");
            restricted.env("SANDBOX_K8S_PROFILE", "restricted");
            jobs.push(self.suite_job(lane, "suite, restricted pods", restricted));
        }
        let mutants = format!("{backend}: ");
        let mut command = self.suite_command(&["--mutant", &mutants]);
        let reports = self.reports(&format!("{backend}-mutants"));
        command.arg("--reports").arg(reports);
        if self.extent == Extent::Commit {
            command.arg("--own-probes");
        }
        jobs.push(self.suite_job(lane, "mutants", command));
        Ok(jobs)
    }

    pub(super) fn suite_job(&self, lane: Lane, name: &str, command: Command) -> Job {
        Job {
            lane,
            name: name.to_owned(),
            command,
            limit: TEST_LIMIT,
            output: OutputKind::Plain,
            user: None,
            copy: None,
        }
    }

    pub(super) fn suite_command(&self, arguments: &[&str]) -> Command {
        let suite = self.programs().find(|program| program.name == SUITE);
        let mut command = Command::new(suite.map_or(Path::new(SUITE), |built| &built.path));
        let root = &self.workspace.root;
        command
            .args(arguments)
            .arg("--matrix")
            .arg(root.join(PROFILES))
            .current_dir(root)
            .env("KUBECONFIG", &self.kubeconfig);
        if !arguments.contains(&"--mutant") && arguments.contains(&"local") {
            command.arg("--reports").arg(self.reports("local"));
        }
        command.arg("--document").arg(root.join("docs/matrix.md"));
        command.arg("--summary").arg(root.join("README.md"));
        command
    }

    pub(super) fn reports(&self, name: &str) -> PathBuf {
        self.workspace.target.join("conformance").join(name)
    }
}
