//! The Python library llm-sandbox, on Docker.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::workload::{Choices, Contender, MeasureError, Timings, Workload};

/// Prints times by measurement.
const SCRIPT: &str = include_str!("llm_sandbox.py");

/// A process that has an interactive session.
type Process = (Child, ChildStdin, BufReader<ChildStdout>);

/// Sessions of llm-sandbox, each in a Python process.
pub struct LlmSandbox {
    /// The interpreter.
    pub python: PathBuf,
    /// An interactive session, which keeps variables, once it is needed. `None` for the sessions
    /// that run programs.
    pub interactive: Option<Option<Process>>,
}

impl LlmSandbox {
    fn start(&self, kind: &str) -> Result<Process, MeasureError> {
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT, &Choices::get().image, kind]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            let python = self.python.display();
            MeasureError::Unavailable(format!("cannot start {python}: {error}"))
        })?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok((child, input, BufReader::new(output))),
            _ => Err(MeasureError::Failed("the process has no pipes".into())),
        }
    }
}

#[async_trait(?Send)]
impl Contender for LlmSandbox {
    fn name(&self) -> &'static str {
        match self.interactive {
            Some(_) => "llm-sandbox interactive",
            None => "llm-sandbox",
        }
    }

    fn supports(&self, workload: Workload) -> bool {
        workload
            == match self.interactive {
                Some(_) => Workload::WarmCell,
                None => Workload::Create,
            }
    }

    async fn run(&mut self, _workload: Workload) -> Timings {
        let mut process = match &mut self.interactive {
            Some(process) => match process.take() {
                Some(process) => process,
                None => self.start("interactive")?,
            },
            None => self.start("session")?,
        };
        let (child, input, output) = &mut process;
        let mut line = String::new();
        // If this fails, the process has ended, which comes next.
        let _ = input.write_all(b"\n").await;
        output.read_line(&mut line).await?;
        if line.is_empty() {
            let mut stderr = String::new();
            if let Some(mut pipe) = child.stderr.take() {
                pipe.read_to_string(&mut stderr).await?;
            }
            let error = stderr.lines().last().unwrap_or("no message");
            let fix = match self.interactive {
                Some(_) => "--image IMAGE with IPython and pip",
                None => "pip install 'llm-sandbox[docker]', then --python FILE",
            };
            // A failure of the reference tool is not a failure of the sandbox.
            return Err(MeasureError::Unavailable(format!("{error}; fix: {fix}")));
        }
        if let Some(kept) = &mut self.interactive {
            *kept = Some(process);
        }
        let times: BTreeMap<String, u64> = serde_json::from_str(&line)?;
        let measurements = ["create", "warm exec", "warm cell", "remove"];
        let time = |name| {
            times
                .get(name)
                .map(|time| (name, Duration::from_nanos(*time)))
        };
        Ok(measurements.into_iter().filter_map(time).collect())
    }

    async fn finish(&mut self) -> Result<(), MeasureError> {
        if let Some(Some((mut child, input, _))) = self.interactive.take() {
            drop(input);
            child.wait().await?;
        }
        Ok(())
    }
}
