//! Executions with a terminal of their own.

use std::time::Duration;

use sandbox_core::{
    ExecEvent, ExecRequest, Execution, SandboxHandle, Stdin, StdinWriter, TerminalSize,
};
use tokio::io::AsyncWriteExt as _;

use crate::probes::prelude::*;

mod defaults;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "terminal::count",
        TERMINAL,
        "opens 80 terminals, of which 64 may exist",
        |context| Box::pin(count(context)),
    ),
    Probe::behavior(
        "terminal::defaults",
        TERMINAL,
        "asks for streams, type and size of terminals that are set up in different ways, and types \
         lines",
        |context| Box::pin(plain_feature(context, "compare terminals", defaults::run)),
    ),
    Probe::behavior(
        "terminal::end_of_input",
        TERMINAL,
        "ends the input of a program on a terminal after a whole line and after an unfinished one",
        |context| Box::pin(plain_feature(context, "end the input", end_of_input)),
    ),
    Probe::behavior(
        "terminal::interrupt",
        TERMINAL,
        "presses Ctrl-C while a shell waits for a program, and expects only the program to end",
        |context| Box::pin(plain_feature(context, "press Ctrl-C", interrupt)),
    ),
    Probe::behavior(
        "terminal::size",
        TERMINAL,
        "starts a program on a terminal of 33 lines and 101 columns, resizes it, and compares what \
         the program is told",
        |context| Box::pin(plain_feature(context, "resize a terminal", size)),
    ),
    Probe::behavior(
        "terminal::standard_streams",
        TERMINAL,
        "asks for the terminal of an execution with one, and of one without",
        |context| {
            Box::pin(plain_feature(
                context,
                "look for terminals",
                standard_streams,
            ))
        },
    ),
];

/// How long a program on a terminal may run.
const LIMIT: Duration = Duration::from_secs(20);

/// Terminals are memory of the kernel that no limit counts; see docs/policy.md. Engines have no
/// limit of their own for a container.
const TERMINALS: u32 = 64;

async fn count(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["measure-terminals", "80"]);
    context.host_control(&call).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let count = match context.execute(&call).await {
        Ok(result) => match crate::program::Run::from(result).attempt(None) {
            Attempt::Succeeded { value } => value
                .parse::<u32>()
                .map_err(|_| Attempt::unclear(format!("the program's answer: {value:?}"))),
            other => Err(other),
        },
        Err(declined) => Err(declined),
    };
    if matches!(count, Ok(count) if count > TERMINALS) {
        context.not_offered("more than 64 terminals can be opened");
    }
    let deviation = count.map(|count| (count == 0).then(|| "no terminal can be opened".to_owned()));
    context.record_attack(behavior("open 80 terminals", deviation));
    context.no_host_effect("the terminals are the sandbox's own");
    Ok(())
}

fn shell(script: &str) -> ExecRequest {
    ExecRequest::shell(script).timeout(LIMIT)
}

/// A program on a terminal, and what it has shown.
struct Screen {
    execution: Execution,
    keyboard: StdinWriter,
    text: String,
}

impl Screen {
    async fn start(sandbox: &SandboxHandle, script: &str) -> sandbox_core::Result<Self> {
        let request = shell(script).terminal(TerminalSize::new(33, 101));
        let mut execution = sandbox.start(&request, Stdin::Piped).await?;
        let keyboard = execution.take_stdin().expect("it is piped");
        Ok(Self {
            execution,
            keyboard,
            text: String::new(),
        })
    }

    /// Reads until the screen shows the text, or the program has ended.
    async fn until(&mut self, text: &str) -> sandbox_core::Result<()> {
        while !self.text.contains(text) {
            match self.execution.next_event().await? {
                Some(ExecEvent::Stdout(bytes)) => self.text += &String::from_utf8_lossy(&bytes),
                Some(ExecEvent::Started) => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// What the program has shown, and how it ended.
    async fn end(mut self) -> sandbox_core::Result<(String, Outcome)> {
        let result = self.execution.wait().await?;
        Ok((self.text + &result.stdout_text(), result.outcome))
    }
}

async fn standard_streams(sandbox: &SandboxHandle) -> Deviation {
    let script = "for n in 0 1 2; do if [ -t $n ]; then echo yes; else echo no; fi; done; \
                  if (: </dev/tty) 2>/dev/null; then echo own; else echo none; fi";
    let without = sandbox.exec(&shell(script)).await?.stdout_text();
    if without != "no\nno\nno\nnone\n" {
        return Ok(Some(format!("without a terminal: {without:?}")));
    }
    let (with, outcome) = Screen::start(sandbox, script).await?.end().await?;
    let is_right = with == "yes\r\nyes\r\nyes\r\nown\r\n" && outcome == Outcome::Exited { code: 0 };
    Ok((!is_right).then(|| format!("with a terminal: {with:?}, {outcome}")))
}

async fn size(sandbox: &SandboxHandle) -> Deviation {
    let script = "trap 'stty size; exit 7' WINCH; stty size; while :; do sleep 0.05; done";
    let mut screen = Screen::start(sandbox, script).await?;
    screen.until("33 101\r\n").await?;
    screen.execution.resize(TerminalSize::new(11, 222)).await?;
    screen.until("11 222\r\n").await?;
    let (text, outcome) = screen.end().await?;
    let is_right = text.contains("33 101\r\n") && text.contains("11 222\r\n");
    let is_right = is_right && outcome == Outcome::Exited { code: 7 };
    Ok((!is_right).then(|| format!("{text:?}, {outcome}")))
}

async fn end_of_input(sandbox: &SandboxHandle) -> Deviation {
    for (input, read) in [("whole\n", "whole\n"), ("unfinished", "unfinished")] {
        let mut screen = Screen::start(sandbox, "stty -echo; echo ready; cat; echo ended").await?;
        screen.until("ready").await?;
        if let Err(error) = screen.keyboard.write_all(input.as_bytes()).await {
            return Ok(Some(format!("the input is not taken: {error}")));
        }
        drop(screen.keyboard);
        let result = screen.execution.wait().await?;
        let text = (screen.text + &result.stdout_text()).replace('\r', "");
        let is_right = text == format!("ready\n{read}ended\n") && result.success();
        if !is_right {
            return Ok(Some(format!("{input:?}: {text:?}, {}", result.outcome)));
        }
    }
    Ok(None)
}

async fn interrupt(sandbox: &SandboxHandle) -> Deviation {
    // The shell handles the signal once its child has ended.
    let script =
        "trap 'echo caught' INT; sh -c 'echo ready; exec sleep 15'; echo status $?; exit 5";
    let mut screen = Screen::start(sandbox, script).await?;
    screen.until("ready").await?;
    if let Err(error) = screen.keyboard.write_all(b"\x03").await {
        return Ok(Some(format!("the key is not taken: {error}")));
    }
    screen.until("status").await?;
    let (text, outcome) = screen.end().await?;
    let is_right = text.contains("caught") && text.contains("status 130");
    let is_right = is_right && outcome == Outcome::Exited { code: 5 };
    Ok((!is_right).then(|| format!("{text:?}, {outcome}")))
}
