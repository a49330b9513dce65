//! What has come in for one execution and waits to be taken. Bounded by the credit that was granted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_agent::protocol::{Channel, ExitReport, Failure, ProtocolError, WINDOW};
use tokio::sync::Notify;

/// How a stream ended.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Exited(ExitReport),
    Failed(Failure),
    /// The connection ended first, for this reason.
    Lost(String),
}

/// What waits, or the end.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// The program runs.
    pub(crate) started: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: Option<End>,
}

#[derive(Debug)]
struct State {
    arrived: Arrived,
    /// Bytes the agent may still send.
    stdout_credit: u64,
    stderr_credit: u64,
    /// Bytes the host may still send.
    stdin_credit: u64,
    /// Nobody reads standard input any more.
    stdin_closed: bool,
    abandoned: bool,
}

/// The inbox of one stream.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    arrival: Notify,
    stdin: Notify,
}

/// The inboxes of a connection by their stream.
pub(crate) type Inboxes = HashMap<u32, Arc<Inbox>>;

impl Inbox {
    pub(crate) fn new() -> Self {
        let window = u64::from(WINDOW);
        let state = State {
            arrived: Arrived::default(),
            stdout_credit: window,
            stderr_credit: window,
            stdin_credit: window,
            stdin_closed: false,
            abandoned: false,
        };
        Self {
            state: Mutex::new(state),
            arrival: Notify::new(),
            stdin: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps output of the agent. Gives the credit to grant at once when nobody reads any more.
    pub(crate) fn output(
        &self,
        channel: Channel,
        bytes: &[u8],
    ) -> Result<Option<u32>, ProtocolError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.arrived.end.is_some() {
            return Err(ProtocolError::Unexpected(
                "output after the end of a stream",
            ));
        }
        let (credit, buffer) = match channel {
            Channel::Stdout => (&mut state.stdout_credit, &mut state.arrived.stdout),
            Channel::Stderr => (&mut state.stderr_credit, &mut state.arrived.stderr),
            Channel::Stdin => return Err(ProtocolError::BadValue("channel")),
        };
        let length = bytes.len() as u64;
        *credit = credit
            .checked_sub(length)
            .ok_or(ProtocolError::CreditExceeded)?;
        if state.abandoned {
            *credit += length;
            return Ok(u32::try_from(length).ok());
        }
        buffer.extend_from_slice(bytes);
        drop(guard);
        self.arrival.notify_one();
        Ok(None)
    }

    /// Notes that the program runs.
    pub(crate) fn started(&self) {
        self.lock().arrived.started = true;
        self.arrival.notify_one();
    }

    /// Ends the stream; the first end stays.
    pub(crate) fn end(&self, end: End) {
        let mut state = self.lock();
        if state.arrived.end.is_none() {
            state.arrived.end = Some(end);
        }
        drop(state);
        self.arrival.notify_one();
        self.stdin.notify_one();
    }

    /// Nobody reads any more: what comes is dropped.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.abandoned = true;
        state.arrived = Arrived {
            end: state.arrived.end.take(),
            ..Arrived::default()
        };
    }

    /// Waits until something is there and takes it.
    pub(crate) async fn take(&self) -> Arrived {
        loop {
            {
                let mut state = self.lock();
                let arrived = &mut state.arrived;
                let output = !arrived.stdout.is_empty() || !arrived.stderr.is_empty();
                if arrived.started || output || arrived.end.is_some() {
                    return Arrived {
                        started: std::mem::take(&mut arrived.started),
                        stdout: std::mem::take(&mut arrived.stdout),
                        stderr: std::mem::take(&mut arrived.stderr),
                        end: arrived.end.clone(),
                    };
                }
            }
            self.arrival.notified().await;
        }
    }

    /// Notes that the agent is granted this many bytes more.
    pub(crate) fn grant(&self, channel: Channel, bytes: u64) {
        let mut state = self.lock();
        match channel {
            Channel::Stdout => state.stdout_credit += bytes,
            Channel::Stderr => state.stderr_credit += bytes,
            Channel::Stdin => {}
        }
    }

    /// The agent grants this many bytes of standard input more; 0 says that nobody reads it any more.
    pub(crate) fn stdin_granted(&self, bytes: u32) -> Result<(), ProtocolError> {
        let mut state = self.lock();
        let credit = state.stdin_credit + u64::from(bytes);
        if credit > u64::from(WINDOW) {
            return Err(ProtocolError::BadValue("credit"));
        }
        state.stdin_credit = credit;
        state.stdin_closed |= bytes == 0;
        drop(state);
        self.stdin.notify_one();
        Ok(())
    }

    /// Waits until standard input may be sent and says how much; `None` when nobody reads it any more.
    pub(crate) async fn stdin_room(&self) -> Option<usize> {
        loop {
            {
                let state = self.lock();
                if state.arrived.end.is_some() || state.stdin_closed {
                    return None;
                }
                if state.stdin_credit > 0 {
                    return Some(usize::try_from(state.stdin_credit).unwrap_or(usize::MAX));
                }
            }
            self.stdin.notified().await;
        }
    }

    /// Notes that this many bytes of standard input were sent.
    pub(crate) fn stdin_sent(&self, bytes: usize) {
        let mut state = self.lock();
        state.stdin_credit = state.stdin_credit.saturating_sub(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_beyond_the_credit_is_an_error() {
        let inbox = Inbox::new();
        let window = vec![0; WINDOW as usize];
        inbox.output(Channel::Stdout, &window).unwrap();
        assert_eq!(
            inbox.output(Channel::Stdout, b"x"),
            Err(ProtocolError::CreditExceeded)
        );
        assert_eq!(inbox.take().await.stdout.len(), window.len());
        inbox.grant(Channel::Stdout, 1);
        inbox.output(Channel::Stdout, b"x").unwrap();
    }

    #[tokio::test]
    async fn an_abandoned_stream_keeps_nothing_and_grants_what_comes() {
        let inbox = Inbox::new();
        inbox.abandon();
        for _ in 0..100 {
            assert_eq!(
                inbox.output(Channel::Stderr, &[0; 60_000]),
                Ok(Some(60_000))
            );
        }
    }

    #[tokio::test]
    async fn standard_input_never_gets_more_credit_than_the_window() {
        let inbox = Inbox::new();
        assert!(inbox.stdin_granted(1).is_err());
        let room = inbox.stdin_room().await.unwrap();
        assert_eq!(room, WINDOW as usize);
    }
}
