//! A running interpreter: an execution whose standard streams are the channel to its driver.

use std::time::Duration;

use sandbox_core::spi::{ExecutionStarter, escape};
use sandbox_core::{Error, ErrorKind, ExecEvent, ExecRequest, Execution, Outcome, Result};
use sandbox_core::{Stdin, StdinWriter};

use super::driver::NO_CHANNEL;
use super::frame::{Frame, Frames};
use super::message::{self, Message};

/// How long an interpreter may take to start.
const START: Duration = Duration::from_secs(60);

/// How long an interpreter may take to end when it is asked to.
const END: Duration = Duration::from_secs(2);

/// How much of what the interpreter itself writes is kept.
const MAX_LOG: usize = 16 * 1024;

pub(super) struct Interpreter {
    pub(super) execution: Execution,
    pub(super) stdin: StdinWriter,
    pub(super) output: Output,
}

/// What came from an interpreter.
#[derive(Debug, Default)]
pub(super) struct Output {
    frames: Frames,
    /// What the interpreter itself wrote, such as where it crashed.
    log: Vec<u8>,
}

/// What an interpreter did.
#[derive(Debug)]
pub(super) enum Heard {
    Frame(Frame),
    /// It sent what a driver never sends.
    Wrong(String),
    Ended(Outcome),
}

impl Output {
    /// The next thing. Dropping the future loses nothing.
    pub(super) async fn hear(&mut self, execution: &mut Execution) -> Result<Heard> {
        loop {
            match self.frames.next() {
                Ok(Some(frame)) => return Ok(Heard::Frame(frame)),
                Ok(None) => {}
                Err(wrong) => return Ok(Heard::Wrong(wrong)),
            }
            match execution.next_event().await? {
                Some(ExecEvent::Stdout(bytes)) => self.frames.push(&bytes),
                Some(ExecEvent::Stderr(bytes)) => {
                    let room = MAX_LOG - self.log.len();
                    self.log.extend_from_slice(&bytes[..bytes.len().min(room)]);
                }
                Some(ExecEvent::Exited(result)) => return Ok(Heard::Ended(result.outcome)),
                Some(_) => {}
                None => {
                    let reason = "its end was reported before".to_owned();
                    return Ok(Heard::Ended(Outcome::Unknown { reason }));
                }
            }
        }
    }

    /// What the interpreter wrote about its end.
    pub(super) fn details(&self, outcome: &Outcome) -> String {
        let mut details = String::from_utf8_lossy(&self.log).into_owned();
        if outcome.exit_code() == Some(NO_CHANNEL) {
            details += "the code closed the descriptors of the session\n";
        }
        details
    }
}

impl Interpreter {
    /// Starts an interpreter and waits until it is ready. Also returns its version.
    pub(super) async fn start(
        starter: &ExecutionStarter,
        lifetime: Duration,
        command: &ExecRequest,
    ) -> Result<(Self, String)> {
        let failed = |why: String| {
            Error::new(ErrorKind::SetupFailed, "start session", why).on(starter.tier())
        };
        let started = async {
            let mut execution = starter.start(lifetime, command, Stdin::Piped).await?;
            let stdin = execution.take_stdin().expect("it is piped");
            let mut output = Output::default();
            let version = match output.hear(&mut execution).await? {
                Heard::Frame(Frame::Message(bytes)) => match message::parse(&bytes) {
                    Ok(Message::Ready { version }) => version,
                    other => return Err(failed(format!("the interpreter sent {other:?}"))),
                },
                Heard::Ended(outcome) => {
                    let details = output.details(&outcome);
                    let why = format!("the interpreter ended: {outcome}: {}", escape(&details));
                    return Err(failed(why));
                }
                other => return Err(failed(format!("the interpreter sent {other:?}"))),
            };
            let interpreter = Self {
                execution,
                stdin,
                output,
            };
            Ok((interpreter, version))
        };
        let late = || failed(format!("the interpreter was not ready after {START:?}"));
        tokio::time::timeout(START, started)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// Ends the interpreter: it may run what it runs at its exit, for two seconds.
    pub(super) async fn end(self) {
        let Self {
            mut execution,
            stdin,
            ..
        } = self;
        drop(stdin);
        // Dropping the execution kills what is left.
        let _ = tokio::time::timeout(END, execution.wait()).await;
    }
}
