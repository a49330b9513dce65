//! A suite that runs, and the moments at which it is ended.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::tier::Tier;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(90);

const PAUSE: Duration = Duration::from_millis(10);

/// Probes with every kind of sandbox: attached ones, which others share, and detached ones.
const FILTERS: [&str; 3] = ["detached::", "timeout::", "output::"];

/// When a suite is ended.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    /// It has made its folders.
    Grounds,
    /// A program of its runs on the host itself, as a control: some are there to stay behind.
    Control,
    /// A sandbox of its own runs.
    Attached,
    /// A detached sandbox is there.
    Detached,
    /// So many milliseconds after one was there for the first time: whatever is being made or removed then.
    AfterDetached(u64),
}

/// A process, told from a later one with its number by its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// In ticks since the machine's start.
    pub start: u64,
}

impl Process {
    /// The process that has this number now, and its parent's number.
    pub fn of(pid: u32) -> Option<(Self, u32)> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // Of a zombie nothing runs.
        if fields[0] == "Z" {
            return None;
        }
        let start = fields[19].parse().ok()?;
        Some((Self { pid, start }, fields[1].parse().ok()?))
    }

    /// Every process that there is, with its parent's number.
    pub fn all() -> Vec<(Self, u32)> {
        let entries = std::fs::read_dir("/proc").expect("processes").flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Self::of).collect()
    }
}

/// A suite on a tier. Dropping it kills it.
pub struct Suite<'a> {
    pub tier: &'a Tier,
    child: Child,
    process: Process,
    _reports: TempDir,
}

impl<'a> Suite<'a> {
    /// Starts one.
    pub fn start(tier: &'a Tier) -> Self {
        Self::start_with(tier, command(tier))
    }

    /// Starts one by `sandbox conformance`, where that command has been built.
    pub fn start_by_command(tier: &'a Tier) -> Option<Self> {
        let named = std::env::var_os("SANDBOX_TEST_BIN").map(PathBuf::from);
        let command = named.unwrap_or_else(|| program().with_file_name("sandbox"));
        if !command.is_file() {
            println!(
                "NOT RUN: sandbox conformance: there is no {}",
                command.display()
            );
            return None;
        }
        let mut call = called(&command);
        call.args(["conformance", "-b", tier.name, "--", "--skip-self-checks"]);
        Some(Self::start_with(tier, call))
    }

    /// Starts a program in the place of one, with a child, that makes nothing.
    pub fn stand_in(tier: &'a Tier) -> Self {
        let mut call = called(Path::new("sh"));
        call.args(["-c", "sleep 600 & wait"]);
        Self::start_with(tier, call)
    }

    fn start_with(tier: &'a Tier, mut command: Command) -> Self {
        let reports = tempfile::tempdir().expect("a folder");
        let filters = FILTERS.iter().flat_map(|filter| ["--filter", filter]);
        let child = command
            .arg("--reports")
            .arg(reports.path())
            .args(filters)
            .stderr(Stdio::piped())
            .spawn()
            .expect("a suite");
        let (process, _) = Process::of(child.id()).expect("it runs");
        Self {
            tier,
            child,
            process,
            _reports: reports,
        }
    }

    /// Runs a short one to its end.
    pub fn next(tier: &Tier) {
        let reports = tempfile::tempdir().expect("a folder");
        let mut next = command(tier);
        next.arg("--reports").arg(reports.path());
        let status = next.args(["--filter", "exec::exit_codes"]).status();
        assert!(status.expect("a suite").success());
    }

    pub fn process(&self) -> Process {
        self.process
    }

    /// Waits for a moment, which has to come before the suite ends.
    pub fn wait_for(&mut self, moment: Moment) {
        let start = Instant::now();
        while !self.has_come(moment) {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{moment:?} never came: {ended:?}");
            assert!(start.elapsed() < PATIENCE, "{moment:?} does not come");
            std::thread::sleep(PAUSE);
        }
        if let Moment::AfterDetached(milliseconds) = moment {
            std::thread::sleep(Duration::from_millis(milliseconds));
        }
    }

    fn has_come(&self, moment: Moment) -> bool {
        match moment {
            Moment::Grounds => !crate::remains::folders(self.process.pid).is_empty(),
            Moment::Control => !crate::remains::programs(self.process.pid).is_empty(),
            Moment::Attached => self.tier.has_attached(self.process),
            Moment::Detached | Moment::AfterDetached(_) => {
                !self.tier.detached(self.process).is_empty()
            }
        }
    }

    pub fn send(&self, signal: &str) {
        send(signal, self.process.pid);
    }

    /// Kills the process beside it that would clean up.
    pub fn kill_reaper(&self) {
        let all = Process::all().into_iter();
        let children = all.filter(|(_, parent)| *parent == self.process.pid);
        let reapers: Vec<_> = children
            .map(|(process, _)| process)
            .filter(crate::remains::is_reaper)
            .collect();
        assert_eq!(reapers.len(), 1, "{reapers:?}");
        send("-KILL", reapers[0].pid);
    }

    /// Waits until it says that it was interrupted.
    pub fn wait_for_word(&mut self) {
        let said = self.child.stderr.as_mut().expect("standard error");
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "interrupted"));
    }

    /// Waits until it has ended.
    pub fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the suite does not end");
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Suite<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn send(signal: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.expect("kill").success(), "{signal} to {pid}");
}

fn command(tier: &Tier) -> Command {
    let mut command = called(&program());
    command.args(["--tier", tier.name, "--skip-self-checks"]);
    command
}

fn program() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_sandbox-conformance").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_sandbox-conformance")),
        PathBuf::from,
    )
}

fn called(program: &Path) -> Command {
    // Signals that whoever runs the tests ignores (nohup does) would be ignored by the suite too.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=HUP,INT,TERM")
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}
