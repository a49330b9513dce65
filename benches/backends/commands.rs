//! The command `sandbox`, beside the commands that people use instead.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use async_trait::async_trait;
use sandbox::spi::unique_name;

use crate::OPTIONS;
use crate::processes::{self, TRUE};
use crate::workload::{Contender, MeasureError, Measured, SANDBOX, Timings, Workload};

/// The comparisons with the command: their label, and the tier that the command uses.
pub const COMMANDS: [(&str, &str); 3] = [
    ("local command", "local"),
    ("docker command", "docker"),
    ("podman command", "podman"),
];

/// `sandbox exec`, `docker exec` or `podman exec`, as a process of its own for each measurement.
pub struct ExecCommand {
    name: &'static str,
    program: PathBuf,
    /// The arguments that run `true` in a new environment.
    one_shot: Option<[&'static str; 4]>,
    /// The arguments that start an environment, and print its ID.
    start: Vec<String>,
    /// What precedes the program in the arguments of `exec`.
    separator: &'static [&'static str],
    /// What precedes the ID in the arguments that remove the environment.
    remove: &'static [&'static str],
    /// The ID of the environment in which [`Workload::WarmExec`] runs.
    warm: Option<String>,
}

impl ExecCommand {
    /// The command `sandbox` at this path.
    pub fn sandbox(program: &Path, tier: &'static str) -> Self {
        let mut start = vec!["create", "--quiet", "--backend", tier];
        if tier != "local" {
            start.extend(["--image", &OPTIONS.image]);
        }
        let name = unique_name("bench");
        start.extend(["--name", &name]);
        Self {
            name: SANDBOX,
            program: program.to_owned(),
            one_shot: (tier == "local").then_some(["run", "--quiet", "--", TRUE]),
            start: start.into_iter().map(str::to_owned).collect(),
            separator: &["--"],
            remove: &["rm"],
            warm: None,
        }
    }

    /// The command of an engine.
    pub fn engine(engine: &'static str) -> Self {
        let start = ["run", "--detach", "--rm", "--network", "none"];
        let sleep = [&OPTIONS.image, "sleep", "86400"];
        Self {
            name: engine,
            program: engine.into(),
            one_shot: None,
            start: start.into_iter().chain(sleep).map(str::to_owned).collect(),
            separator: &[],
            remove: &["rm", "--force"],
            warm: None,
        }
    }

    /// Runs a command that takes no input, and returns what it prints, without surrounding
    /// whitespace.
    fn output(&self, arguments: &[impl AsRef<OsStr>]) -> Measured<String> {
        let mut command = Command::new(&self.program);
        let output = command.args(arguments).stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (program, status) = (self.program.display(), output.status);
        let reason = format!("{program}: {status}: {}", stderr.trim());
        Err(MeasureError::Failed(reason))
    }
}

#[async_trait(?Send)]
impl Contender for ExecCommand {
    fn name(&self) -> &'static str {
        self.name
    }

    fn supports(&self, workload: Workload) -> bool {
        match workload {
            Workload::OneShot => self.one_shot.is_some(),
            _ => workload == Workload::WarmExec,
        }
    }

    async fn run(&mut self, work: Workload, timings: &mut Timings) -> Measured {
        let mut command = Command::new(&self.program);
        match self.one_shot {
            Some(arguments) if work == Workload::OneShot => command.args(arguments),
            _ => {
                if self.warm.is_none() {
                    let id = self.output(&self.start);
                    self.warm = Some(id.map_err(MeasureError::into_unavailable)?);
                }
                let id = self.warm.as_deref().expect("it has just been started");
                command.args(["exec", id]).args(self.separator).arg(TRUE)
            }
        };
        timings.add(work.measurement(), processes::run(command).await?);
        Ok(())
    }

    async fn finish(&mut self) -> Measured {
        match self.warm.take() {
            Some(id) => self.output(&[self.remove, &[&*id]].concat()).map(drop),
            None => Ok(()),
        }
    }
}
