//! Files of a sandbox: reading, writing, copying, exporting artifacts.

use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::audit::{AuditedFiles, FileOperation};
use crate::denial;
use crate::spi::{Flow, OutputSink, OutputStream};
use crate::{
    ArtifactLimits, ByteSize, Copied, DenialKind, Error, ErrorKind, Export, FileEntry, Result,
    SandboxHandle,
};

/// The largest file that [`SandboxHandle::read`] returns.
const READ_LIMIT: ByteSize = ByteSize::mib(64);

/// Permission bits of a file that [`SandboxHandle::write`] creates.
const FILE_MODE: u32 = 0o644;

/// Permission bits of a folder that [`SandboxHandle::mkdir`] creates.
const FOLDER_MODE: u32 = 0o755;

/// A relative path inside the sandbox starts in its working folder. Operations have the rights of the code in the sandbox,
/// do not follow a link at the end of a path, and record what is denied in
/// [`SandboxHandle::denials`].
impl SandboxHandle {
    /// Writes a file inside the sandbox with permission bits `0o644`. Creates missing parent
    /// folders and replaces an existing file.
    ///
    /// ```no_run
    /// # async fn example(sandbox: sandbox_core::SandboxHandle) -> sandbox_core::Result<()> {
    /// sandbox.write("/tmp/input.csv", "a,b\n1,2\n").await?;
    /// assert_eq!(sandbox.read_to_string("/tmp/input.csv").await?, "a,b\n1,2\n");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] if the code in the sandbox may not write the file.
    pub async fn write(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<()> {
        let content = std::io::Cursor::new(content.into());
        self.upload(path, FILE_MODE, content).await
    }

    /// As [`SandboxHandle::write`], from a reader and with these permission bits.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::write`]; and if `content` cannot be read.
    pub async fn upload(
        &self,
        path: &str,
        mode: u32,
        content: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<()> {
        check_path(path)?;
        let paths = [path];
        let audited = self.audited(FileOperation::Write, &paths, None);
        let put = self.running.instance.put(path, mode, Box::new(content));
        let put = put.await;
        audited.end(put.map_err(|error| self.denied_file(error, DenialKind::FileWrite, path)))
    }

    /// Reads a regular file of at most 64 MiB inside the sandbox.
    ///
    /// [`SandboxHandle::read_limited`] sets another limit, [`SandboxHandle::download`] has none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] if the file is larger, is a link or not a regular file, or if the code
    /// in the sandbox may not read it.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>> {
        self.read_limited(path, READ_LIMIT).await
    }

    /// As [`SandboxHandle::read`], with this limit instead of 64 MiB.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::read`].
    pub async fn read_limited(&self, path: &str, limit: ByteSize) -> Result<Vec<u8>> {
        let mut kept = LimitedBuffer {
            bytes: Vec::new(),
            limit: limit.as_usize(),
            is_exceeded: false,
        };
        self.fetch(path, &mut kept).await?;
        if kept.is_exceeded {
            let context = format!("{path}: larger than {} bytes", kept.limit);
            return Err(Error::new(ErrorKind::Path, "read file", context)
                .with_fix("use read_limited with a higher limit, or download"));
        }
        Ok(kept.bytes)
    }

    /// As [`SandboxHandle::read`], as text.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::read`]; and [`ErrorKind::Path`] if the file is not UTF-8.
    pub async fn read_to_string(&self, path: &str) -> Result<String> {
        String::from_utf8(self.read(path).await?).map_err(|error| {
            let context = format!("{path}: not UTF-8 text: {}", error.utf8_error());
            Error::new(ErrorKind::Path, "read file", context).with_fix("use read")
        })
    }

    /// Copies the content of a regular file inside the sandbox to a writer. Returns its length in
    /// bytes.
    ///
    /// The code in the sandbox decides how long the file is: use a writer with its own limit.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::read`], without its limit; and [`ErrorKind::Io`] if `content` cannot be
    /// written. It may have received a part of the file.
    pub async fn download(
        &self,
        path: &str,
        content: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64> {
        let mut sink = WriterSink {
            writer: content,
            written: Ok(0),
        };
        self.fetch(path, &mut sink).await?;
        let mut written = sink.written;
        if let Err(error) = content.flush().await {
            written = written.and(Err(error));
        }
        written.map_err(|error| {
            let context = format!("{path}: the receiving writer failed");
            Error::new(ErrorKind::Io, "download file", context).with_source(error)
        })
    }

    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()> {
        check_path(path)?;
        let paths = [path];
        let audited = self.audited(FileOperation::Read, &paths, None);
        let fetched = self.running.instance.fetch(path, sink).await;
        audited.end(fetched.map_err(|error| self.denied_file(error, DenialKind::FileRead, path)))
    }

    /// Returns what is directly in a folder of the sandbox, sorted by path.
    ///
    /// ```no_run
    /// # async fn example(sandbox: sandbox_core::SandboxHandle) -> sandbox_core::Result<()> {
    /// sandbox.mkdir("/tmp/results").await?;
    /// sandbox.write("/tmp/results/one.txt", "1").await?;
    /// for entry in sandbox.list_dir("/tmp/results").await? {
    ///     println!("{}: {} bytes", entry.path.display(), entry.size);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] if it is missing or not a folder, if the code may not read it, and if it
    /// has more than about 100,000 entries.
    pub async fn list_dir(&self, path: &str) -> Result<Vec<FileEntry>> {
        check_path(path)?;
        let listed = self.running.instance.list_dir(path).await;
        listed.map_err(|error| self.denied_file(error, DenialKind::FileRead, path))
    }

    /// Returns what a path in the sandbox is. Does not follow a link at its end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] if it is missing, or if the code may not reach it.
    pub async fn stat(&self, path: &str) -> Result<FileEntry> {
        self.found(path).await?.ok_or_else(|| {
            let context = format!("{path}: No such file or directory");
            Error::new(ErrorKind::Path, "look at file", context)
        })
    }

    /// Returns whether a path in the sandbox exists. A link exists even if its target does not.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] if the code may not reach it.
    pub async fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.found(path).await?.is_some())
    }

