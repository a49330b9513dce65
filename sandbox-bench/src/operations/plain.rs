//! Rivals without an engine: plain programs, `bwrap`, and our own command as a program.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Stopwatch, failed, nanoseconds};
use crate::case::{ECHOES, OUTPUT_BYTES, PROGRAM};
use crate::failure::{Context, Failure, Result};
use crate::protocol::Sample;

const TRUE: &str = "/bin/true";
/// The system's own; a version manager's stand-in in `PATH` takes longer than Python itself.
const PYTHON: &str = "/usr/bin/python3";
/// What the local tier shows of the host by default, as far as programs and libraries go.
const ROOTS: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
];

/// `/bin/true`, alone.
pub fn spawn() -> Result<Sample> {
    timed(&mut Command::new(TRUE))
}

/// `/bin/true` in all namespaces that `bwrap` knows.
pub fn bwrap() -> Result<Sample> {
    let mut command = bwrap_command();
    timed(&mut command).map_err(|failure| {
        let fix = "apt-get install bubblewrap; where it is there, user namespaces may be denied";
        Failure::Missing(format!("{failure}; fix: {fix}"))
    })
}

/// `sandbox run -- /bin/true`.
pub fn command(program: Option<&Path>) -> Result<Sample> {
    let program = program.ok_or_else(no_command)?;
    timed(Command::new(program).args(["run", "--", TRUE]))
}

/// `sandbox run` on an engine's tier.
pub fn command_on(program: Option<&Path>, tier: &str, image: &str) -> Result<Sample> {
    let program = program.ok_or_else(no_command)?;
    let words = ["run", "--backend", tier, "--image", image, "--", "true"];
    timed(Command::new(program).args(words))
}

fn no_command() -> Failure {
    Failure::Missing("no command named; fix: --sandbox FILE, or cargo xtask bench".to_owned())
}

/// Python's `print(1)`.
pub fn python() -> Result<Sample> {
    if !Path::new(PYTHON).exists() {
        return Err(Failure::Missing(format!(
            "there is no {PYTHON}; fix: apt-get install python3"
        )));
    }
    timed(Command::new(PYTHON).args(["-c", PROGRAM]))
}

/// Reads what a program writes.
pub fn output() -> Result<Sample> {
    let watch = Stopwatch::start();
    let output = Command::new("head")
        .args(["-c", &OUTPUT_BYTES.to_string(), "/dev/zero"])
        .stdin(Stdio::null())
        .output()
        .context("run head")?;
    let sample = watch.stop();
    if output.stdout.len() as u64 != OUTPUT_BYTES {
        return Err(failed(format!("head wrote {} bytes", output.stdout.len())));
    }
    Ok(sample)
}

/// Copies a file between folders in memory, as sandboxes have them.
pub fn copy() -> Result<Sample> {
    let folder = tempfile::tempdir_in("/dev/shm").context("make a folder in /dev/shm")?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let mut file = fs::File::create(&from).context("make a file")?;
    let chunk = vec![7_u8; 1 << 20];
    for _ in 0..OUTPUT_BYTES >> 20 {
        file.write_all(&chunk).context("fill a file")?;
    }
    let watch = Stopwatch::start();
    fs::copy(&from, &to).context("copy a file")?;
    Ok(watch.stop())
}

/// A byte to `cat` and back.
pub fn echo() -> Result<Sample> {
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("start cat")?;
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed("cat has no pipes"));
    };
    let mut exchange = || {
        let mut byte = [b'x'];
        stdin
            .write_all(&byte)
            .and_then(|()| stdout.read_exact(&mut byte))
            .context("talk to cat")
    };
    exchange()?;
    let watch = Stopwatch::start();
    for _ in 0..ECHOES {
        exchange()?;
    }
    let total = nanoseconds(watch.begin.elapsed());
    drop(stdin);
    child.wait().context("wait for cat")?;
    Ok(Sample {
        nanoseconds: total / u64::from(ECHOES),
        ..Sample::default()
    })
}

/// Without input and output, and as the standard library does it by itself: posix_spawn.
pub fn timed(command: &mut Command) -> Result<Sample> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let program = command.get_program().to_string_lossy().into_owned();
    let watch = Stopwatch::start();
    let status = command.status().context(&format!("start {program}"))?;
    let sample = watch.stop();
    if status.success() {
        Ok(sample)
    } else {
        Err(failed(format!("{program} ended with {status}")))
    }
}

fn bwrap_command() -> Command {
    let mut command = Command::new("bwrap");
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]);
    command.args([
        "--clearenv",
        "--setenv",
        "PATH",
        "/usr/local/bin:/usr/bin:/bin",
    ]);
    for root in ROOTS {
        // A link stays a link, as somebody who writes such a line by hand would have it.
        match fs::read_link(root) {
            Ok(target) => command.arg("--symlink").arg(target).arg(root),
            Err(_) => command.args(["--ro-bind-try", root, root]),
        };
    }
    command.args([
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/workspace",
    ]);
    command.args(["--chdir", "/workspace", "--", TRUE]);
    command
}
