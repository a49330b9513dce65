//! Starts a daemon that outlives this program, and stops it again.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::process::Identity;
use super::record::{Record, RecordFile};
use crate::failure::{Context, Failure, Result};

/// Most time between the start of a daemon and its first answer.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// Most time between asking a daemon to end and its end. Docker gives its containers 10 s.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// How much of a log's end an error quotes.
const TAIL_LINES: usize = 15;
const TAIL_BYTES: u64 = 8 << 10;

/// Replaces itself with the daemon after closing what a caller may have left open: a daemon that
/// holds the pipe of a CI job or of cargo's job server keeps that from ever seeing its end.
const CLOSE_AND_EXECUTE: &str = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec \"$0\" \"$@\"";

/// A daemon that can be started.
#[derive(Debug)]
pub struct Daemon<'a> {
    /// The engine's name, for messages.
    pub engine: &'a str,
    /// The program, with its full path.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [&'a str],
    /// The socket it will serve.
    pub socket: &'a Path,
    /// Where its output goes; an earlier log is overwritten.
    pub log: PathBuf,
    /// Where its process is remembered.
    pub record: &'a RecordFile,
    /// As whom it runs; `None` is whoever calls this.
    pub owner: Option<&'a Owner>,
}

/// The user of a daemon that is not to run as the one who starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub user: u32,
    /// The number of the user's group.
    pub group: u32,
    /// All that the daemon finds in its environment.
    pub environment: Vec<(String, String)>,
}

impl Owner {
    /// Lets `command` run as this user.
    pub fn apply(&self, command: &mut Command) {
        // As root, the standard library drops the supplementary groups with the user.
        command
            .uid(self.user)
            .gid(self.group)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
    }
}

impl Daemon<'_> {
    /// Starts the daemon in a session of its own and waits until `answers` returns true. A daemon
    /// that ends or stays silent for 60 s is stopped and forgotten.
    ///
    /// # Errors
    /// When it cannot be started or does not answer: the failure quotes the end of its log.
    pub fn start(&self, answers: impl Fn() -> bool) -> Result<()> {
        let mut child = self.spawn()?;
        let begin = Instant::now();
        let mut next_progress = PROGRESS_INTERVAL;
        let reason = loop {
            if answers() {
                return Ok(());
            }
            let ended = child
                .try_wait()
                .context(|| format!("cannot wait for {}", self.engine))?;
            if let Some(status) = ended {
                break format!("ended with {status}");
            }
            let waited = begin.elapsed();
            if waited > READY_PATIENCE {
                break format!("did not answer within {} s", READY_PATIENCE.as_secs());
            }
            if waited > next_progress {
                eprintln!(
                    "{}: waiting for {} ({} s)",
                    self.engine,
                    self.name(),
                    waited.as_secs()
                );
                next_progress += PROGRESS_INTERVAL;
            }
            thread::sleep(POLL_INTERVAL);
        };
        stop(self.record)?;
        let tail = tail(&self.log);
        let log = self.log.display();
        Err(Failure::new(format!(
            "{} {reason}; the end of its log {log}:\n{tail}",
            self.name()
        )))
    }

    fn spawn(&self) -> Result<Child> {
        if let Some(folder) = self.log.parent() {
            fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
        }
        let doing = || format!("cannot open the log {}", self.log.display());
        let output = File::create(&self.log).context(doing)?;
        let errors = output.try_clone().context(doing)?;
        // A session of its own: CI systems kill the process group of a finished step.
        let mut command = Command::new("setsid");
        command
            .args(["sh", "-c", CLOSE_AND_EXECUTE])
            .arg(self.program)
            .args(self.arguments)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        if let Some(owner) = self.owner {
            owner.apply(&mut command);
        }
        let mut child = command
            .spawn()
            .context(|| format!("cannot start {} through setsid", self.name()))?;
        eprintln!(
            "{}: started {}, log {}",
            self.engine,
            self.name(),
            self.log.display()
        );
        let recorded = self.remember(&child);
        if recorded.is_err() {
            // What cannot be remembered could never be stopped again; the first failure counts.
            let _ = child.kill();
            let _ = child.wait();
        }
        recorded.map(|()| child)
    }

    fn remember(&self, child: &Child) -> Result<()> {
        let pid = i32::try_from(child.id()).context(|| "process number out of range".to_owned())?;
        let process = Identity::of(pid, &self.name())
            .context(|| format!("cannot describe process {pid} in the record"))?;
        self.record.write(&Record {
            process,
            socket: self.socket.to_path_buf(),
        })
    }

    fn name(&self) -> String {
        self.program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}

/// What [`stop`] found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing is recorded.
    NotOurs,
    /// The recorded process no longer exists; its number may belong to another by now.
    AlreadyGone,
    /// The daemon with this process number ended.
    Ended(i32),
}

