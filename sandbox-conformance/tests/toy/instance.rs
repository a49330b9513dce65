//! A sandbox of the toy, in which programs run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sandbox_core::spi::{
    ControlRequest, Flow, Input, Instance, OutputSink, OutputStream, Source, unsupported,
};
use sandbox_core::{
    ArtifactLimits, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export, Outcome,
    Result,
};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// The search path for programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How long output is read after the program's end, if another process holds it open.
const HELD: Duration = Duration::from_millis(200);

/// The error for a program whose file is still open for writing.
const BUSY: std::io::ErrorKind = std::io::ErrorKind::ExecutableFileBusy;

pub struct ToyInstance {
    report: EnforcementReport,
    env: BTreeMap<String, String>,
    /// Turns true when the sandbox is stopped.
    stopped: watch::Sender<bool>,
    /// Turns true when the sandbox ends.
    ended: watch::Sender<bool>,
}

impl ToyInstance {
    pub fn new(report: EnforcementReport, env: BTreeMap<String, String>) -> Self {
        let [stopped, ended] = [(); 2].map(|()| watch::Sender::new(false));
        Self {
            report,
            env,
            stopped,
            ended,
        }
    }

    async fn spawn(&self, request: &ExecRequest, mark: &str) -> Result<Child> {
        let mut command = Command::new(OsStr::from_bytes(&request.argv[0]));
        command
            .args(request.argv[1..].iter().map(|one| OsStr::from_bytes(one)))
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/tmp")
            .envs(&self.env)
            .envs(&request.env)
            .env(MARK, mark)
            .current_dir(folder_of(request))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut attempts = 1;
        loop {
            match command.spawn() {
                // Another thread's child may hold the file open until it executes its own program.
                Err(error) if error.kind() == BUSY && attempts < 100 => attempts += 1,
                spawned => return spawned.map_err(|error| start_failed(request, &error)),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The variable that marks the processes of an execution, including those that left its group.
const MARK: &str = "TOY_EXECUTION";

/// Kills the remaining processes of an execution when it is dropped.
struct Tree {
    group: Pid,
    mark: String,
}

impl Drop for Tree {
    fn drop(&mut self) {
        // An error means that the group has already ended.
        let _ = kill_process_group(self.group, Signal::KILL);
        // A process may start another one during the search. The toy gives up after 20 rounds.
        for _ in 0..20 {
            let marked = self.marked();
            if marked.is_empty() {
                return;
            }
            for pid in marked {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Tree {
    fn marked(&self) -> Vec<Pid> {
        let mark = format!("{MARK}={}", self.mark).into_bytes();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let carries = |pid: &i32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|one| one == mark))
        };
        pids.filter(carries).filter_map(Pid::from_raw).collect()
    }
}

fn failed(operation: &'static str, error: &std::io::Error) -> Error {
    let failed = Error::new(ErrorKind::Path, operation, error.to_string()).on("toy");
    // The core turns some error numbers into denials.
    match error.raw_os_error() {
        Some(number) => failed.with_os_error(number),
        None => failed,
    }
}

/// A relative folder starts in the sandbox's own.
fn folder_of(request: &ExecRequest) -> PathBuf {
    Path::new("/tmp").join(request.workdir.as_deref().unwrap_or_default())
}

fn start_failed(request: &ExecRequest, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        _ if !folder_of(request).is_dir() => ErrorKind::BadWorkdir,
        std::io::ErrorKind::NotFound => ErrorKind::ProgramNotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::NotExecutable,
        _ => ErrorKind::Io,
    };
    Error::new(kind, "execute", error.to_string()).on("toy")
}

async fn end_of(ended: &mut watch::Receiver<bool>) {
    // A dropped sender means that the sandbox has ended.
    let _ = ended.wait_for(|ended| *ended).await;
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited { code },
        (None, Some(signal)) => Outcome::Signaled { signal },
        // A missing exit code is never 0.
        (None, None) => Outcome::Unknown {
            reason: status.to_string(),
        },
    }
}

#[async_trait]
impl Instance for ToyInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.report
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        mut input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        let mark = sandbox_core::spi::unique_name("toy");
        let mut child = self.spawn(request, &mark).await?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = id.ok_or_else(|| unsupported("execute", "toy"))?;
        let tree = Tree { group: pid, mark };
        sink.started().await;
        if let (Some(mut to), Some(mut from)) = (child.stdin.take(), input.stdin.take()) {
            // The program may end without reading all of it.
            tokio::spawn(async move { tokio::io::copy(&mut from, &mut to).await });
        }
        let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(unsupported("execute", "toy"));
        };
        let mut outputs = Outputs::new(out, err);
        let limit = tokio::time::sleep(request.timeout.unwrap_or(Duration::MAX));
        tokio::pin!(limit);
        let mut ended = self.ended.subscribe();
        let mut stopped = self.stopped.subscribe();
        let mut is_stopped = false;
        let mut forced = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status.map_err(|error| failed("execute", &error))?,
                read = outputs.read(), if outputs.open() => {
                    let read = read.map_err(|error| failed("read output", &error))?;
                    if outputs.pass(read, sink).await == Flow::Stop {
                        forced = Some(Outcome::OutputLimit);
                        let _ = kill_process_group(pid, Signal::KILL);
                    }
                }
                request = input.control.next() => match request {
                    ControlRequest::Signal(number) => {
                        if let Some(signal) = Signal::from_named_raw(number.into()) {
                            // The program may have ended meanwhile.
                            let _ = kill_process(pid, signal);
                        }
                    }
                    _ => {
                        let _ = kill_process_group(pid, Signal::KILL);
                    }
                },
                () = &mut limit, if forced.is_none() => {
                    forced = Some(Outcome::TimedOut);
                    let _ = kill_process_group(pid, Signal::KILL);
                }
                () = end_of(&mut stopped), if !is_stopped => {
                    is_stopped = true;
                    let _ = kill_process_group(pid, Signal::TERM);
                }
                () = end_of(&mut ended) => {
                    return Err(Error::new(ErrorKind::SandboxEnded, "execute", "it was killed").on("toy"));
                }
            }
        };
        // Ends the remaining processes. Their output is still read.
        drop(tree);
        let rest = async {
            while outputs.open() {
                let read = outputs.read().await?;
                outputs.pass(read, sink).await;
            }
            Ok::<(), std::io::Error>(())
        };
        // If another process holds the output open, reading stops here.
        if let Ok(read) = tokio::time::timeout(HELD, rest).await {
            read.map_err(|error| failed("read output", &error))?;
        }
        Ok(ExecEnd::new(forced.unwrap_or_else(|| outcome(status))))
    }

    async fn put(&self, path: &str, mode: u32, mut content: Source) -> Result<()> {
        let failed = |error: std::io::Error| failed("write file", &error);
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).await.map_err(failed)?;
        let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).map_err(failed)?;
        // Write a new file and rename it: readers of the old file see all of it, and no link is
        // followed.
        let beside = folder.join(sandbox_core::spi::unique_name(".put"));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&beside).map_err(failed)?;
        std::io::Write::write_all(&mut file, &bytes).map_err(failed)?;
        let mode = std::fs::Permissions::from_mode(mode);
        file.set_permissions(mode).map_err(failed)?;
        drop(file);
        std::fs::rename(&beside, path).map_err(failed)
    }

    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()> {
        let failed = |error: std::io::Error| failed("read file", &error);
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = options.open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(Error::new(ErrorKind::Path, "read file", "no regular file").on("toy"));
        }
        let mut file = tokio::fs::File::from_std(file);
        let mut output = vec![0; 65536];
        loop {
            let length = file.read(&mut output).await.map_err(failed)?;
            if length == 0
                || sink.write(OutputStream::Stdout, &output[..length]).await == Flow::Stop
            {
                return Ok(());
            }
        }
    }

    async fn export(&self, _: &[String], _: &Path, _: ArtifactLimits) -> Result<Export> {
        Err(unsupported("export", "toy"))
    }

    async fn logs(&self, _: Option<u32>) -> Result<Vec<u8>> {
        Err(unsupported("read the log", "toy"))
    }

    async fn stop(&self, grace: Duration) -> Result<()> {
        self.stopped.send_replace(true);
        // It is closed when no execution runs. After the grace, they are killed.
        let _ = tokio::time::timeout(grace, self.stopped.closed()).await;
        self.kill().await
    }

    async fn kill(&self) -> Result<()> {
        // Each running execution ends, together with its process group.
        self.ended.send_replace(true);
        Ok(())
    }
}