    async fn found(&self, path: &str) -> Result<Option<FileEntry>> {
        check_path(path)?;
        let found = self.running.instance.stat(path).await;
        found.map_err(|error| self.denied_file(error, DenialKind::FileRead, path))
    }

    /// Makes a folder in the sandbox with permission bits `0o755`, and its missing parents. An
    /// existing folder is not an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] if something else is there, or if the code may not make it.
    pub async fn mkdir(&self, path: &str) -> Result<()> {
        check_path(path)?;
        let paths = [path];
        let audited = self.audited(FileOperation::MakeFolder, &paths, None);
        let made = self.running.instance.make_dir(path, FOLDER_MODE).await;
        audited.end(made.map_err(|error| self.denied_file(error, DenialKind::FileWrite, path)))
    }

    /// Removes a file in the sandbox, or a folder with all its content. Removes a link itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] if it is missing, or if the code may not remove it.
    pub async fn remove(&self, path: &str) -> Result<()> {
        check_path(path)?;
        let paths = [path];
        let audited = self.audited(FileOperation::Remove, &paths, None);
        let removed = self.running.instance.remove(path).await;
        audited.end(removed.map_err(|error| self.denied_file(error, DenialKind::FileWrite, path)))
    }

    /// Copies a file or a folder of the host into the sandbox, as [`Instance::copy_in`] documents.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] for a source that is a link or special, and for a path in the sandbox
    /// that is missing or denied; [`ErrorKind::Io`] for a path of the host that is. Parts of a
    /// folder that cannot be copied are listed in [`Copied::skipped`] instead.
    ///
    /// [`Instance::copy_in`]: crate::spi::Instance::copy_in
    pub async fn copy_in(&self, source: impl AsRef<Path>, target: &str) -> Result<Copied> {
        check_path(target)?;
        let (source, paths) = (source.as_ref(), [target]);
        let audited = self.audited(FileOperation::CopyIn, &paths, Some(source));
        let copied = self.running.instance.copy_in(source, target).await;
        audited.end(copied.map_err(|error| self.denied_file(error, DenialKind::FileWrite, target)))
    }

    /// Copies a file or a folder out of the sandbox, as [`Instance::copy_out`] documents, within
    /// the default [`ArtifactLimits`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::copy_in`].
    ///
    /// [`Instance::copy_out`]: crate::spi::Instance::copy_out
    pub async fn copy_out(&self, source: &str, target: impl AsRef<Path>) -> Result<Copied> {
        self.copy_out_with(source, target, ArtifactLimits::default())
            .await
    }

