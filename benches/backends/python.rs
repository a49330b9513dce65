//! Python processes: the least that a session costs, and the library llm-sandbox.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::OPTIONS;
use crate::workload::{CELL, Contender, MeasureError, Measured, Timings, Workload};

/// A process that answers lines with lines.
struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Python {
    fn start(command: &mut Command) -> Measured<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// The next line; empty if the process has ended.
    async fn line(&mut self) -> Measured<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).await?;
        Ok(line)
    }

    /// The last line that a process that has ended wrote to its standard error.
    async fn error(&mut self) -> Measured<String> {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).await?;
        }
        Ok(text.lines().last().unwrap_or("no message").to_owned())
    }
}

/// Runs each line, in a fork if it begins with `fork `, and then prints an empty line.
const LOOP: &str = "
import os, sys
for line in sys.stdin:
    code = line.removeprefix('fork ')
    if code is line:
        exec(code)
    elif (child := os.fork()) == 0:
        exec(code)
        sys.stdout.flush()
        os._exit(0)
    else:
        os.waitpid(child, 0)
    print(flush=True)
";

/// A process that runs [`LOOP`], once it is needed.
#[derive(Default)]
pub struct BareInterpreter(Option<Python>);

#[async_trait(?Send)]
impl Contender for BareInterpreter {
    fn name(&self) -> &'static str {
        "bare interpreter"
    }

    fn supports(&self, workload: Workload) -> bool {
        workload.is_cell()
    }

    async fn run(&mut self, work: Workload, timings: &mut Timings) -> Measured {
        let process = match &mut self.0 {
            Some(process) => process,
            none => {
                let script = format!("import {}\n{LOOP}", OPTIONS.modules.join(", "));
                let mut command = Command::new("python3");
                command.args(["-c", &script]);
                none.insert(Python::start(&mut command)?)
            }
        };
        let prefix = match work {
            Workload::ForkedCell => "fork ",
            _ => "",
        };
        let line = format!("{prefix}{CELL}\n");
        let cell = async {
            process.input.write_all(line.as_bytes()).await?;
            let printed = process.line().await?;
            process.line().await.map(|_| printed)
        };
        match timings.time(work.measurement(), cell).await?.as_str() {
            "1\n" => Ok(()),
            printed => Err(MeasureError::Failed(format!("it printed {printed:?}"))),
        }
    }
}

/// Prints times by measurement.
const SCRIPT: &str = include_str!("llm_sandbox.py");

/// Sessions of llm-sandbox on Docker, each in a process.
pub struct LlmSandbox {
    is_interactive: bool,
    /// An interactive session, which keeps variables, once it is needed.
    kept: Option<Python>,
}

impl LlmSandbox {
    /// One interactive session, or a new session that runs programs for each measurement.
    pub fn new(is_interactive: bool) -> Self {
        Self {
            is_interactive,
            kept: None,
        }
    }

    fn start(&self) -> Measured<Python> {
        let kind = match self.is_interactive {
            true => "interactive",
            false => "session",
        };
        let mut command = Command::new(&OPTIONS.python);
        command.args(["-c", SCRIPT, &OPTIONS.image, kind]);
        Python::start(command.stderr(Stdio::piped())).map_err(|error| {
            let python = OPTIONS.python.display();
            MeasureError::Unavailable(format!("cannot start {python}: {}", error.reason()))
        })
    }
}

#[async_trait(?Send)]
impl Contender for LlmSandbox {
    fn name(&self) -> &'static str {
        match self.is_interactive {
            true => "llm-sandbox interactive",
            false => "llm-sandbox",
        }
    }

    fn supports(&self, workload: Workload) -> bool {
        match self.is_interactive {
            true => workload == Workload::WarmCell,
            false => workload == Workload::Create,
        }
    }

    async fn run(&mut self, _work: Workload, timings: &mut Timings) -> Measured {
        let mut process = match self.kept.take() {
            Some(process) => process,
            None => self.start()?,
        };
        // If this fails, the process has ended, which comes next.
        let _ = process.input.write_all(b"\n").await;
        let line = process.line().await?;
        if line.is_empty() {
            let error = process.error().await?;
            let fix = match self.is_interactive {
                true => "--image IMAGE with IPython and pip",
                false => "pip install 'llm-sandbox[docker]', then --python FILE",
            };
            // A failure of the reference tool is not a failure of the sandbox.
            return Err(MeasureError::Unavailable(format!("{error}; fix: {fix}")));
        }
        self.kept = self.is_interactive.then_some(process);
        let times: BTreeMap<String, u64> = serde_json::from_str(&line)?;
        for measurement in ["create", "warm exec", "warm cell", "remove"] {
            if let Some(time) = times.get(measurement) {
                timings.add(measurement, Duration::from_nanos(*time));
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> Measured {
        if let Some(Python {
            mut child, input, ..
        }) = self.kept.take()
        {
            // The session ends with its input.
            drop(input);
            child.wait().await?;
        }
        Ok(())
    }
}
