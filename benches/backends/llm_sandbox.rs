//! The Python library llm-sandbox, on Docker.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::process::Command;

use crate::workload::{Choices, Contender, MeasureError, Timings, Workload};

/// Prints times by measurement.
const SCRIPT: &str = include_str!("llm_sandbox.py");

/// Sessions of llm-sandbox, in a Python process per run.
pub struct LlmSandbox {
    /// The interpreter.
    pub python: PathBuf,
    /// Whether its sessions are interactive ones, which keep variables.
    pub interactive: bool,
}

#[async_trait(?Send)]
impl Contender for LlmSandbox {
    fn name(&self) -> &'static str {
        match self.interactive {
            true => "llm-sandbox interactive",
            false => "llm-sandbox",
        }
    }

    fn supports(&self, workload: Workload) -> bool {
        workload
            == match self.interactive {
                true => Workload::WarmCell,
                false => Workload::Create,
            }
    }

    async fn run(&mut self, _workload: Workload) -> Timings {
        let kind = match self.interactive {
            true => "interactive",
            false => "session",
        };
        let output = Command::new(&self.python)
            .args(["-c", SCRIPT, &Choices::get().image, kind])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| {
                let python = self.python.display();
                MeasureError::Unavailable(format!("cannot start {python}: {error}"))
            })?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let error = stderr.lines().last().unwrap_or("no message");
            let fix = match self.interactive {
                true => "--image IMAGE with IPython and pip",
                false => "pip install 'llm-sandbox[docker]', then --python FILE",
            };
            // A failure of the reference tool is not a failure of the sandbox.
            return Err(MeasureError::Unavailable(format!("{error}; fix: {fix}")));
        }
        let times: BTreeMap<String, u64> = serde_json::from_slice(&output.stdout)?;
        let measurements = ["create", "warm exec", "warm cell", "remove"];
        let time = |name| {
            times
                .get(name)
                .map(|time| (name, Duration::from_nanos(*time)))
        };
        Ok(measurements.into_iter().filter_map(time).collect())
    }
}
