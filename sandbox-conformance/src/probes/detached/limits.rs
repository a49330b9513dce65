//! The limits of executions and file operations of a later client.

use std::time::{Duration, Instant};

use sandbox_core::{CapabilityPolicy, SandboxHandle, Stdin};

use super::{LIFETIME, in_detached};
use crate::probes::prelude::*;

/// The bytes that the later client's policy lets each execution keep, and its time limit.
const CAPS: [u64; 2] = [1000, 2000];
const LIMIT: Duration = Duration::from_secs(1);

pub(super) async fn lower_caps(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::controls(context).await?;
    let policy = CapabilityPolicy::new()
        .stdout_max_bytes(ByteSize::bytes(CAPS[0]))
        .stderr_max_bytes(ByteSize::bytes(CAPS[1]))
        .timeout(LIMIT);
    let later = context.client_under(policy)?;
    let deviation = in_detached(context, LIFETIME, async |sandbox, name, _| {
        let handle = later.get(name).await?;
        let emit = sandbox.request(&Call::new(["emit", "3000", "3000"]));
        let emitted = handle.exec(&emit).await?;
        let waited = handle.start(&emit, Stdin::Null).await?.wait().await?;
        let sleep = sandbox.request(&Call::new(["sleep", "", "9000"]));
        let mut started = handle.start(&sleep, Stdin::Piped).await?;
        let (slept, ended) = tokio::join!(handle.exec(&sleep), started.wait());
        let (slept, ended) = (slept?, ended?);
        let own = sandbox.handle().exec(&emit).await?;
        let lengths = |result: &sandbox_core::ExecResult| {
            [&result.stdout, &result.stderr].map(|stream| stream.bytes.len() as u64)
        };
        let is_right = lengths(&emitted) == CAPS
            && lengths(&waited) == CAPS
            && [&slept, &ended]
                .iter()
                .all(|result| result.outcome == Outcome::TimedOut)
            && lengths(&own).iter().all(|length| *length >= 3000);
        Ok((!is_right).then(|| {
            let (later, own) = (lengths(&emitted), lengths(&own));
            format!(
                "{later:?} bytes, {own:?} for its creator, {}, {}",
                slept.outcome, ended.outcome
            )
        }))
    })
    .await?;
    context.record_attack(behavior("execute under a stricter policy", deviation));
    context.no_host_effect("the limits are the client's own");
    Ok(())
}

/// How long a file operation without an end may take, and when it must have ended.
pub(super) const FILE_TIMEOUT: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(8);

pub(super) async fn file_timeout(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::controls(context).await?;
    let path = context.inside("never");
    let attached = context
        .with_sandbox(async |sandbox| stalled(sandbox.handle(), &path).await)
        .await;
    let deviation = match attached {
        Ok(None) => {
            in_detached(context, LIFETIME, async |_, name, client| {
                let stalled = stalled(&client.get(name).await?, &path).await;
                Ok(stalled.map(|wrong| format!("detached: {wrong}")))
            })
            .await?
        }
        other => other,
    };
    context.record_attack(behavior("write from a source that stalls", deviation));
    context.no_host_effect("the file is the sandbox's own");
    Ok(())
}

/// Writes a file from a source that sends nothing.
async fn stalled(sandbox: &SandboxHandle, path: &str) -> Option<String> {
    let (source, _sender) = tokio::io::duplex(64);
    let start = Instant::now();
    let upload = sandbox.upload(path, 0o644, source);
    let ended = tokio::time::timeout(FILE_TIMEOUT + LATE, upload).await;
    let took = start.elapsed();
    match ended {
        Ok(Err(_)) if took >= FILE_TIMEOUT => None,
        Ok(other) => Some(format!("{other:?} after {took:?}")),
        Err(_) => Some(format!("no answer after {took:?}")),
    }
}
