//! Reference tools that are programs: plain processes and `bwrap`.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::workload::{Contender, MeasureError, Timings, Workload, expect_bytes, timed};

/// The program that ends at once.
pub const TRUE: &str = "/bin/true";

/// The host's programs and libraries, which the local backend shows by default.
const HOST_FOLDERS: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
];

/// Processes without any isolation.
pub struct PlainProcess {
    /// How many bytes a transfer moves.
    pub bytes: u64,
}

#[async_trait(?Send)]
impl Contender for PlainProcess {
    fn name(&self) -> &'static str {
        "plain process"
    }

    fn supports(&self, workload: Workload) -> bool {
        use Workload::{Copy, Output, WarmExec};
        matches!(workload, WarmExec | Output | Copy)
    }

    async fn run(&mut self, workload: Workload) -> Timings {
        let bytes = self.bytes;
        match workload {
            Workload::Copy => copy(bytes).await,
            Workload::Output => {
                let mut head = Command::new("head");
                head.args(["-c", &bytes.to_string(), "/dev/zero"]);
                let (output, elapsed) = timed(async { head.output() }).await?;
                expect_bytes(output.stdout.len(), bytes)?;
                Ok(vec![(workload.measurement(), elapsed)])
            }
            _ => Ok(vec![(
                workload.measurement(),
                run(Command::new(TRUE)).await?,
            )]),
        }
    }
}

/// Copies between folders in memory, where a sandbox has its files too.
async fn copy(bytes: u64) -> Timings {
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, vec![7; bytes as usize])?;
    let mut timings = Vec::new();
    for measurement in ["copy in", "copy out"] {
        let (_, elapsed) = timed(async { fs::copy(&from, &to) }).await?;
        timings.push((measurement, elapsed));
        fs::remove_file(&to)?;
    }
    Ok(timings)
}

/// `bwrap` with the namespaces and folders that the local backend uses.
pub struct Bwrap;

#[async_trait(?Send)]
impl Contender for Bwrap {
    fn name(&self) -> &'static str {
        "bwrap"
    }

    fn supports(&self, workload: Workload) -> bool {
        matches!(workload, Workload::OneShot | Workload::Create)
    }

    async fn run(&mut self, workload: Workload) -> Timings {
        match workload {
            Workload::Create => {
                let (cat, create) = timed(async { Cat::start()?.answered() }).await?;
                let ((), remove) = timed(async { cat.end() }).await?;
                Ok(vec![("create", create), ("remove", remove)])
            }
            _ => {
                let elapsed = run(bwrap(TRUE)).await;
                let elapsed = elapsed.map_err(MeasureError::into_unavailable)?;
                Ok(vec![(workload.measurement(), elapsed)])
            }
        }
    }
}

fn bwrap(program: &str) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session"]);
    command.args(["--cap-drop", "ALL", "--clearenv"]);
    command.args(["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"]);
    for folder in HOST_FOLDERS {
        match fs::read_link(folder) {
            Ok(target) => command.arg("--symlink").arg(target).arg(folder),
            Err(_) => command.args(["--ro-bind-try", folder, folder]),
        };
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    command.args(["--tmpfs", "/workspace", "--chdir", "/workspace"]);
    command.args(["--", program]);
    command
}

/// `cat` in `bwrap`, which waits for input. Dropping it ends it.
struct Cat(Child);

impl Cat {
    fn start() -> Result<Self, MeasureError> {
        let mut command = bwrap("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// Waits until it sends back a byte, so it runs.
    fn answered(mut self) -> Result<Self, MeasureError> {
        let mut byte = [b'x'];
        if let (Some(stdin), Some(stdout)) = (&mut self.0.stdin, &mut self.0.stdout) {
            stdin.write_all(&byte)?;
            stdout.read_exact(&mut byte)?;
        }
        Ok(self)
    }

    /// Closes its standard input and waits for its end.
    fn end(mut self) -> Result<(), MeasureError> {
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Cat {
    fn drop(&mut self) {
        // Both fail after `end`, when there is nothing left to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command without input and output, and returns how long it took.
pub async fn run(mut command: Command) -> Result<Duration, MeasureError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null());
    // Not on the runtime's thread, which keeps warm sandboxes alive.
    let run = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        (command.status(), start.elapsed())
    });
    match run.await? {
        (Ok(status), elapsed) if status.success() => Ok(elapsed),
        (Ok(status), _) => Err(MeasureError::Failed(format!("{program}: {status}"))),
        (Err(error), _) => Err(MeasureError::Failed(format!("{program}: {error}"))),
    }
}
