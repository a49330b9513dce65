//! A handle whose sandbox has ended.

use std::time::Duration;

use sandbox_core::{ErrorKind, ExecRequest, SandboxHandle, Stdin};
use tokio::net::TcpStream;

use super::stop::Log;
use crate::probes::detached::{LIFETIME, in_detached};
use crate::probes::prelude::*;

/// How long the end may take to be noticed. A kubelet looks about once a second.
const NOTICED: Duration = Duration::from_secs(20);

/// A port inside that nothing listens on.
const PORT: u16 = 18_004;

pub(super) async fn killed(sandbox: &SandboxHandle) -> Deviation {
    ended_by(sandbox, async {
        sandbox.kill().await?;
        // What has ended can be ended again.
        sandbox.kill().await?;
        sandbox.stop().await
    })
    .await
}

pub(super) async fn removed_by_another(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = in_detached(context, LIFETIME, async |sandbox, name, client| {
        let wrong = ended_by(sandbox.handle(), client.remove(name)).await?;
        if wrong.is_some() {
            return Ok(wrong);
        }
        match client.remove(name).await {
            Err(error) if error.kind() == ErrorKind::SandboxNotFound => Ok(None),
            removed => Ok(Some(format!("removed again: {removed:?}"))),
        }
    })
    .await?;
    context.record_attack(behavior("remove it through another client", deviation));
    context.no_host_effect("the sandbox is this probe's own");
    Ok(())
}

/// Ends a sandbox while a program runs, and then uses its handle.
async fn ended_by(
    sandbox: &SandboxHandle,
    end: impl Future<Output = sandbox_core::Result<()>>,
) -> Deviation {
    let sleep = ExecRequest::new("sleep").arg("60");
    let mut execution = sandbox.start(&sleep, Stdin::Piped).await?;
    let forward = match sandbox.forward(PORT).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        opened => Some(opened?),
    };
    let mut log = Log::new(usize::MAX);
    let (noticed, followed, ended) = tokio::join!(
        tokio::time::timeout(NOTICED, sandbox.ended()),
        tokio::time::timeout(NOTICED, sandbox.follow_logs(None, &mut log)),
        end
    );
    ended?;
    if followed.is_err() {
        return Ok(Some("its log has no end".to_owned()));
    }
    match noticed {
        Ok(Ok(reason)) if !reason.is_empty() => {}
        Ok(Err(error)) if error.kind() == ErrorKind::Unsupported => {}
        other => return Ok(Some(format!("its end is told as {other:?}"))),
    }
    match tokio::time::timeout(NOTICED, execution.wait()).await {
        Ok(Err(error)) if error.kind() == ErrorKind::SandboxEnded => {}
        // The program may be killed before its sandbox.
        Ok(Ok(result)) if result.exit_code().is_none() => {}
        other => return Ok(Some(format!("its program ended: {other:?}"))),
    }
    let told = [
        sandbox.exec(&sleep).await.map(drop),
        sandbox.start(&sleep, Stdin::Null).await.map(drop),
        sandbox.stats().await.map(drop),
        sandbox.write("/tmp/file", "x").await,
        sandbox.read("/tmp/file").await.map(drop),
    ];
    let is_told = |told: &sandbox_core::Result<()>| {
        let error = told.as_ref().err();
        error.is_some_and(|error| error.kind() == ErrorKind::SandboxEnded)
    };
    if !told.iter().all(is_told) {
        return Ok(Some(format!("used after its end: {told:?}")));
    }
    let Some(forward) = forward else {
        return Ok(None);
    };
    let connected = TcpStream::connect(forward.address()).await;
    Ok(connected
        .is_ok()
        .then(|| "its port of the host is still open".to_owned()))
}
