//! Scripts for the shell of a container that somebody else has made.

use std::time::Duration;

use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::LastWords;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Found;
use crate::TIER;
use crate::cluster::Cluster;
use crate::stream;

/// How long a script may take: the largest thing that one does is to take a program of a megabyte.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much of what it writes is read, in bytes.
const MOST: u64 = 16 * 1024;

/// Runs a script with these arguments and this input; gives what it has written, which is nothing where there is no shell, and what was
/// said on standard error. It is to end by itself, without the end of its input: older servers cannot say that.
///
/// # Errors
///
/// What the cluster refuses; `Io` where it takes too long.
pub(super) async fn run(
    cluster: &Cluster,
    found: &Found,
    script: &str,
    arguments: &[&str],
    input: &[u8],
) -> Result<(String, Option<String>)> {
    let mut command = vec!["sh", "-c", script, "sh"];
    command.extend(arguments);
    let ran = tokio::time::timeout(PATIENCE, async {
        let pods = cluster.pods();
        let words = LastWords::default();
        let stream = stream::execute(&pods, found.place(), command, &words).await?;
        let (reader, mut writer) = tokio::io::split(stream);
        let mut written = Vec::new();
        let mut reader = reader.take(MOST);
        let send = async {
            let sent = writer.write_all(input).await;
            match sent {
                Ok(()) => writer.flush().await,
                failed => failed,
            }
        };
        // Where nobody takes the input, what the script has written says why.
        let (_, read) = tokio::join!(send, reader.read_to_end(&mut written));
        read.map_err(|error| Error::new(ErrorKind::Io, "adopt pod", error.to_string()).on(TIER))?;
        Ok((String::from_utf8_lossy(&written).into_owned(), words.text()))
    });
    ran.await.map_err(|_| {
        let context = format!("a script in {found} has not ended within {PATIENCE:?}");
        Error::new(ErrorKind::Io, "adopt pod", context).on(TIER)
    })?
}
