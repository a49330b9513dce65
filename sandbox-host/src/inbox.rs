//! Received data of one execution that was not taken yet. The granted credit bounds it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sandbox_agent::protocol::{Channel, ExitReport, Failure, ProtocolError, WINDOW};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::lock;
use crate::window::Window;

/// How a stream ended.
#[derive(Debug, Clone)]
pub(crate) enum StreamEnd {
    Exited(ExitReport),
    Failed(Failure),
    /// The connection ended first, for this reason.
    Lost(String),
}

/// Received data, or the end.
#[derive(Debug, Default)]
pub(crate) struct InboxContent {
    /// Whether the program has started.
    pub(crate) started: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: Option<StreamEnd>,
}

#[derive(Debug)]
struct InboxState {
    arrived: InboxContent,
    /// Whether the agent reported the program's start.
    started: bool,
    stdout: Window,
    stderr: Window,
    /// Bytes that the host may still send.
    stdin_credit: u64,
    /// Whether the program's standard input is closed.
    stdin_closed: bool,
    abandoned: bool,
    clock: Clock,
}

/// The inbox of one stream.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    arrival: Notify,
    stdin: Notify,
}

/// The inboxes of a connection, by stream.
pub(crate) type Inboxes = HashMap<u32, Arc<Inbox>>;

impl Inbox {
    /// An inbox for a stream that must end within `limit`.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let window = u64::from(WINDOW);
        let state = InboxState {
            arrived: InboxContent::default(),
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

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        lock(&self.state)
    }

    /// Stores the agent's output. Returns credit to grant at once if the inbox was abandoned.
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

    /// Records the program's start.
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

    /// Checks that all output that the agent read has arrived.
    pub(crate) fn check_totals(&self, report: &ExitReport) -> Result<(), ProtocolError> {
        let state = self.lock();
        let received = (state.stdout.received, state.stderr.received);
        if received == (report.stdout_total, report.stderr_total) {
            Ok(())
        } else {
            Err(ProtocolError::BadValue("total of an execution's output"))
        }
    }

    /// Ends the stream. Only the first end counts.
    pub(crate) fn end(&self, end: StreamEnd) {
        let mut state = self.lock();
        if state.arrived.end.is_none() {
            state.arrived.end = Some(end);
        }
        drop(state);
        self.arrival.notify_one();
        self.stdin.notify_one();
    }

    /// Discards all output from now on. Returns the credit for discarded output, so that a waiting
    /// agent can continue.
    pub(crate) fn abandon(&self) -> [(Channel, u32); 2] {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.abandoned = true;
        state.clock.end_processing();
        state.arrived = InboxContent {
            end: state.arrived.end.take(),
            ..InboxContent::default()
        };
        for window in [&mut state.stdout, &mut state.stderr] {
            // Includes output that the receiver has taken but not acknowledged.
            window.owed = u64::from(WINDOW) - window.credit;
        }
        [
            (Channel::Stdout, state.stdout.grant_all()),
            (Channel::Stderr, state.stderr.grant_all()),
        ]
    }

    /// Limits the agent's time after a request to end the execution.
    pub(crate) fn expect_end(&self) {
        self.lock().clock.expect_end();
    }

    /// Whether the agent has used up its time to end the execution.
    pub(crate) fn is_overdue(&self) -> bool {
        let state = self.lock();
        state.arrived.end.is_none() && state.clock.is_over()
    }

    /// Excludes time in which this process was paused.
    pub(crate) fn exclude(&self, time: Duration) {
        self.lock().clock.exclude(time);
    }

    /// Waits for received data and takes it.
    pub(crate) async fn take(&self) -> InboxContent {
        loop {
            {
                let mut guard = self.lock();
                let state = &mut *guard;
                state.clock.end_processing();
                let arrived = &mut state.arrived;
                let output = !arrived.stdout.is_empty() || !arrived.stderr.is_empty();
                if arrived.started || output || arrived.end.is_some() {
                    state.clock.begin_processing();
                    return InboxContent {
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

    /// Records consumed output; returns the credit to grant, if it is worth a frame.
    pub(crate) fn grant(&self, channel: Channel, bytes: u64) -> Option<u32> {
        let mut state = self.lock();
        match channel {
            Channel::Stdout => state.stdout.take(bytes),
            Channel::Stderr => state.stderr.take(bytes),
            Channel::Stdin => None,
        }
    }

    /// The agent grants credit for standard input; 0 means that standard input is closed.
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

    /// Waits for credit for standard input and returns it; `None` if standard input is closed.
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

    /// Uses up credit for standard input.
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
        // Too little for a separate frame.
        assert_eq!(inbox.grant(Channel::Stdout, 1), None);
        assert!(inbox.output(Channel::Stdout, b"x").is_err());
        let all = inbox.grant(Channel::Stdout, u64::from(WINDOW) - 1);
        assert_eq!(all, Some(WINDOW));
        inbox.output(Channel::Stdout, b"x").unwrap();
    }

    #[tokio::test]
    async fn abandoned_stream_discards_and_grants() {
        let inbox = Inbox::new(None);
        // One part is in the inbox, the other was taken but not granted again.
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
    async fn agent_time_excludes_a_busy_receiver() {
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
        inbox.exclude(Duration::from_secs(5));
        assert!(!inbox.is_overdue());
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_kill_is_overdue() {
        let inbox = Inbox::new(None);
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        pass(10_000).await;
        assert!(!inbox.is_overdue());
        inbox.expect_end();
        pass(6).await;
        // A second request does not extend the time.
        inbox.expect_end();
        pass(5).await;
        assert!(inbox.is_overdue());
        inbox.end(StreamEnd::Lost(String::new()));
        assert!(!inbox.is_overdue());
    }

    impl Inbox {
        fn take_now(&self) -> InboxContent {
            std::mem::take(&mut self.lock().arrived)
        }
    }

    #[tokio::test]
    async fn stdin_credit_is_limited_to_the_window() {
        let inbox = Inbox::new(None);
        assert!(inbox.stdin_granted(1).is_err());
        let room = inbox.stdin_room().await.unwrap();
        assert_eq!(room, WINDOW as usize);
    }
}
