//! The Python library llm-sandbox, on Docker.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::process::Command;

use crate::workload::{Contender, IMAGE, MeasureError, Timings, Workload};

/// Creates a session, runs `true` in it, closes it, and prints the times.
const SCRIPT: &str = include_str!("llm_sandbox.py");

/// llm-sandbox, in a Python process per run.
pub struct LlmSandbox {
    /// The interpreter.
    pub python: PathBuf,
}

#[async_trait(?Send)]
impl Contender for LlmSandbox {
    fn name(&self) -> &'static str {
        "llm-sandbox"
    }

    fn supports(&self, workload: Workload) -> bool {
        workload == Workload::Create
    }

    async fn run(&mut self, _workload: Workload) -> Timings {
        let output = Command::new(&self.python)
            .args(["-c", SCRIPT, IMAGE])
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
            let fix = "pip install 'llm-sandbox[docker]', then --python FILE";
            // A failure of the reference tool is not a failure of the sandbox.
            return Err(MeasureError::Unavailable(format!("{error}; fix: {fix}")));
        }
        let times: Value = serde_json::from_slice(&output.stdout)?;
        let times = times.as_array().into_iter().flatten();
        let times = times.filter_map(Value::as_u64).map(Duration::from_nanos);
        let measurements = ["create", "warm exec", "remove"];
        Ok(measurements.into_iter().zip(times).collect())
    }
}
