//! A running interpreter: an execution whose standard streams are the channel to its driver.

use std::time::Duration;

use sandbox_core::spi::{ExecutionStarter, escape};
use sandbox_core::{Error, ErrorKind, ExecEvent, ExecRequest, Execution, Outcome, Result};
use sandbox_core::{Stdin, StdinWriter};

use super::channel::{Channel, Form};
use super::driver::{NO_CHANNEL, NO_STATUS};
use super::message::Message;
use super::shell::Item;

/// How long an interpreter may take to start.
pub(super) const START: Duration = Duration::from_secs(60);

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
#[derive(Debug)]
pub(super) struct Output {
    pub(super) channel: Channel,
    /// What the interpreter itself wrote, such as where it crashed.
    log: Vec<u8>,
    /// How it ended, while there is still output.
    ended: Option<Outcome>,
}

/// What an interpreter did.
#[derive(Debug)]
pub(super) enum Heard {
    Item(Item),
    /// It sent what a driver never sends.
    Wrong(String),
    Ended(Outcome),
}

impl Output {
    /// The next thing. Dropping the future loses nothing.
    pub(super) async fn hear(&mut self, execution: &mut Execution) -> Result<Heard> {
        loop {
            match self.channel.next() {
                Ok(Some(item)) => return Ok(Heard::Item(item)),
                Ok(None) => {}
                Err(wrong) => return Ok(Heard::Wrong(wrong)),
            }
            if let Some(outcome) = self.ended.take() {
                return Ok(Heard::Ended(outcome));
            }
            let pushed = match execution.next_event().await? {
                Some(ExecEvent::Stdout(bytes)) => self.channel.push_stdout(&bytes),
                Some(ExecEvent::Stderr(bytes)) => self.channel.push_stderr(&bytes).map(|is_own| {
                    let room = if is_own { MAX_LOG - self.log.len() } else { 0 };
                    self.log.extend_from_slice(&bytes[..bytes.len().min(room)]);
                }),
                Some(ExecEvent::Exited(result)) => {
                    self.channel.finish();
                    self.ended = Some(result.outcome);
                    Ok(())
                }
                Some(_) => Ok(()),
                None => {
                    let reason = "its end was reported before".to_owned();
                    return Ok(Heard::Ended(Outcome::Unknown { reason }));
                }
            };
            if let Err(wrong) = pushed {
                return Ok(Heard::Wrong(wrong));
            }
        }
    }

    /// What the interpreter wrote about its end.
    pub(super) fn details(&self, outcome: &Outcome) -> String {
        let mut details = String::from_utf8_lossy(&self.log).into_owned();
        if outcome.exit_code() == Some(NO_CHANNEL) {
            details += "the code closed the descriptors of the session\n";
        }
        if outcome.exit_code() == Some(NO_STATUS) {
            details += "the session that this one is a branch of has ended\n";
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
        form: &Form,
    ) -> Result<(Self, String)> {
        let failed = |why: String| {
            Error::new(ErrorKind::SetupFailed, "start session", why).on(starter.tier())
        };
        let started = async {
            let mut execution = starter.start(lifetime, command, Stdin::Piped).await?;
            let stdin = execution.take_stdin().expect("it is piped");
            let mut output = Output {
                channel: Channel::new(form),
                log: Vec::new(),
                ended: None,
            };
            let version = match output.hear(&mut execution).await? {
                Heard::Item(Item::Message(Message::Ready { version })) => {
                    // What was written before is of no interest any more.
                    output.log.clear();
                    version
                }
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
