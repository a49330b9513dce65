//! Branches: copies of an interpreter that are sessions of their own.

use sandbox_core::spi::escape;
use sandbox_core::{Error, ErrorKind, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::channel::Channel;
use super::driver;
use super::interpreter::{Heard, Interpreter, START};
use super::message::{Message, NotBranchedCause};
use super::shell::Item;
use super::worker::Worker;

/// Why there is no branch.
enum Failed {
    /// The interpreter told it, and goes on.
    Refused(NotBranchedCause, String),
    /// The interpreter must be killed.
    Lost(String),
}

impl Worker {
    /// Copies the interpreter. Also returns its version.
    pub(super) async fn branch(&mut self) -> Result<(Self, String)> {
        if self.interpreter.is_none() {
            self.start_again().await;
        }
        let tier = self.settings.starter.tier().to_owned();
        let failed = |kind, why: String| Error::new(kind, "branch session", escape(&why)).on(&tier);
        let Some(interpreter) = &mut self.interpreter else {
            let error = self.failed.take();
            return Err(error.expect("an interpreter that was not started left its error"));
        };
        let socket = match timeout(START, socket_of_a_copy(interpreter)).await {
            Ok(socket) => socket?,
            Err(_) => Err(Failed::Lost(format!("it was not copied in {START:?}"))),
        };
        let command = socket
            .and_then(|path| driver::relay(&self.settings.command, &path).map_err(Failed::Lost));
        let command = match command {
            Ok(command) => command,
            Err(Failed::Refused(cause, why)) => {
                let (kind, problem, fix) = match cause {
                    NotBranchedCause::Threads => (
                        ErrorKind::InvalidRequest,
                        "the interpreter has threads, which a copy would not have",
                        "end its threads, or start another session",
                    ),
                    NotBranchedCause::Sockets => (
                        ErrorKind::Unsupported,
                        "a branch needs a Unix socket, which this sandbox refuses",
                        "start another session, or use a sandbox with its own network namespace",
                    ),
                    NotBranchedCause::Other => (
                        ErrorKind::SetupFailed,
                        "the interpreter cannot be copied",
                        "start another session",
                    ),
                };
                return Err(failed(kind, format!("{problem}: {why}")).with_fix(fix));
            }
            Err(Failed::Lost(why)) => {
                self.interpreter = None;
                let lost = self.lose(format!("the interpreter sent {why}"));
                self.lost = Some(lost);
                return Err(failed(ErrorKind::SetupFailed, why));
            }
        };
        let settings = &self.settings;
        let (interpreter, version) = Interpreter::start(
            &settings.starter,
            settings.lifetime,
            &command,
            &settings.form,
        )
        .await?;
        let branch = Self {
            settings: settings.clone(),
            interpreter: Some(interpreter),
            failed: None,
            cell: self.cell,
            variables: self.variables.clone(),
            lost: None,
        };
        Ok((branch, version))
    }
}

/// Where a new copy of the interpreter waits for its channel.
async fn socket_of_a_copy(interpreter: &mut Interpreter) -> Result<Result<String, Failed>> {
    let Interpreter {
        execution,
        stdin,
        output,
    } = interpreter;
    // If this fails, the interpreter has ended, which comes next.
    let _ = stdin.write_all(&Channel::branch()).await;
    Ok(match output.hear(execution).await? {
        Heard::Item(Item::Message(Message::Branched { path })) => Ok(path),
        Heard::Item(Item::Message(Message::NotBranched { cause, reason })) => {
            Err(Failed::Refused(cause, reason))
        }
        Heard::Item(_) => Err(Failed::Lost(
            "another message than that of a copy".to_owned(),
        )),
        Heard::Wrong(wrong) => Err(Failed::Lost(wrong)),
        Heard::Ended(outcome) => Err(Failed::Lost(format!("its end: {outcome}"))),
    })
}
