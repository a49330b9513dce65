//! Procedures that many probes share.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, MountSource, SandboxClient, SandboxHandle, SandboxSpec};

use crate::context::ProbeContext;
use crate::evidence::{Attempt, Step};
use crate::host_fixture::HostFixture;
use crate::listeners::Listener;
use crate::pool::{BUILD_LIMIT, MOUNTED, PAUSE, ProbeSandbox, UNSCHEDULABLE};
use crate::probe::{ProbeError, ProbeFuture, SandboxSetup};
use crate::program::Call;

/// The default setup.
#[must_use]
pub fn plain(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::default()
}

/// A setup with the read root and the write root.
#[must_use]
pub fn rooted(fixture: &HostFixture) -> SandboxSetup {
    fixture.rooted()
}

/// A setup with the read root and the write root, if the backend takes host folders.
#[must_use]
pub fn rooted_if_supported(fixture: &HostFixture) -> SandboxSetup {
    fixture.rooted().roots_if_supported()
}

/// A setup whose specification mounts the read root; see [`crate::pool::MOUNTED`].
#[must_use]
pub fn mounting(fixture: &HostFixture) -> SandboxSetup {
    let source = MountSource::read_only(fixture.read_root());
    SandboxSetup::with(|policy| policy.mount_sources = Some(vec![source]))
}

/// Where the sandbox shows a folder that its specification mounts. A backend without isolation shows
/// the folder itself.
pub async fn mounted(sandbox: &ProbeSandbox, source: &Path) -> PathBuf {
    match sandbox.handle().exists(MOUNTED).await {
        Ok(true) => MOUNTED.into(),
        _ => source.to_owned(),
    }
}

/// Runs a call that reaches a host listener without a sandbox, and must not reach it from the
/// attacked one.
pub async fn reach(
    context: &mut ProbeContext,
    listener: &Listener,
    call: Call,
    permitted: Call,
) -> Result<(), ProbeError> {
    context.host_control(&call).await?;
    let before = listener.hits();
    context.allow_control(&permitted).await;
    context.attack(&call).await;
    context.check_host("messages at the host's listener", listener.hits() == before);
    Ok(())
}

/// As [`reach`], for a network address. On a cluster, a pod with network access must reach this
/// host, or the probe proves nothing. A time-out is tried again, because stale neighbor entries
/// make an address unreachable after a bridge or a pod has changed.
pub async fn reach_address(
    context: &mut ProbeContext,
    listener: &Listener,
    call: Call,
    permitted: Call,
) -> Result<(), ProbeError> {
    reach(context, listener, call.clone(), permitted).await?;
    for _ in 0..AGAIN {
        if !context.is_cluster() || !context.attack_ended_by("ETIMEDOUT") {
            break;
        }
        tokio::time::sleep(FORGOTTEN).await;
        context.attack(&call).await;
    }
    context.reachable_with_network(&call).await
}

/// The number of retries after a time-out, and the pause before each. Together they are longer than
/// a kernel keeps a stale neighbor entry.
const AGAIN: u32 = 6;
const FORGOTTEN: Duration = Duration::from_secs(5);

/// Runs `call` on the host and as the attack, and `permitted` as the allow control.
///
/// The call changes nothing on the host.
pub fn same_call(context: &mut ProbeContext, permitted: Call, call: Call) -> ProbeFuture<'_> {
    let reason = "the call leaves no trace on the host";
    Box::pin(controlled(context, permitted, call, reason))
}

/// As [`same_call`], for code that only has to run as the allow control.
pub fn kernel_call(context: &mut ProbeContext, call: Call) -> ProbeFuture<'_> {
    same_call(context, Call::new(["alive"]), call)
}

/// Tests a limit: `within` fits into it, `beyond` does not, and the sandbox still works afterwards.
/// On the host, `beyond` succeeds.
pub fn limit(context: &mut ProbeContext, within: Call, beyond: Call) -> ProbeFuture<'_> {
    Box::pin(async {
        controlled(context, within, beyond, "the limit is the sandbox's own").await?;
        context.attack_leaves_a_sandbox().await;
        Ok(())
    })
}

