//! The jobs that run the suite, and unchanged clients.

use std::process::Command;

use super::Planner;
use crate::cargo::program;
use crate::conformance::{self, PACKAGE as SUITE, PROFILES};
use crate::failure::Failure;
use crate::test::job::{Extent, Job, Lane, OutputKind};
use crate::test::name_of;
use crate::test::requirements::Requirement;
use crate::test::user::User;

impl Planner<'_> {
    /// The suite on the local backend, with its self-checks.
    pub(super) fn local_suite(&self) -> Result<Job, Failure> {
        let mut command = self.measurement(Requirement::Local, "local")?;
        match self.extent {
            Extent::Quick => drop(command.arg("--proven-elsewhere")),
            Extent::Commit => drop(command.arg("--own-probes")),
            Extent::Full => {}
        }
        Ok(suite_job(Lane::Local, "suite", command))
    }

    /// Unchanged clients of HTTPS, registries, git, SSH and databases, under egress rules.
    pub(super) fn real_clients(&self) -> Result<Job, Failure> {
        let mut command = Command::new(self.workspace.root.join("ci/clients.sh"));
        if self.requirements.requires(Requirement::Local) {
            command.arg("--require");
        }
        command.arg(program(self.built, "sandbox")?).arg("local");
        let name = "real clients";
        Ok(Job::new(Lane::Local, name, command, OutputKind::Tests))
    }

    /// The suite on an engine, and that engine's mutants.
    pub(super) fn engine_suites(
        &self,
        lane: Lane,
        engine: Requirement,
    ) -> Result<Vec<Job>, Failure> {
        let backend = name_of(&engine);
        let measurement = |reports: &str| {
            let mut command = self.measurement(engine, reports)?;
            command.arg("--proven-elsewhere");
            Ok(command)
        };
        let mut jobs = vec![suite_job(lane, "suite", measurement(&backend)?)];
        if engine == Requirement::Kubernetes && self.extent == Extent::Full {
            let mut restricted = measurement("k8s-restricted")?;
            restricted.env("SANDBOX_K8S_PROFILE", "restricted");
            jobs.push(suite_job(lane, "suite, restricted pods", restricted));
        }
        let mut mutants = self.suite(Some(&format!("{backend}-mutants")))?;
        mutants.args(["--mutant", &format!("{backend}: ")]);
        if self.extent == Extent::Commit {
            mutants.arg("--own-probes");
        }
        jobs.push(suite_job(lane, "mutants", mutants));
        Ok(jobs)
    }

    /// The suite on a backend as another user.
    pub(super) fn user_suite(&self, lane: Lane, user: &User, backend: &str, required: bool) -> Job {
        let mut command = user.command(SUITE, user.checkout());
        command
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
        let (uid, gid) = (user.account.uid, user.account.gid);
        Job {
            user: Some((uid, gid)),
            ..suite_job(lane, &format!("suite as user {uid}"), command)
        }
    }

    /// A check of a backend against its committed profile.
    fn measurement(&self, backend: Requirement, reports: &str) -> Result<Command, Failure> {
        let name = name_of(&backend);
        let mut command = self.suite(Some(reports))?;
        command.args(["--tier", &name, "--check"]);
        if self.requirements.requires(backend) {
            command.args(["--require", &name]);
        }
        Ok(command)
    }

    /// The suite's program. A run that measures puts its reports into a folder of its own.
    pub(super) fn suite(&self, reports: Option<&str>) -> Result<Command, Failure> {
        let root = &self.workspace.root;
        let mut command = conformance::command(program(self.built, SUITE)?, root);
        command
            .current_dir(root)
            .env("KUBECONFIG", &self.kubeconfig);
        if let Some(reports) = reports {
            let folder = self.workspace.target.join("conformance").join(reports);
            command.arg("--reports").arg(folder);
        }
        Ok(command)
    }
}

fn suite_job(lane: Lane, name: &str, command: Command) -> Job {
    Job::new(lane, name, command, OutputKind::Plain)
}
