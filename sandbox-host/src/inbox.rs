//! What has come in for one execution and waits to be taken. Bounded by the credit that was granted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox_agent::protocol::{Channel, ExitReport, Failure, ProtocolError, WINDOW};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::window::Window;

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
    /// The program was said to run.
    started: bool,
    stdout: Window,
    stderr: Window,
    /// Bytes the host may still send.
    stdin_credit: u64,
    /// Nobody reads standard input any more.
    stdin_closed: bool,
    abandoned: bool,
    clock: Clock,
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
    /// An inbox of a stream that must end after `limit`.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let window = u64::from(WINDOW);
        let state = State {
            arrived: Arrived::default(),
            started: false,
            stdout: Window::new(),
            stderr: Window::new(),
            stdin_credit: window,
            stdin_closed: false,
            abandoned: false,
            clock: Clock::start(limit),
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
        let (window, buffer) = match channel {
            Channel::Stdout => (&mut state.stdout, &mut state.arrived.stdout),
            Channel::Stderr => (&mut state.stderr, &mut state.arrived.stderr),
            Channel::Stdin => return Err(ProtocolError::BadValue("channel")),
        };
        let length = bytes.len() as u64;
        window.receive(length)?;
        if state.abandoned {
            return Ok(window.take(length));
        }
        buffer.extend_from_slice(bytes);
        drop(guard);
        self.arrival.notify_one();
        Ok(None)
    }

    /// Notes that the program runs.
    pub(crate) fn started(&self) -> Result<(), ProtocolError> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.started, true) {
            return Err(ProtocolError::Unexpected("second start of a program"));
        }
        state.arrived.started = !state.abandoned;
        drop(state);
        self.arrival.notify_one();
        Ok(())
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

    /// Nobody reads any more: what comes is dropped. Gives what is to be granted for what was here, so that an agent that
    /// waited for it goes on to the end.
    pub(crate) fn abandon(&self) -> [(Channel, u32); 2] {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.abandoned = true;
        state.clock.come_back();
        state.arrived = Arrived {
            end: state.arrived.end.take(),
            ..Arrived::default()
        };
        for window in [&mut state.stdout, &mut state.stderr] {
            // Whether it waits here, or the receiver had it in hand.
            window.owed = u64::from(WINDOW) - window.credit;
        }
        [
            (Channel::Stdout, state.stdout.grant_all()),
            (Channel::Stderr, state.stderr.grant_all()),
        ]
    }

    /// The agent was told to end the execution.
    pub(crate) fn expect_end(&self) {
        self.lock().clock.expect_end();
    }

    /// Whether the agent has had more time for the end than there was.
    pub(crate) fn is_overdue(&self) -> bool {
        let state = self.lock();
        state.arrived.end.is_none() && state.clock.is_over()
    }

    /// Leaves out time in which this process did not run.
    pub(crate) fn forgive(&self, time: Duration) {
        self.lock().clock.forgive(time);
    }

    /// Waits until something is there and takes it.
    pub(crate) async fn take(&self) -> Arrived {
        loop {
            {
                let mut guard = self.lock();
                let state = &mut *guard;
                state.clock.come_back();
                let arrived = &mut state.arrived;
                let output = !arrived.stdout.is_empty() || !arrived.stderr.is_empty();
                if arrived.started || output || arrived.end.is_some() {
                    state.clock.leave();
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

    /// Notes that this much was taken; gives what is to be granted to the agent, if it is worth a frame.
    pub(crate) fn grant(&self, channel: Channel, bytes: u64) -> Option<u32> {
        let mut state = self.lock();
        match channel {
            Channel::Stdout => state.stdout.take(bytes),
            Channel::Stderr => state.stderr.take(bytes),
            Channel::Stdin => None,
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
    use crate::window::GRANT;

    #[tokio::test]
    async fn output_beyond_the_credit_is_an_error() {
        let inbox = Inbox::new(None);
        let window = vec![0; WINDOW as usize];
        inbox.output(Channel::Stdout, &window).unwrap();
        assert_eq!(
            inbox.output(Channel::Stdout, b"x"),
            Err(ProtocolError::CreditExceeded)
        );
        assert_eq!(inbox.take().await.stdout.len(), window.len());
        // Too little for a frame of its own.
        assert_eq!(inbox.grant(Channel::Stdout, 1), None);
        assert!(inbox.output(Channel::Stdout, b"x").is_err());
        let all = inbox.grant(Channel::Stdout, u64::from(WINDOW) - 1);
        assert_eq!(all, Some(WINDOW));
        inbox.output(Channel::Stdout, b"x").unwrap();
    }

    #[tokio::test]
    async fn an_abandoned_stream_keeps_nothing_and_grants_what_comes() {
        let inbox = Inbox::new(None);
        // One part waits, the other was taken and not granted anew.
        inbox.output(Channel::Stderr, &[0; 1000]).unwrap();
        inbox.take().await;
        inbox.output(Channel::Stderr, &[0; 500]).unwrap();
        let granted = inbox.abandon();
        assert_eq!(granted, [(Channel::Stdout, 0), (Channel::Stderr, 1500)]);
        let mut credit = u64::from(WINDOW);
        for _ in 0..100 {
            let granted = inbox.output(Channel::Stderr, &[0; 60_000]).unwrap();
            credit = credit - 60_000 + granted.map_or(0, u64::from);
            assert!(credit >= u64::from(WINDOW) - 60_000 - GRANT);
        }
        assert!(inbox.take_now().stderr.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_agents_time_does_not_run_while_the_receiver_is_busy() {
        let inbox = Inbox::new(Some(Duration::from_secs(1)));
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        inbox.output(Channel::Stdout, b"x").unwrap();
        inbox.take().await;
        pass(100).await;
        assert!(!inbox.is_overdue());
        inbox.output(Channel::Stdout, b"x").unwrap();
        inbox.take().await;
        inbox.abandon();
        pass(10).await;
        assert!(!inbox.is_overdue());
        pass(2).await;
        assert!(inbox.is_overdue());
        inbox.forgive(Duration::from_secs(5));
        assert!(!inbox.is_overdue());
    }

    #[tokio::test(start_paused = true)]
    async fn a_kill_must_be_answered_in_time() {
        let inbox = Inbox::new(None);
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        pass(10_000).await;
        assert!(!inbox.is_overdue());
        inbox.expect_end();
        pass(6).await;
        // A second order gives no second term.
        inbox.expect_end();
        pass(5).await;
        assert!(inbox.is_overdue());
        inbox.end(End::Lost(String::new()));
        assert!(!inbox.is_overdue());
    }

    impl Inbox {
        fn take_now(&self) -> Arrived {
            std::mem::take(&mut self.lock().arrived)
        }
    }

    #[tokio::test]
    async fn standard_input_never_gets_more_credit_than_the_window() {
        let inbox = Inbox::new(None);
        assert!(inbox.stdin_granted(1).is_err());
        let room = inbox.stdin_room().await.unwrap();
        assert_eq!(room, WINDOW as usize);
    }
}