/// Stops the recorded daemon and forgets it.
///
/// # Errors
/// When the record is unreadable, or when the daemon had to be killed because it did not end
/// within 30 s: what it left behind then needs a look.
pub fn stop(record: &RecordFile) -> Result<Stopped> {
    let Some(Record { process, .. }) = record.read()? else {
        return Ok(Stopped::NotOurs);
    };
    let doing = || format!("cannot stop {} (process {})", process.program, process.pid);
    let Some(handle) = process.open().context(doing)? else {
        record.remove()?;
        return Ok(Stopped::AlreadyGone);
    };
    handle.terminate().context(doing)?;
    if handle.wait(STOP_PATIENCE).context(doing)? {
        record.remove()?;
        return Ok(Stopped::Ended(process.pid));
    }
    handle.kill().context(doing)?;
    record.remove()?;
    Err(Failure::new(format!(
        "{} (process {}) did not end within {} s and was killed; its helpers and containers may \
         still run",
        process.program,
        process.pid,
        STOP_PATIENCE.as_secs()
    )))
}

/// The last lines of the file at `path`, or a note on why there are none.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) if bytes.is_empty() => "  (empty)".to_owned(),
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<_> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            last.iter()
                .map(|line| format!("  {line}"))
                .collect::<Vec<_>>()
                .join("\n")
        }
        Err(error) => format!("  (unreadable: {error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Fixture {
        folder: tempfile::TempDir,
        program: PathBuf,
        record: RecordFile,
    }

    impl Fixture {
        fn new(script: &str) -> Self {
            let folder = tempfile::tempdir().expect("temporary folder");
            let program = folder.path().join("fake-daemon");
            fs::write(&program, script).expect("script");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("mode");
            let record = RecordFile::new(folder.path(), "fake");
            Self {
                folder,
                program,
                record,
            }
        }

        fn start(&self, arguments: &[&str], answers: impl Fn() -> bool) -> Result<()> {
            let daemon = Daemon {
                engine: "fake",
                program: &self.program,
                arguments,
                socket: Path::new("/nonexistent"),
                log: self.folder.path().join("log"),
                record: &self.record,
                owner: None,
            };
            daemon.start(answers)
        }
    }

    #[test]
    fn a_daemon_that_ends_is_reported_with_its_log_and_forgotten() {
        let fixture = Fixture::new("#!/bin/sh\necho the reason >&2\nexit 3\n");
        let failure = fixture.start(&[], || false).expect_err("it ends");
        let text = failure.to_string();
        assert!(
            text.contains("exit status: 3") && text.contains("  the reason"),
            "{text}"
        );
        assert_eq!(fixture.record.read(), Ok(None));
    }

    #[test]
    fn a_daemon_leads_a_session_of_its_own_until_stopped() {
        let fixture = Fixture::new("");
        // A copy of a real program: a script's command line would begin with its interpreter.
        let sleep = crate::programs::find("sleep").expect("sleep");
        fs::copy(sleep, &fixture.program).expect("copy");
        let process = || {
            fixture
                .record
                .read()
                .expect("record")
                .expect("a record")
                .process
        };
        let runs = || super::super::process::runs(process().pid, "fake-daemon");
        assert_eq!(fixture.start(&["30"], runs), Ok(()));
        let pid = process().pid;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
        let fields: Vec<_> = stat.rsplit_once(')').expect("name").1.split(' ').collect();
        // After the name: a space, then state, parent, process group, session.
        assert_eq!(
            (fields[3], fields[4]),
            (&*pid.to_string(), &*pid.to_string())
        );
        assert_eq!(stop(&fixture.record), Ok(Stopped::Ended(pid)));
        assert_eq!(stop(&fixture.record), Ok(Stopped::NotOurs));
    }

    #[test]
    fn a_stale_record_is_forgotten_without_a_signal() {
        let fixture = Fixture::new("");
        let own = i32::try_from(std::process::id()).expect("pid");
        let mut process = Identity::of(own, "fake-daemon").expect("identity");
        process.start_ticks += 1;
        let socket = PathBuf::from("/nonexistent");
        fixture
            .record
            .write(&Record { process, socket })
            .expect("record");
        assert_eq!(stop(&fixture.record), Ok(Stopped::AlreadyGone));
        assert_eq!(fixture.record.read(), Ok(None));
    }

    #[test]
    fn a_tail_is_short_and_says_when_there_is_none() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("log");
        assert!(tail(&path).contains("unreadable"));
        fs::write(&path, "").expect("write");
        assert_eq!(tail(&path), "  (empty)");
        let lines: Vec<_> = (0..5000).map(|number| number.to_string()).collect();
        fs::write(&path, lines.join("\n")).expect("write");
        let text = tail(&path);
        assert_eq!(text.lines().count(), TAIL_LINES);
        assert!(text.ends_with("  4999"), "{text}");
    }
}
