//! The input of a running execution: standard input, and control requests.

use std::fmt;

use tokio::sync::mpsc;

use crate::TerminalSize;
use crate::spi::Source;

/// The maximum number of control requests that wait for a backend.
const MAX_PENDING_REQUESTS: usize = 16;

/// What the caller asks of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlRequest {
    /// Send this signal, 1 to 64, to the main process.
    Signal(u8),
    /// Kill the whole process tree.
    Kill,
    /// Change the size of the terminal. Only for requests with one.
    Resize(TerminalSize),
}

/// The control requests of one execution, oldest first.
#[derive(Debug, Default)]
pub struct ControlReceiver(Option<mpsc::Receiver<ControlRequest>>);

impl ControlReceiver {
    /// Creates a queue of requests and its sender.
    pub(crate) fn channel() -> (mpsc::Sender<ControlRequest>, Self) {
        let (sender, receiver) = mpsc::channel(MAX_PENDING_REQUESTS);
        (sender, Self(Some(receiver)))
    }

    /// Waits for the next request. Never returns after the last sender is dropped. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> ControlRequest {
        if let Some(requests) = &mut self.0 {
            if let Some(request) = requests.recv().await {
                return request;
            }
            self.0 = None;
        }
        std::future::pending().await
    }
}

/// The input of a running execution.
#[derive(Default)]
#[non_exhaustive]
pub struct Input {
    /// Standard input; `None` if it is empty.
    pub stdin: Option<Source>,
    /// Control requests.
    pub control: ControlReceiver,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("stdin", &self.stdin.is_some())
            .field("control", &self.control)
            .finish()
    }
}

impl Input {
    pub(crate) fn new(stdin: Option<Source>, control: ControlReceiver) -> Self {
        Self { stdin, control }
    }
}

impl From<Option<Source>> for Input {
    /// Standard input without control requests.
    fn from(stdin: Option<Source>) -> Self {
        Self::new(stdin, ControlReceiver::default())
    }
}