/// The outputs of a program that are still open.
struct Outputs<O, E> {
    out: Option<O>,
    err: Option<E>,
    pieces: [Vec<u8>; 2],
}

impl<O: AsyncRead + Unpin, E: AsyncRead + Unpin> Outputs<O, E> {
    fn new(out: O, err: E) -> Self {
        let pieces = [vec![0; 65536], vec![0; 65536]];
        Self {
            out: Some(out),
            err: Some(err),
            pieces,
        }
    }

    fn open(&self) -> bool {
        self.out.is_some() || self.err.is_some()
    }

    /// Reads one piece. Canceling this loses nothing. Canceling `pass` would, so it is a separate
    /// step.
    async fn read(&mut self) -> std::io::Result<(OutputStream, usize)> {
        let [out, err] = &mut self.pieces;
        Ok(tokio::select! {
            read = read(&mut self.out, out) => (OutputStream::Stdout, read?),
            read = read(&mut self.err, err) => (OutputStream::Stderr, read?),
        })
    }

    /// Passes on what was read.
    async fn pass(
        &mut self,
        (stream, length): (OutputStream, usize),
        sink: &mut dyn OutputSink,
    ) -> Flow {
        let [out, err] = &self.pieces;
        match (stream, length) {
            (OutputStream::Stdout, 0) => self.out = None,
            (OutputStream::Stderr, 0) => self.err = None,
            (OutputStream::Stdout, _) => return sink.write(stream, &out[..length]).await,
            (OutputStream::Stderr, _) => return sink.write(stream, &err[..length]).await,
        }
        Flow::Continue
    }
}

/// Reads a piece. Never completes if the stream is closed.
async fn read(
    stream: &mut Option<impl AsyncRead + Unpin>,
    output: &mut [u8],
) -> std::io::Result<usize> {
    match stream {
        Some(stream) => stream.read(output).await,
        None => std::future::pending().await,
    }
}
