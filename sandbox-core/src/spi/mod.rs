//! The traits that a backend implements.
//!
//! Programs use [`crate::SandboxClient`] and [`crate::SandboxHandle`] instead. Admission is
//! implemented there, once for all backends.
//!
//! [`Backend`] and [`Instance`] are required. [`Images`], [`Detached`] and [`Adopt`] are optional:
//! a backend that supports one returns itself from the method of [`Backend`] with that name.

mod adopt;
mod backend;
mod detached;
mod images;
mod instance;
mod output;
mod starter;

pub use adopt::Adopt;
pub use backend::{Backend, Finding};
pub use detached::{Detached, Found, RecordedSandbox};
pub use images::Images;
pub use instance::{EgressTraffic, Instance};
pub use output::{Flow, OutputSink, OutputStream};
pub use starter::ExecutionStarter;

pub use crate::denial::denied_connection;
pub use crate::escape::escape;
pub use crate::input::{ControlReceiver, ControlRequest, Input};
pub use crate::one_shot::{create_one_shot, finish_one_shot};
pub use crate::parse_error::toml_error;
pub use crate::pool::{Claimed, Pool, PoolItem, Starter};
pub use crate::secret::PlaceholderSecret;
pub use crate::trust::{TrustedCertificates, place_certificates};
pub use crate::unique_name::unique_name;
pub use crate::workspace::MAX_LISTED;
#[doc(hidden)]
pub use inventory;

use tokio::io::AsyncRead;

use crate::{Error, ErrorKind, ProvidedFolder, Result, SandboxClient, SandboxHandle, SandboxSpec};

/// A byte stream that a backend reads from: standard input, or the content of a file.
pub type Source = Box<dyn AsyncRead + Send + Unpin>;

/// Creates a sandbox with a folder of the host that code sees read-only, as the folders of installed
/// packages. Backends that show no folders of the host may ignore it: look whether it is there.
///
/// # Errors
///
/// As [`SandboxClient::create`].
pub async fn create_with_folder(
    client: &SandboxClient,
    spec: &SandboxSpec,
    folder: ProvidedFolder,
) -> Result<SandboxHandle> {
    client.create_with_folder(spec, folder).await
}

/// The error for an operation that a backend does not support.
#[must_use]
pub fn unsupported(operation: &'static str, backend: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        operation,
        "this backend does not do that",
    )
    .on(backend)
    .with_fix("choose a tier that does")
}
