//! A Python process that runs lines of code: the least that a session costs.

use std::process::Stdio;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::workload::{CELL, Choices, Contender, MeasureError, Timings, Workload, timed};

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

/// The process, once it is needed.
#[derive(Default)]
pub struct BareInterpreter(Option<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)>);

#[async_trait(?Send)]
impl Contender for BareInterpreter {
    fn name(&self) -> &'static str {
        "bare interpreter"
    }

    fn supports(&self, workload: Workload) -> bool {
        workload.is_cell()
    }

    async fn run(&mut self, workload: Workload) -> Timings {
        if self.0.is_none() {
            let modules = Choices::get().modules.join(", ");
            let mut command = Command::new("python3");
            command.args(["-c", &format!("import {modules}\n{LOOP}")]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.kill_on_drop(true).spawn()?;
            if let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) {
                self.0 = Some((child, input, BufReader::new(output).lines()));
            }
        }
        let Some((_, input, output)) = &mut self.0 else {
            return Err(MeasureError::Failed("the process has no pipes".into()));
        };
        let prefix = match workload {
            Workload::ForkedCell => "fork ",
            _ => "",
        };
        let line = format!("{prefix}{CELL}\n");
        let cell = async {
            input.write_all(line.as_bytes()).await?;
            let printed = output.next_line().await?;
            output.next_line().await.map(|_| printed)
        };
        match timed(cell).await? {
            (Some(printed), elapsed) if printed == "1" => {
                Ok(vec![(workload.measurement(), elapsed)])
            }
            (printed, _) => Err(MeasureError::Failed(format!("it printed {printed:?}"))),
        }
    }
}
