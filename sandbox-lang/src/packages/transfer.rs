//! Moves packages between this host and sandboxes that see none of its folders. `tar` of the
//! sandbox's image is the other side.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream, Source};
use sandbox_core::{ByteSize, Error, ErrorKind, ExecRequest, Outcome, Result};
use tokio::io::AsyncWriteExt;

use super::archive::{self, FileLinks};
use super::cache::{Staging, folder_error, remove, set_mode};
use super::recipe::text;

/// The most bytes kept of what `tar` says.
const MOST_WORDS: usize = 4096;

/// The most bytes of a log that are copied.
const MOST_LOG: usize = 16 * 1024 * 1024;

const OPERATION: &str = "move packages";

/// Copies a folder of installed packages into an existing folder of a sandbox, as the code's user.
/// The image must have `tar`.
///
/// # Errors
///
/// [`ErrorKind::InstallFailed`] if the folder cannot be read or the sandbox cannot take it within
/// the time limit, and the sandbox's own errors.
pub async fn send_packages(
    instance: &dyn Instance,
    folder: &Path,
    target: &str,
    timeout: Duration,
) -> Result<()> {
    send(instance, folder, FileLinks::Keep, target, timeout).await
}

async fn send(
    instance: &dyn Instance,
    folder: &Path,
    links: FileLinks,
    target: &str,
    timeout: Duration,
) -> Result<()> {
    let (here, there) = pair()?;
    let source = folder.to_owned();
    let writing = tokio::task::spawn_blocking(move || archive::write(&source, links, here));
    // The owner's number means nothing there.
    let request = tar(timeout).arg("-xof").arg("-").arg("-C").arg(target);
    let source: Source = Box::new(there);
    let mut words = Words::default();
    let end = instance
        .exec(&request, Some(source).into(), &mut words)
        .await;
    // The other end is closed now, so the writer ends.
    let written = writing.await.map_err(io::Error::other).flatten();
    let end = end.map_err(without_tar)?;
    if end.outcome != SUCCESS {
        return Err(words.error(&end.outcome));
    }
    written.map_err(|cause| folder_error(folder, &cause))?;
    match end.incomplete {
        None => Ok(()),
        Some(why) => Err(Error::new(ErrorKind::InstallFailed, OPERATION, why)),
    }
}

const SUCCESS: Outcome = Outcome::Exited { code: 0 };

/// Copies the work folder, and what an installer reads, to the same paths in the sandbox, whose
/// folders there are empty.
pub(super) async fn bring(
    instance: &dyn Instance,
    staging: &Staging,
    read_roots: &[PathBuf],
    timeout: Duration,
) -> Result<()> {
    let work = staging.work();
    send(instance, &work, FileLinks::Keep, &text(&work), timeout).await?;
    // A file may be in one of the folders.
    let (folders, files): (Vec<_>, Vec<_>) = read_roots.iter().partition(|root| root.is_dir());
    for folder in folders {
        send(instance, folder, FileLinks::Follow, &text(folder), timeout).await?;
    }
    for path in files {
        let file = tokio::fs::File::open(path).await;
        let file = file.map_err(|cause| folder_error(path, &cause))?;
        instance.put(&text(path), 0o644, Box::new(file)).await?;
    }
    Ok(())
}

