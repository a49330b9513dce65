//! Runs scripts in the shell of a foreign container.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::StderrTail;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::ForeignPodContainer;
use crate::TIER;
use crate::stream;

/// The timeout of a script. The longest one reads a program of about a megabyte.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most bytes of output that are read.
const MAX_BYTES: u64 = 16 * 1024;

/// Runs a script and returns its standard output and the tail of its standard error. Without a
/// shell, the output is empty. The script must end by itself: older servers cannot signal the end
/// of its input.
///
/// # Errors
///
/// Errors of the cluster; `Io` after the timeout.
pub(super) async fn run(
    pods: &Api<Pod>,
    container: &ForeignPodContainer,
    script: &str,
    arguments: &[&str],
    input: &[u8],
) -> Result<(String, Option<String>)> {
    let mut command = vec!["sh", "-c", script, "sh"];
    command.extend(arguments);
    let ran = tokio::time::timeout(PATIENCE, async {
        let stderr = StderrTail::default();
        let stream = stream::execute(pods, container.names(), command, &stderr).await?;
        let (reader, mut writer) = tokio::io::split(stream);
        let mut written = Vec::new();
        let mut reader = reader.take(MAX_BYTES);
        let send = async {
            let sent = writer.write_all(input).await;
            match sent {
                Ok(()) => writer.flush().await,
                failed => failed,
            }
        };
        // If the script does not read its input, its output says why.
        let (_, read) = tokio::join!(send, reader.read_to_end(&mut written));
        read.map_err(|error| Error::new(ErrorKind::Io, "adopt pod", error.to_string()).on(TIER))?;
        Ok((
            String::from_utf8_lossy(&written).into_owned(),
            stderr.text(),
        ))
    });
    ran.await.map_err(|_| {
        let context = format!("a script in {container} has not ended within {PATIENCE:?}");
        Error::new(ErrorKind::Io, "adopt pod", context).on(TIER)
    })?
}
