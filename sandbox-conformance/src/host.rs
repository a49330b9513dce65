//! Runs the probe program on the host itself, without any sandbox, and looks for its processes.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sandbox_core::Outcome;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::probe::Trouble;
use crate::program::{Call, Run};

/// The longest that a host control may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs the program on the host with this process's environment and descriptors.
///
/// # Errors
///
/// When it cannot be started, or does not end in time (it is killed then).
pub async fn run(program: &Path, call: &Call) -> Result<Run, Trouble> {
    let start = Instant::now();
    let mut child = spawn(program, call)?;
    let input = call.stdin.clone().unwrap_or_default();
    let mut stdin = child
        .stdin
        .take()
        .ok_or_else(|| Trouble::new("the host control has no standard input"))?;
    // The program may end without reading all of it: a broken pipe is no trouble of ours.
    let feed = tokio::spawn(async move { stdin.write_all(&input).await });
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    feed.abort();
    let output = output.map_err(|_| {
        Trouble::new(format!(
            "host control {:?}: no end after {LIMIT:?}",
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
/// When it cannot be started.
pub fn spawn(program: &Path, call: &Call) -> Result<Child, Trouble> {
    let arguments = call
        .arguments_for(program.as_os_str().as_bytes())
        .map(std::ffi::OsStr::from_bytes);
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Trouble::new(format!("start {}: {error}", program.display())))
}

/// How a process of the host ended.
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

/// The processes of this host whose command line holds `token`.
///
/// # Errors
///
/// When /proc cannot be read.
pub fn processes_with(token: &str) -> Result<Vec<i32>, Trouble> {
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
        // A process that ended since is not there any more, and not what is looked for.
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if contains(&line, token.as_bytes()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Waits until no process of this host holds `token` in its command line, at most `limit`; returns what is left.
///
/// # Errors
///
/// When /proc cannot be read.
pub async fn wait_gone(token: &str, limit: Duration) -> Result<Vec<i32>, Trouble> {
    let end = Instant::now() + limit;
    loop {
        let left = processes_with(token)?;
        if left.is_empty() || Instant::now() >= end {
            return Ok(left);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Kills what an attack left on the host. `token` is the suite's own, so that nothing else is hit.
///
/// # Errors
///
/// When /proc cannot be read.
pub fn kill_all_with(token: &str) -> Result<(), Trouble> {
    for pid in processes_with(token)? {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
                // Ended by itself meanwhile.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => {
                    return Err(Trouble::new(format!("kill what an attack left: {error}")));
                }
            }
        }
    }
    Ok(())
}

/// Whether `bytes` holds `part`.
#[must_use]
pub fn contains(bytes: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && bytes.windows(part.len()).any(|window| window == part)
}
