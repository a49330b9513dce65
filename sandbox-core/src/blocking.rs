//! A client and handles for programs without an async runtime.
//!
//! The methods have the names and results of [`SandboxClient`]'s and [`SandboxHandle`]'s, and block
//! the calling thread. A client and its handles share one tokio runtime with one thread.
//!
//! ```
//! use sandbox_core::blocking::BlockingClient;
//! use sandbox_core::fake::{FakeAnswer, FakeBackend};
//! use sandbox_core::{CapabilityPolicy, ExecRequest, SandboxClient, SandboxSpec};
//! use std::sync::Arc;
//!
//! let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("42\n")));
//! let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
//!
//! let client = BlockingClient::new(client)?; // or BlockingClient::open("local", policy)
//! let sandbox = client.create(&SandboxSpec::new("example"))?;
//! let result = sandbox.exec(&ExecRequest::new("python3").args(["-c", "print(6 * 7)"]))?;
//! assert_eq!(result.check()?.stdout_text(), "42\n");
//! sandbox.kill()?;
//! # Ok::<(), sandbox_core::Error>(())
//! ```
//!
//! # Panics
//!
//! Methods that block panic in async code: "Cannot start a runtime from within a runtime". So does
//! dropping a client with its last handle there. Use [`SandboxClient`] in async code, or
//! `tokio::task::spawn_blocking`.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use crate::{
    ArtifactLimits, ByteSize, CapabilityPolicy, Copied, Denials, EnforcementReport, Error,
    ErrorKind, ExecRequest, ExecResult, Export, FileEntry, Forward, OneShot, OneShotResult,
    OutputStream, Result, SandboxClient, SandboxHandle, SandboxInfo, SandboxSpec, Stdin,
};

/// A value whose futures and whose drop run in the runtime.
struct InRuntime<T> {
    /// `None` only while it is dropped.
    value: Option<T>,
    runtime: Arc<Runtime>,
}

impl<T> InRuntime<T> {
    fn value(&self) -> &T {
        self.value
            .as_ref()
            .expect("the value exists until its drop")
    }

    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl<T> Drop for InRuntime<T> {
    fn drop(&mut self) {
        // Backends may start tasks that remove what is dropped.
        let _entered = self.runtime.enter();
        self.value = None;
    }
}

/// A [`SandboxClient`] that blocks: see the [module](self).
pub struct BlockingClient(InRuntime<SandboxClient>);

impl fmt::Debug for BlockingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BlockingClient")
            .field(self.0.value())
            .finish()
    }
}

