//! A running suite, and the points at which the tests interrupt it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::tier::Tier;

/// The time limit of waiting.
const CLEANUP_LIMIT: Duration = Duration::from_secs(90);

const PAUSE: Duration = Duration::from_millis(10);

/// Probes with every kind of sandbox: shared, unshared and detached.
const FILTERS: [&str; 3] = ["detached::", "timeout::", "output::"];

/// A point at which a suite is interrupted.
#[derive(Debug, Clone, Copy)]
pub enum InterruptPoint {
    /// After it created its host fixture.
    HostFixture,
    /// While a host control runs.
    Control,
    /// While an attached sandbox runs.
    Attached,
    /// While a detached sandbox exists.
    Detached,
    /// This many milliseconds after the first detached sandbox, whatever the suite does then.
    AfterDetached(u64),
}

/// A process, identified by its id and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuiteProcess {
    pub pid: u32,
    /// In ticks since boot.
    pub start: u64,
}

impl SuiteProcess {
    /// The process with this id now, and its parent's id.
    pub fn of(pid: u32) -> Option<(Self, u32)> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // A zombie does not run.
        if fields[0] == "Z" {
            return None;
        }
        let start = fields[19].parse().ok()?;
        Some((Self { pid, start }, fields[1].parse().ok()?))
    }

    /// All processes with their parents' ids.
    pub fn all() -> Vec<(Self, u32)> {
        let entries = std::fs::read_dir("/proc").expect("processes").flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Self::of).collect()
    }
}

/// The command line program `sandbox`.
fn sandbox_command() -> PathBuf {
    let named = std::env::var_os("SANDBOX_TEST_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| program().with_file_name("sandbox"))
}

/// Why the suite cannot be started through `sandbox conformance`.
pub fn missing_command() -> Option<String> {
    let command = sandbox_command();
    let reason = format!("{} was not built", command.display());
    (!command.is_file()).then_some(reason)
}

/// A suite on a tier. Dropping it kills it.
pub struct Suite<'a> {
    pub tier: &'a Tier,
    child: Child,
    process: SuiteProcess,
    _reports: TempDir,
}

impl<'a> Suite<'a> {
    /// Starts a suite.
    pub fn start(tier: &'a Tier) -> Self {
        Self::start_with(tier, command(tier))
    }

    /// Starts a suite through `sandbox conformance`.
    pub fn start_by_command(tier: &'a Tier) -> Self {
        let mut call = called(&sandbox_command());
        call.args(["conformance", "-b", tier.name, "--", "--skip-self-checks"]);
        Self::start_with(tier, call)
    }

    /// Starts a program with a child in place of a suite. It creates nothing.
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
        let (process, _) = SuiteProcess::of(child.id()).expect("it runs");
        Self {
            tier,
            child,
            process,
            _reports: reports,
        }
    }

    /// Runs a short suite to its end.
    pub fn next(tier: &Tier) {
        let reports = tempfile::tempdir().expect("a folder");
        let mut next = command(tier);
        next.arg("--reports").arg(reports.path());
        let status = next.args(["--filter", "exec::exit_codes"]).status();
        assert!(status.expect("a suite").success());
    }

    pub fn process(&self) -> SuiteProcess {
        self.process
    }

    /// Waits for a point, which must come before the suite ends.
    pub fn wait_for(&mut self, point: InterruptPoint) {
        let start = Instant::now();
        while !self.has_come(point) {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{point:?} never came: {ended:?}");
            assert!(start.elapsed() < CLEANUP_LIMIT, "{point:?} does not come");
            std::thread::sleep(PAUSE);
        }
        if let InterruptPoint::AfterDetached(milliseconds) = point {
            std::thread::sleep(Duration::from_millis(milliseconds));
        }
    }

    fn has_come(&self, point: InterruptPoint) -> bool {
        match point {
            InterruptPoint::HostFixture => !crate::leftovers::folders(self.process.pid).is_empty(),
            InterruptPoint::Control => !crate::leftovers::programs(self.process.pid).is_empty(),
            InterruptPoint::Attached => self.tier.has_attached(self.process),
            InterruptPoint::Detached | InterruptPoint::AfterDetached(_) => {
                !self.tier.detached(self.process).is_empty()
            }
        }
    }

    pub fn send(&self, signal: &str) {
        send(signal, self.process.pid);
    }

    /// Kills the suite's reaper.
    pub fn kill_reaper(&self) {
        let all = SuiteProcess::all().into_iter();
        let children = all.filter(|(_, parent)| *parent == self.process.pid);
        let reapers: Vec<_> = children
            .map(|(process, _)| process)
            .filter(crate::leftovers::is_reaper)
            .collect();
        assert_eq!(reapers.len(), 1, "{reapers:?}");
        send("-KILL", reapers[0].pid);
    }

    /// Waits until the suite reports that it was interrupted.
    pub fn wait_for_word(&mut self) {
        let stderr = self.child.stderr.as_mut().expect("standard error");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "interrupted"));
    }

    /// Waits until the suite has ended.
    pub fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(start.elapsed() < CLEANUP_LIMIT, "the suite does not end");
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
    // The suite inherits ignored signals (nohup ignores them), so they are reset.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=HUP,INT,TERM")
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}