async fn controlled(
    context: &mut ProbeContext,
    permitted: Call,
    attack: Call,
    no_host_effect: &str,
) -> Result<(), ProbeError> {
    context.host_control(&attack).await?;
    context.allow_control(&permitted).await;
    context.attack(&attack).await;
    context.no_host_effect(no_host_effect);
    Ok(())
}

/// The step of a tested behavior. `deviation` says what was wrong; `None` means as documented.
#[must_use]
pub fn behavior(action: &str, deviation: Result<Option<String>, Attempt>) -> Step {
    let attempt = match deviation {
        Ok(None) => Attempt::blocked(["held"]),
        Ok(Some(value)) => Attempt::Succeeded { value },
        Err(attempt) => attempt,
    };
    Step::new(action, attempt)
}

/// What a feature did otherwise than documented.
pub type Deviation = sandbox_core::Result<Option<String>>;

/// Tests a behavior of a feature that a backend may lack, after the host control.
pub async fn feature(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(&ProbeSandbox) -> Deviation,
) {
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context.with_sandbox(act).await;
    let deviation = if_offered(context, deviation);
    context.record_attack(behavior(action, deviation));
}

/// A [`feature`] that needs only the sandbox's handle, and does not affect the host.
pub async fn plain_feature(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(&SandboxHandle) -> Deviation,
) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, action, async |sandbox| act(sandbox.handle()).await).await;
    context.no_host_effect("the attack is on the sandbox alone");
    Ok(())
}

/// A feature of a client, which makes sandboxes with the attacked sandbox's policy and specification,
/// and removes them.
pub async fn client_feature(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(SandboxClient, SandboxSpec) -> Deviation,
) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let acted = match context.client_and_spec().await {
        Ok((client, spec)) => Ok(act(client, spec).await),
        Err(declined) => Err(declined),
    };
    let deviation = if_offered(context, acted);
    context.record_attack(behavior(action, deviation));
    context.no_host_effect("the attack is on the client's own sandboxes");
    Ok(())
}

/// Whether a pod fits on no node, before the deadline. Then waits: pods of other probes end.
pub async fn fits_later<T: Sync>(made: &sandbox_core::Result<T>, deadline: Instant) -> bool {
    let is_full = |error: &sandbox_core::Error| error.to_string().contains(UNSCHEDULABLE);
    let may_fit = made.as_ref().is_err_and(is_full) && Instant::now() < deadline;
    if may_fit {
        tokio::time::sleep(PAUSE).await;
    }
    may_fit
}

/// When a pod must have fitted.
pub fn fits_until() -> Instant {
    Instant::now() + BUILD_LIMIT
}

/// As [`flat`], but what the backend does not offer has not failed: it gives the default.
pub fn if_offered<T: Default>(
    context: &mut ProbeContext,
    result: Result<sandbox_core::Result<T>, Attempt>,
) -> Result<T, Attempt> {
    match result {
        Ok(Err(error)) if error.kind() == ErrorKind::Unsupported => {
            context.not_offered(error.to_string());
            Ok(T::default())
        }
        other => flat(other),
    }
}

/// A failed execution is unclear.
pub fn flat<T>(result: Result<sandbox_core::Result<T>, Attempt>) -> Result<T, Attempt> {
    result?.map_err(|error| Attempt::unclear(error.to_string()))
}

/// The step of a control. `failure` says what was wrong.
#[must_use]
pub fn control(action: &str, failure: Option<String>) -> Step {
    Step::new(
        action,
        match failure {
            None => Attempt::succeeded(),
            Some(detail) => Attempt::unclear(detail),
        },
    )
}

/// Finds a file with this name below the folder.
#[must_use]
pub fn found_below(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        if entry.file_name() == name {
            return Some(entry.path());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(found) = found_below(&entry.path(), name)
        {
            return Some(found);
        }
    }
    None
}

/// The time after which a remaining process or file counts as left behind.
pub const GONE: Duration = Duration::from_millis(500);
