//! A Python library that runs code in containers of the same daemon, as a rival: llm-sandbox.

use std::path::PathBuf;
use std::process::Stdio;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{PYTHON, failed};
use crate::case::{CROWD, PROGRAM, Task};
use crate::failure::{Context, Failure, Result};
use crate::protocol::Sample;

/// Does what a line on its stdin says, and answers with a line.
const SCRIPT: &str = include_str!("python_client.py");

/// The library in a Python process, started when first needed.
#[derive(Debug)]
pub struct PythonClient {
    python: Option<PathBuf>,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Nanoseconds(u64),
    Missing(String),
}

impl PythonClient {
    /// `python` is a Python that has the library.
    pub fn new(python: Option<PathBuf>) -> Self {
        Self {
            python,
            process: None,
        }
    }

    /// Does `task` once.
    pub async fn run(&mut self, task: Task) -> Result<Sample> {
        let word = match task {
            Task::Python => "run",
            Task::Open => "open",
            Task::Close => "close",
            Task::Crowd => "crowd",
            Task::OneShot | Task::Exec | Task::Echo => {
                return Err(failed(format!("the library is not asked for {task:?}")));
            }
        };
        let process = self.process()?;
        let line = format!("{word}\n");
        process
            .stdin
            .write_all(line.as_bytes())
            .await
            .context("tell the library what to do")?;
        let line = process.lines.next_line().await.context("read its answer")?;
        let line = line.ok_or_else(|| failed("the library's process has ended"))?;
        match serde_json::from_str(&line).context("understand its answer")? {
            Answer::Nanoseconds(nanoseconds) if task == Task::Crowd => {
                Ok(sample(nanoseconds).share(CROWD))
            }
            Answer::Nanoseconds(nanoseconds) => Ok(sample(nanoseconds)),
            Answer::Missing(text) => Err(Failure::Missing(text)),
        }
    }

    /// Closes the library's stdin, upon which it removes its containers, and waits for its end.
    pub async fn end(self) -> Result<()> {
        let Some(Process {
            mut child, stdin, ..
        }) = self.process
        else {
            return Ok(());
        };
        drop(stdin);
        let status = child.wait().await.context("wait for the library")?;
        if status.success() {
            Ok(())
        } else {
            Err(failed(format!("the library's process ended with {status}")))
        }
    }

    fn process(&mut self) -> Result<&mut Process> {
        let Some(python) = &self.python else {
            return Err(Failure::Missing(
                "no Python with llm-sandbox named; fix: --python-client FILE, or cargo xtask bench"
                    .to_owned(),
            ));
        };
        if self.process.is_none() {
            let mut child = Command::new(python)
                .args(["-c", SCRIPT, PYTHON, PROGRAM, &CROWD.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("start the library")?;
            let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
                return Err(failed("the library has no pipes"));
            };
            self.process = Some(Process {
                child,
                stdin,
                lines: BufReader::new(stdout).lines(),
            });
        }
        self.process
            .as_mut()
            .ok_or_else(|| failed("the library does not run"))
    }
}

fn sample(nanoseconds: u64) -> Sample {
    Sample {
        nanoseconds,
        ..Sample::default()
    }
}