impl BlockingClient {
    /// Opens a tier by its name, as [`SandboxClient::open`].
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::open`] and [`BlockingClient::new`].
    pub fn open(tier: &str, policy: CapabilityPolicy) -> Result<Self> {
        Self::new(SandboxClient::open(tier, policy)?)
    }

    /// Starts a runtime for this client.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the runtime cannot be started.
    pub fn new(client: SandboxClient) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sandbox-blocking")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| {
            Error::new(ErrorKind::Io, "start async runtime", "tokio").with_source(error)
        })?;
        Ok(Self(InRuntime {
            value: Some(client),
            runtime: Arc::new(runtime),
        }))
    }

    /// The client for async code, such as [`SandboxClient::tier`] and [`SandboxClient::policy`].
    #[must_use]
    pub fn as_async(&self) -> &SandboxClient {
        self.0.value()
    }

    /// Runs a future of the async client to its end, for operations that have no method here.
    ///
    /// ```
    /// # use sandbox_core::fake::{FakeAnswer, FakeBackend};
    /// # use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec};
    /// # let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("")));
    /// # let client = SandboxClient::with_backend(std::sync::Arc::new(backend), CapabilityPolicy::new())?;
    /// # let client = sandbox_core::blocking::BlockingClient::new(client)?;
    /// let support = client.wait(client.as_async().check(&SandboxSpec::new("example")))?;
    /// assert!(support.unmet().is_empty());
    /// # Ok::<(), sandbox_core::Error>(())
    /// ```
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.0.wait(future)
    }

    fn handle(&self, handle: SandboxHandle) -> BlockingHandle {
        BlockingHandle(InRuntime {
            value: Some(handle),
            runtime: Arc::clone(&self.0.runtime),
        })
    }

    /// See [`SandboxClient::create`].
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::create`].
    pub fn create(&self, spec: &SandboxSpec) -> Result<BlockingHandle> {
        let created = self.0.wait(self.as_async().create(spec))?;
        Ok(self.handle(created))
    }

    /// See [`SandboxClient::run_python`].
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::run_python`].
    pub fn run_python(&self, code: impl AsRef<OsStr>, options: OneShot) -> Result<OneShotResult> {
        self.0.wait(self.as_async().run_python(code, options))
    }

    /// See [`SandboxClient::run_shell`].
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::run_shell`].
    pub fn run_shell(&self, script: impl AsRef<OsStr>, options: OneShot) -> Result<OneShotResult> {
        self.0.wait(self.as_async().run_shell(script, options))
    }

    /// See [`SandboxClient::get`].
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::get`].
    pub fn get(&self, name: &str) -> Result<BlockingHandle> {
        let found = self.0.wait(self.as_async().get(name))?;
        Ok(self.handle(found))
    }

    /// See [`SandboxClient::list`].
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::list`].
    pub fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.0.wait(self.as_async().list())
    }

    /// See [`SandboxClient::list_all`].
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::list_all`].
    pub fn list_all(&self) -> Result<Vec<SandboxInfo>> {
        self.0.wait(self.as_async().list_all())
    }

    /// See [`SandboxClient::remove`].
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::remove`].
    pub fn remove(&self, name: &str) -> Result<()> {
        self.0.wait(self.as_async().remove(name))
    }

    /// See [`SandboxClient::settle`].
    pub fn settle(&self) {
        self.0.wait(self.as_async().settle());
    }
}

/// A [`SandboxHandle`] that blocks: see the [module](self).
pub struct BlockingHandle(InRuntime<SandboxHandle>);

impl fmt::Debug for BlockingHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BlockingHandle")
            .field(self.0.value())
            .finish()
    }
}

impl BlockingHandle {
    /// The handle for async code, such as [`SandboxHandle::plan`].
    #[must_use]
    pub fn as_async(&self) -> &SandboxHandle {
        self.0.value()
    }

    /// Runs a future of the async handle to its end, for operations that have no method here.
    ///
    /// ```no_run
    /// # fn example(sandbox: sandbox_core::blocking::BlockingHandle) -> sandbox_core::Result<()> {
    /// sandbox.wait(sandbox.as_async().commit("tools:2"))?;
    /// # Ok(()) }
    /// ```
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.0.wait(future)
    }

    /// See [`SandboxHandle::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.as_async().name()
    }

    /// See [`SandboxHandle::enforcement`].
    #[must_use]
    pub fn enforcement(&self) -> &EnforcementReport {
        self.as_async().enforcement()
    }

    /// See [`SandboxHandle::denials`].
    #[must_use]
    pub fn denials(&self) -> Denials {
        self.as_async().denials()
    }

    /// See [`SandboxHandle::exec`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exec`].
    pub fn exec(&self, request: &ExecRequest) -> Result<ExecResult> {
        self.0.wait(self.as_async().exec(request))
    }

    /// See [`SandboxHandle::exec_with`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exec_with`].
    pub fn exec_with(
        &self,
        request: &ExecRequest,
        stdin: Stdin,
        on_output: impl FnMut(OutputStream, &[u8]) + Send,
    ) -> Result<ExecResult> {
        let execution = self.as_async().exec_with(request, stdin, on_output);
        self.0.wait(execution)
    }

    /// See [`SandboxHandle::shell`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::shell`].
    pub fn shell(&self, script: impl AsRef<OsStr>) -> Result<ExecResult> {
        self.0.wait(self.as_async().shell(script))
    }

    /// See [`SandboxHandle::write`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::write`].
    pub fn write(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<()> {
        self.0.wait(self.as_async().write(path, content))
    }

    /// See [`SandboxHandle::read`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::read`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        self.0.wait(self.as_async().read(path))
    }

    /// See [`SandboxHandle::read_limited`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::read_limited`].
    pub fn read_limited(&self, path: &str, limit: ByteSize) -> Result<Vec<u8>> {
        self.0.wait(self.as_async().read_limited(path, limit))
    }

    /// See [`SandboxHandle::read_to_string`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::read_to_string`].
    pub fn read_to_string(&self, path: &str) -> Result<String> {
        self.0.wait(self.as_async().read_to_string(path))
    }

    /// See [`SandboxHandle::list_dir`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::list_dir`].
    pub fn list_dir(&self, path: &str) -> Result<Vec<FileEntry>> {
        self.0.wait(self.as_async().list_dir(path))
    }

    /// See [`SandboxHandle::stat`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::stat`].
    pub fn stat(&self, path: &str) -> Result<FileEntry> {
        self.0.wait(self.as_async().stat(path))
    }

    /// See [`SandboxHandle::exists`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exists`].
    pub fn exists(&self, path: &str) -> Result<bool> {
        self.0.wait(self.as_async().exists(path))
    }

    /// See [`SandboxHandle::mkdir`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::mkdir`].
    pub fn mkdir(&self, path: &str) -> Result<()> {
        self.0.wait(self.as_async().mkdir(path))
    }

    /// See [`SandboxHandle::remove`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::remove`].
    pub fn remove(&self, path: &str) -> Result<()> {
        self.0.wait(self.as_async().remove(path))
    }

    /// See [`SandboxHandle::copy_in`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::copy_in`].
    pub fn copy_in(&self, source: impl AsRef<Path>, target: &str) -> Result<Copied> {
        self.0.wait(self.as_async().copy_in(source, target))
    }

    /// See [`SandboxHandle::copy_out`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::copy_out`].
    pub fn copy_out(&self, source: &str, target: impl AsRef<Path>) -> Result<Copied> {
        self.0.wait(self.as_async().copy_out(source, target))
    }

    /// See [`SandboxHandle::export`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::export`].
    pub fn export(&self, folder: impl AsRef<Path>) -> Result<Export> {
        self.0.wait(self.as_async().export(folder))
    }

    /// See [`SandboxHandle::export_with`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::export_with`].
    pub fn export_with(&self, folder: impl AsRef<Path>, limits: ArtifactLimits) -> Result<Export> {
        self.0.wait(self.as_async().export_with(folder, limits))
    }

    /// See [`SandboxHandle::forward`]. Connections are carried while this handle exists.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::forward`].
    pub fn forward(&self, port: u16) -> Result<Forward> {
        self.0.wait(self.as_async().forward(port))
    }

    /// See [`SandboxHandle::stop`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::stop`].
    pub fn stop(&self) -> Result<()> {
        self.0.wait(self.as_async().stop())
    }

    /// See [`SandboxHandle::kill`].
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::kill`].
    pub fn kill(&self) -> Result<()> {
        self.0.wait(self.as_async().kill())
    }
}
