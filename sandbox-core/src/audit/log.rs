//! Writes records as lines of JSON.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::{Audit, AuditRecord, rfc3339};

/// The most records that wait to be written. Further ones are lost.
const MAX_WAITING: usize = 4096;

/// Writes each record as one line of JSON, on a thread of its own.
///
/// A writer that fails or is slow loses records, and nothing waits for it. What is lost is counted
/// ([`AuditLog::loss`]), logged once as an error, and told by a line
/// `{"event":"lost","records":N,…}` as soon as lines can be written again.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use sandbox_core::audit::AuditLog;
///
/// # fn example(client: sandbox_core::SandboxClient) -> Result<(), Box<dyn std::error::Error>> {
/// let file = std::fs::OpenOptions::new().create(true).append(true).open("audit.jsonl")?;
/// let log = Arc::new(AuditLog::new(file)?);
/// let client = client.audited(log.clone());
/// // ... before the program ends:
/// log.finish(Duration::from_secs(2))?;
/// # Ok(()) }
/// ```
pub struct AuditLog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<String>,
    writing: bool,
    closed: bool,
    loss: Option<AuditLoss>,
    /// Lost records that no line has told yet.
    untold: u64,
}

/// Records that were not written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditLoss {
    /// How many.
    pub records: u64,
    /// Why the last one was not.
    pub reason: String,
}

impl fmt::Display for AuditLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, reason } = self;
        write!(f, "{records} audit records are lost: {reason}")
    }
}

impl std::error::Error for AuditLoss {}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog")
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Writes to `writer`, which may block. Each line is given to it at once.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn new(writer: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("sandbox-audit".into());
        thread.spawn(move || of_thread.write_all(writer))?;
        Ok(Self(shared))
    }

    /// What was lost so far.
    #[must_use]
    pub fn loss(&self) -> Option<AuditLoss> {
        self.0.lock().loss.clone()
    }

    /// Waits until all records so far are written, for at most `limit`.
    ///
    /// # Errors
    ///
    /// What was lost since the log was made. Records that were not written in time count as lost.
    pub fn finish(&self, limit: Duration) -> Result<(), AuditLoss> {
        let state = self.0.lock();
        let busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        let waited = self.0.changed.wait_timeout_while(state, limit, busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let left = state.waiting.len() as u64 + u64::from(state.writing);
        if left > 0 {
            state.waiting.clear();
            state.lose(left, "the writer did not take them in time");
        }
        state.loss.clone().map_or(Ok(()), Err)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

impl Audit for AuditLog {
    fn record(&self, record: AuditRecord) {
        let line = to_line(&record);
        let mut state = self.0.lock();
        match line {
            Err(error) => state.lose(1, &error),
            Ok(_) if state.waiting.len() >= MAX_WAITING => {
                state.lose(1, "the writer is too slow");
            }
            Ok(line) => state.waiting.push_back(line),
        }
        self.0.changed.notify_all();
    }
}

impl State {
    fn lose(&mut self, records: u64, reason: &str) {
        if self.loss.is_none() {
            tracing::error!(reason, "audit records are lost");
        }
        let before = self.loss.take().map_or(0, |loss| loss.records);
        self.untold = self.untold.saturating_add(records);
        self.loss = Some(AuditLoss {
            records: before.saturating_add(records),
            reason: reason.to_owned(),
        });
    }
}

/// The line that tells of lost records.
#[derive(Serialize)]
struct Lost {
    #[serde(serialize_with = "rfc3339")]
    time: SystemTime,
    event: &'static str,
    records: u64,
}

fn to_line(record: &impl Serialize) -> Result<String, String> {
    let line = serde_json::to_string(record).map_err(|error| error.to_string())?;
    Ok(line + "\n")
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, mut writer: impl Write) {
        // After a failure, a part of a line may have been written.
        let mut broken = false;
        while let Some((line, untold)) = self.next() {
            let lost = Lost {
                time: SystemTime::now(),
                event: "lost",
                records: untold,
            };
            let text = match to_line(&lost) {
                Ok(lost) if untold > 0 => lost + &line,
                _ => line,
            };
            let text = if broken { format!("\n{text}") } else { text };
            let written = writer
                .write_all(text.as_bytes())
                .and_then(|()| writer.flush());
            broken = written.is_err();
            let mut state = self.lock();
            state.writing = false;
            match written {
                Ok(()) => state.untold -= untold,
                Err(error) => state.lose(1, &error.to_string()),
            }
            self.changed.notify_all();
        }
    }

    /// The next line, and how many lost records it must tell of. `None` once the log is dropped.
    fn next(&self) -> Option<(String, u64)> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let waited = self.changed.wait_while(self.lock(), idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let line = state.waiting.pop_front()?;
        state.writing = true;
        Some((line, state.untold))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc;

    use super::*;
    use crate::audit::AuditEvent;

    fn record(name: &str) -> AuditRecord {
        AuditRecord {
            time: SystemTime::UNIX_EPOCH,
            tier: "fake".into(),
            sandbox: name.into(),
            labels: BTreeMap::from([("team".into(), "a".into())]),
            event: AuditEvent::Removed,
        }
    }

    /// Passes each text on, after the result that is sent for it.
    struct Scripted {
        results: mpsc::Receiver<io::Result<()>>,
        texts: mpsc::Sender<String>,
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let next = self.results.recv();
            next.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
            let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
            self.texts.send(text).expect("the test reads it");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn scripted() -> (
        AuditLog,
        mpsc::Sender<io::Result<()>>,
        mpsc::Receiver<String>,
    ) {
        let (give, results) = mpsc::channel();
        let (texts, read) = mpsc::channel();
        let log = AuditLog::new(Scripted { results, texts }).expect("a thread");
        (log, give, read)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn record_is_one_line_of_json_with_its_labels() {
        let (log, give, read) = scripted();
        give.send(Ok(())).unwrap();
        log.record(record("one"));
        log.finish(LONG).expect("written");
        let line = read.recv().unwrap();
        assert_eq!(
            line,
            "{\"time\":\"1970-01-01T00:00:00.000000Z\",\"tier\":\"fake\",\"sandbox\":\"one\",\
             \"labels\":{\"team\":\"a\"},\"event\":\"removed\"}\n"
        );
    }

    #[test]
    fn full_disk_is_told_when_there_is_room_again() {
        let (log, give, read) = scripted();
        for _ in 0..2 {
            give.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        }
        log.record(record("one"));
        log.record(record("two"));
        let loss = log.finish(LONG).expect_err("lost");
        assert_eq!(loss.records, 2);
        give.send(Ok(())).unwrap();
        log.record(record("three"));
        assert_eq!(log.finish(LONG), Err(loss));
        let text = read.recv().unwrap();
        let lines = text.lines().collect::<Vec<_>>();
        // The first line ends what may have been half a record.
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "");
        assert!(lines[1].contains(r#""event":"lost","records":2"#), "{text}");
        assert!(lines[2].contains("three"), "{text}");
    }

    #[test]
    fn writer_that_blocks_holds_nothing_up() {
        let (log, give, _read) = scripted();
        for number in 0..MAX_WAITING + 10 {
            log.record(record(&number.to_string()));
        }
        // The thread may hold one.
        let lost = log.loss().expect("more than fit").records;
        assert!((9..=10).contains(&lost), "{lost}");
        let loss = log.finish(Duration::from_millis(1)).expect_err("lost");
        assert_eq!(loss.records, MAX_WAITING as u64 + 10);
        drop(give);
    }
}