    /// As [`SandboxHandle::copy_out`], within these limits.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::copy_in`].
    pub async fn copy_out_with(
        &self,
        source: &str,
        target: impl AsRef<Path>,
        limits: ArtifactLimits,
    ) -> Result<Copied> {
        check_path(source)?;
        let (target, paths) = (target.as_ref(), [source]);
        let audited = self.audited(FileOperation::CopyOut, &paths, Some(target));
        let copied = self.running.instance.copy_out(source, target, limits).await;
        audited.end(copied.map_err(|error| self.denied_file(error, DenialKind::FileRead, source)))
    }

    /// Copies files that match the policy's `artifact_export_paths` into a folder of the host,
    /// within the default [`ArtifactLimits`].
    ///
    /// ```no_run
    /// # async fn example(sandbox: sandbox_core::SandboxHandle) -> sandbox_core::Result<()> {
    /// for artifact in sandbox.export("artifacts").await?.artifacts {
    ///     println!("{}: {} bytes", artifact.path.display(), artifact.size_bytes);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the sandbox or the folder failed. Files that cannot be exported are listed in
    /// [`Export::skipped`] instead.
    pub async fn export(&self, folder: impl AsRef<Path>) -> Result<Export> {
        self.export_with(folder, ArtifactLimits::default()).await
    }

    /// As [`SandboxHandle::export`], within these limits.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::export`].
    pub async fn export_with(
        &self,
        folder: impl AsRef<Path>,
        limits: ArtifactLimits,
    ) -> Result<Export> {
        let plan = &self.running.plan;
        if plan.export_paths.is_empty() {
            return Ok(Export::default());
        }
        let (instance, folder) = (&self.running.instance, folder.as_ref());
        let paths: Vec<&str> = plan.export_paths.iter().map(String::as_str).collect();
        let audited = self.audited(FileOperation::Export, &paths, Some(folder));
        let exported = instance.export(&plan.export_paths, folder, limits).await;
        let mut export = audited.end(exported)?;
        let skipped = export.skipped.iter();
        export.denials = skipped
            .filter_map(|skipped| denial::of_artifact(skipped, limits, plan))
            .collect();
        self.running.denials.extend(&export.denials);
        Ok(export)
    }

    fn audited<'a>(
        &'a self,
        operation: FileOperation,
        paths: &'a [&'a str],
        host: Option<&'a Path>,
    ) -> AuditedFiles<'a> {
        AuditedFiles::start(&self.running.auditor, operation, paths, host)
    }

    /// Adds the denial to the error of a file operation, if a rule caused it.
    fn denied_file(&self, error: Error, kind: DenialKind, path: &str) -> Error {
        let plan = &self.running.plan;
        let number = error.os_error().filter(|_| error.kind() == ErrorKind::Path);
        let denial = number.and_then(|number| denial::of_file_error(kind, path, number, plan));
        match denial {
            Some(denial) => {
                self.running.denials.push(denial.clone());
                error.with_denial(denial)
            }
            None => error,
        }
    }
}

fn check_path(path: &str) -> Result<()> {
    let why = match path {
        "" => "the path is empty",
        path if path.contains('\0') => "the path has a NUL inside",
        _ => return Ok(()),
    };
    let context = format!("{path:?}: {why}");
    Err(Error::new(ErrorKind::Path, "name file", context))
}

/// Keeps bytes up to a limit and stops the transfer beyond it.
struct LimitedBuffer {
    bytes: Vec<u8>,
    limit: usize,
    is_exceeded: bool,
}

#[async_trait::async_trait]
impl OutputSink for LimitedBuffer {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        if bytes.len() > self.limit - self.bytes.len() {
            self.is_exceeded = true;
            return Flow::Stop;
        }
        self.bytes.extend_from_slice(bytes);
        Flow::Continue
    }
}

/// Passes bytes to a writer, and counts them until it fails.
struct WriterSink<'w, W> {
    writer: &'w mut W,
    written: std::io::Result<u64>,
}

#[async_trait::async_trait]
impl<W: AsyncWrite + Send + Unpin> OutputSink for WriterSink<'_, W> {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        let Ok(count) = &mut self.written else {
            return Flow::Stop;
        };
        match self.writer.write_all(bytes).await {
            Ok(()) => {
                *count += bytes.len() as u64;
                Flow::Continue
            }
            Err(error) => {
                self.written = Err(error);
                Flow::Stop
            }
        }
    }
}
