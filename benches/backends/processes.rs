//! Reference tools that are programs: plain processes and `bwrap`.

use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::workload::{
    Contender, MeasureError, Measured, Timings, Workload, expect_bytes, transfer_size,
};

/// The program that ends at once.
pub const TRUE: &str = "/bin/true";

/// The host's programs and libraries, which the local backend shows by default.
const HOST_FOLDERS: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
];

/// Processes without any isolation, beside the local backend.
pub struct PlainProcess;

#[async_trait(?Send)]
impl Contender for PlainProcess {
    fn name(&self) -> &'static str {
        "plain process"
    }

    fn supports(&self, workload: Workload) -> bool {
        use Workload::{Copy, Output, WarmExec};
        matches!(workload, WarmExec | Output | Copy)
    }

    async fn run(&mut self, work: Workload, timings: &mut Timings) -> Measured {
        let bytes = transfer_size("local");
        match work {
            Workload::Copy => copy(bytes, timings).await,
            Workload::Output => {
                let mut head = Command::new("head");
                head.args(["-c", &bytes.to_string(), "/dev/zero"]);
                let output = timings.time(work.measurement(), async { head.output() });
                expect_bytes(output.await?.stdout.len(), bytes)
            }
            _ => {
                timings.add(work.measurement(), run(Command::new(TRUE)).await?);
                Ok(())
            }
        }
    }
}

/// Copies between folders in memory, where a sandbox has its files too.
async fn copy(bytes: u64, timings: &mut Timings) -> Measured {
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, vec![7; bytes as usize])?;
    for measurement in ["copy in", "copy out"] {
        let copy = async { fs::copy(&from, &to) };
        timings.time(measurement, copy).await?;
        fs::remove_file(&to)?;
    }
    Ok(())
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

    async fn run(&mut self, work: Workload, timings: &mut Timings) -> Measured {
        if work == Workload::Create {
            let mut cat = timings.time("create", async { start_cat() }).await?;
            return timings.time("remove", async { cat.wait() }).await.map(drop);
        }
        let elapsed = run(bwrap(TRUE)).await;
        let elapsed = elapsed.map_err(MeasureError::into_unavailable)?;
        timings.add(work.measurement(), elapsed);
        Ok(())
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

/// Starts `cat` in `bwrap`, and waits until it sends back a byte, so it runs. It ends when its
/// standard input closes: in `wait`, or when it is dropped.
fn start_cat() -> io::Result<Child> {
    let mut command = bwrap("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut cat = command.spawn()?;
    let mut byte = [b'x'];
    if let (Some(stdin), Some(stdout)) = (&mut cat.stdin, &mut cat.stdout) {
        stdin.write_all(&byte)?;
        stdout.read_exact(&mut byte)?;
    }
    Ok(cat)
}

/// Runs a command without input and output, and returns how long it took.
pub async fn run(mut command: Command) -> Measured<Duration> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null());
    // Not on the runtime's thread, which keeps warm sandboxes alive.
    let run = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        (command.status(), start.elapsed())
    });
    let reason = match run.await? {
        (Ok(status), elapsed) if status.success() => return Ok(elapsed),
        (Ok(status), _) => status.to_string(),
        (Err(error), _) => error.to_string(),
    };
    Err(MeasureError::Failed(format!("{program}: {reason}")))
}