/// Replaces the host's folder of the packages by the sandbox's.
///
/// # Errors
///
/// [`ErrorKind::StorageFull`] if they exceed `limit`.
pub(super) async fn fetch_packages(
    instance: &dyn Instance,
    staging: &Staging,
    limit: ByteSize,
    timeout: Duration,
) -> Result<()> {
    let base = staging.base();
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::FileTooLarge => {
            let context = format!("{}: more than {limit}", base.display());
            Error::new(ErrorKind::StorageFull, OPERATION, context)
        }
        _ => folder_error(&base, &cause),
    };
    let empty = remove(&base).and_then(|()| std::fs::create_dir(&base));
    empty
        .and_then(|()| set_mode(&base, 0o755))
        .map_err(failed)?;
    let (here, there) = pair()?;
    let folder = base.clone();
    let unpacking =
        tokio::task::spawn_blocking(move || archive::unpack(here, &folder, limit.as_u64()));
    let path = text(&base);
    let request = tar(timeout)
        .arg("-cf")
        .arg("-")
        .arg("-C")
        .arg(path)
        .arg(".");
    let mut received = Received {
        archive: there,
        words: Words::default(),
    };
    let end = instance.exec(&request, None.into(), &mut received).await;
    let words = std::mem::take(&mut received.words);
    // Ends the archive.
    drop(received);
    let unpacked = unpacking.await.map_err(io::Error::other).flatten();
    let end = end.map_err(without_tar)?;
    match (end.outcome, unpacked) {
        // `tar` was stopped because of this.
        (_, Err(cause)) if cause.kind() != io::ErrorKind::UnexpectedEof => Err(failed(cause)),
        (SUCCESS, unpacked) => unpacked.map_err(failed),
        (outcome, _) => Err(words.error(&outcome)),
    }
}

/// Copies the installer's log to the host. Without it, an error has less detail.
pub(super) async fn fetch_log(instance: &dyn Instance, staging: &Staging) {
    let mut log = Log(Vec::new());
    let fetched = instance.fetch(&text(&staging.log()), &mut log).await;
    let written = std::fs::write(staging.log(), &log.0);
    if let Err(cause) = fetched.map_err(io::Error::other).and(written) {
        tracing::debug!(%cause, "the installer's log");
    }
}

/// A blocking end, and one for the runtime.
fn pair() -> Result<(UnixStream, tokio::net::UnixStream)> {
    let made = UnixStream::pair().and_then(|(here, there)| {
        there.set_nonblocking(true)?;
        Ok((here, tokio::net::UnixStream::from_std(there)?))
    });
    made.map_err(|cause| Error::new(ErrorKind::Io, OPERATION, cause.to_string()))
}

fn tar(timeout: Duration) -> ExecRequest {
    let mut request = ExecRequest::new("tar").log(false);
    request.timeout = Some(timeout);
    request
}

fn without_tar(error: Error) -> Error {
    match error.kind() {
        ErrorKind::ProgramNotFound | ErrorKind::NotExecutable => {
            let context = format!("the image has no tar: {}", error.context());
            let error = Error::new(ErrorKind::InstallFailed, OPERATION, context);
            error.with_fix("use an image that has tar, or one that has the packages")
        }
        _ => error,
    }
}

/// What `tar` says on standard error.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn error(&self, outcome: &Outcome) -> Error {
        let words = String::from_utf8_lossy(&self.0);
        let words = sandbox_core::spi::escape(words.trim());
        let context = format!("tar in the sandbox: {outcome}: {words}");
        let kind = match outcome {
            Outcome::TimedOut => ErrorKind::InstallTimedOut,
            _ => ErrorKind::InstallFailed,
        };
        Error::new(kind, OPERATION, context)
    }
}

#[async_trait]
impl OutputSink for Words {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        if stream == OutputStream::Stderr {
            let room = MOST_WORDS - self.0.len();
            self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        Flow::Continue
    }
}

struct Received {
    archive: tokio::net::UnixStream,
    words: Words,
}

#[async_trait]
impl OutputSink for Received {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        if stream == OutputStream::Stderr {
            return self.words.write(stream, bytes).await;
        }
        match self.archive.write_all(bytes).await {
            Ok(()) => Flow::Continue,
            // The archive was refused, and the unpacking says why.
            Err(_) => Flow::Stop,
        }
    }
}

struct Log(Vec<u8>);

#[async_trait]
impl OutputSink for Log {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        let room = MOST_LOG - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        match self.0.len() {
            MOST_LOG => Flow::Stop,
            _ => Flow::Continue,
        }
    }
}
