//! Runs the probe program on the host, without a sandbox, and finds its processes.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sandbox_core::Outcome;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::probe::ProbeError;
use crate::program::{Call, Run};

/// The time limit of a host control. An emulated machine needs more than 20 s for some.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the program on the host with this process's environment and descriptors.
///
/// # Errors
///
/// If it cannot be started, or does not end in time. It is killed then.
pub async fn run(program: &Path, call: &Call) -> Result<Run, ProbeError> {
    let start = Instant::now();
    let mut child = spawn(program, call).await?;
    let input = call.stdin.clone().unwrap_or_default();
    let mut stdin = child
        .stdin
        .take()
        .ok_or_else(|| ProbeError::new("the host control has no standard input"))?;
    // A program that ends without reading all input breaks the pipe, which is not an error here.
    let feed = tokio::spawn(async move { stdin.write_all(&input).await });
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    feed.abort();
    let output = output.map_err(|_| {
        ProbeError::new(format!(
            "host control {:?} did not end within {LIMIT:?}",
            call.text()
        ))
    })??;
    Ok(Run {
        outcome: outcome(output.status),
        stdout_total: output.stdout.len() as u64,
        stderr_total: output.stderr.len() as u64,
        stdout: output.stdout,
        stderr: output.stderr,
        duration: start.elapsed(),
    })
}

/// Starts the program on the host; dropping the child kills it.
///
/// # Errors
///
/// If it cannot be started.
pub async fn spawn(program: &Path, call: &Call) -> Result<Child, ProbeError> {
    let arguments = call
        .arguments_for(program.as_os_str().as_bytes())
        .map(std::ffi::OsStr::from_bytes);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = start(&mut command).await;
    child.map_err(|error| ProbeError::new(format!("cannot start {}: {error}", program.display())))
}

/// Starts a command whose program may be new. Until a child that another thread forked executes its
/// own program, it holds the new file open for writing, and `execve` fails with `ETXTBSY`
/// (rust-lang/rust#114554).
pub(crate) async fn start(command: &mut Command) -> std::io::Result<Child> {
    for _ in 0..100 {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            started => return started,
        }
    }
    command.spawn()
}

/// The outcome of a host process.
#[must_use]
pub fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited { code },
        (None, Some(signal)) => Outcome::Signaled { signal },
        (None, None) => Outcome::Unknown {
            reason: status.to_string(),
        },
    }
}

/// The processes of this host whose command line contains `token`.
///
/// # Errors
///
/// If /proc cannot be read.
pub fn processes_with(token: &str) -> Result<Vec<i32>, ProbeError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        // The process may have ended since /proc was listed.
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // The standard library's search is fast in development builds, too.
        if !token.is_empty() && String::from_utf8_lossy(&line).contains(token) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Waits at most 10 s for a process of this host with `token` in its command line.
///
/// # Errors
///
/// If /proc cannot be read.
pub async fn wait_for_process(token: &str) -> Result<Option<i32>, ProbeError> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let found = processes_with(token)?.into_iter().next();
        if found.is_some() || Instant::now() >= end {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits at most `limit` until no process of this host has `token` in its command line. Returns the
/// remaining processes.
///
/// # Errors
///
/// If /proc cannot be read.
pub async fn wait_until_gone(token: &str, limit: Duration) -> Result<Vec<i32>, ProbeError> {
    let end = Instant::now() + limit;
    loop {
        let left = processes_with(token)?;
        if left.is_empty() || Instant::now() >= end {
            return Ok(left);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Kills every process on the host with `token` in its command line. The token is the suite's own,
/// so no other process matches.
///
/// # Errors
///
/// If /proc cannot be read, or if a process cannot be killed.
pub fn kill_all_with(token: &str) -> Result<(), ProbeError> {
    for pid in processes_with(token)? {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
                // It ended in the meantime.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => {
                    return Err(ProbeError::new(format!(
                        "cannot kill a process that an attack left: {error}"
                    )));
                }
            }
        }
    }
    Ok(())
}
