//! The command `sandbox`, beside the commands that people use instead.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use async_trait::async_trait;
use sandbox::spi::unique_name;

use crate::processes::{self, TRUE};
use crate::workload::{Choices, Contender, MeasureError, SANDBOX, Timings, Workload};

/// The comparisons with the command: their label, and the tier that the command uses.
pub const COMMANDS: [(&str, &str); 3] = [
    ("local command", "local"),
    ("docker command", "docker"),
    ("podman command", "podman"),
];

/// The command, as a process of its own for each measurement.
pub struct SandboxCommand {
    /// The program `sandbox`.
    pub program: PathBuf,
    pub tier: &'static str,
    /// The detached sandbox in which [`Workload::WarmExec`] runs.
    pub warm: Option<String>,
}

impl SandboxCommand {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
    }
}

#[async_trait(?Send)]
impl Contender for SandboxCommand {
    fn name(&self) -> &'static str {
        SANDBOX
    }

    fn supports(&self, workload: Workload) -> bool {
        match workload {
            Workload::OneShot => self.tier == "local",
            Workload::WarmExec => true,
            _ => false,
        }
    }

    async fn run(&mut self, workload: Workload) -> Timings {
        let command = if workload == Workload::OneShot {
            self.command(&["run", "--quiet", "--", TRUE])
        } else {
            if self.warm.is_none() {
                let name = unique_name("bench");
                let mut create = self.command(&["create", "--quiet", "--backend", self.tier]);
                if self.tier != "local" {
                    create.args(["--image", &Choices::get().image]);
                }
                output(create.args(["--name", &name])).map_err(MeasureError::into_unavailable)?;
                self.warm = Some(name);
            }
            let name = self.warm.as_deref().expect("it has just been created");
            self.command(&["exec", name, "--", TRUE])
        };
        Ok(vec![(
            workload.measurement(),
            processes::run(command).await?,
        )])
    }

    async fn finish(&mut self) -> Result<(), MeasureError> {
        match self.warm.take() {
            Some(name) => output(&mut self.command(&["rm", &name])).map(drop),
            None => Ok(()),
        }
    }
}

/// `docker exec` or `podman exec`.
pub struct EngineCommand {
    pub engine: &'static str,
    /// The ID of the container in which it runs.
    pub container: Option<String>,
}

#[async_trait(?Send)]
impl Contender for EngineCommand {
    fn name(&self) -> &'static str {
        self.engine
    }

    fn supports(&self, workload: Workload) -> bool {
        workload == Workload::WarmExec
    }

    async fn run(&mut self, workload: Workload) -> Timings {
        if self.container.is_none() {
            let mut run = Command::new(self.engine);
            run.args(["run", "--detach", "--rm", "--network", "none"]);
            run.args([&Choices::get().image, "sleep", "86400"]);
            let id = output(&mut run).map_err(MeasureError::into_unavailable)?;
            self.container = Some(id);
        }
        let id = self.container.as_deref();
        let mut exec = Command::new(self.engine);
        exec.args(["exec", id.expect("it has just been started"), TRUE]);
        Ok(vec![(workload.measurement(), processes::run(exec).await?)])
    }

    async fn finish(&mut self) -> Result<(), MeasureError> {
        match self.container.take() {
            Some(id) => output(Command::new(self.engine).args(["rm", "--force", &id])).map(drop),
            None => Ok(()),
        }
    }
}

/// Runs a command that takes no input, and returns what it prints, without surrounding whitespace.
fn output(command: &mut Command) -> Result<String, MeasureError> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (program, status) = (command.get_program(), output.status);
    let reason = format!("{}: {status}: {}", program.to_string_lossy(), stderr.trim());
    Err(MeasureError::Failed(reason))
}
