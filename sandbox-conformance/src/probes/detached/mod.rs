//! Sandboxes that outlive their handle.

use sandbox_core::{ErrorKind, SandboxClient, SandboxInfo, Stdin};
use std::path::PathBuf;
use std::time::Duration;

use crate::evidence::Attempt;
use crate::host_cgroups::own_folders;
use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

mod clients;
pub(in crate::probes) mod ends_in_time;
mod failed;
mod limits;
mod links;
mod own_executions;
mod policys_lifetime;
mod pruned;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    // As the end of its process does.
    Probe::behavior(
        "detached::client_is_gone",
        DETACHED,
        "starts a program through a second client whose connections end at once, and looks for it",
        |context| Box::pin(clients::is_gone(context)),
    )
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(clients::LONG))),
    Probe::behavior(
        "detached::ends_in_time",
        DETACHED,
        "creates a detached sandbox with a lifetime of seconds, and looks for leftovers after its \
         end",
        |context| Box::pin(ends_in_time::run(context)),
    )
    .waits()
    .version(3),
    Probe::behavior(
        "detached::failed_creation",
        DETACHED,
        "creates a detached sandbox with a limit that no kernel takes, and then one with its name",
        |context| Box::pin(failed::run(context)),
    ),
    Probe::behavior(
        "detached::file_timeout",
        DETACHED,
        "writes a file from a source that stalls, with a limit of a second for file operations, as \
         the creator and through a second client",
        |context| Box::pin(limits::file_timeout(context)),
    )
    .waits()
    .setup(|_| SandboxSetup::with(|policy| policy.file_timeout = Some(limits::FILE_TIMEOUT))),
    Probe::behavior(
        "detached::found_by_name",
        DETACHED,
        "finds a detached sandbox from a second client by name and in the list, creates another \
         one of its name, and finds none under an unknown name",
        |context| Box::pin(found_by_name(context)),
    )
    .version(3),
    Probe::behavior(
        "detached::links",
        DETACHED,
        "copies files through a link in a write root, as the creator of an attached sandbox and as a \
         second client of a detached one",
        |context| Box::pin(links::run(context)),
    )
    .setup(rooted),
    Probe::behavior(
        "detached::lower_caps",
        DETACHED,
        "writes and sleeps through a second client whose policy keeps less output and allows less \
         time",
        |context| Box::pin(limits::lower_caps(context)),
    )
    .version(2),
    Probe::behavior(
        "detached::outlives_handle",
        DETACHED,
        "drops the handle of a detached sandbox, and runs its program through a second client",
        |context| Box::pin(outlives_handle(context)),
    ),
    // A creator may be killed between creation and start.
    Probe::behavior(
        "detached::pruned",
        DETACHED,
        "prunes as a second client beside running sandboxes, and beside containers of creators \
         that are gone, one of which was never started",
        |context| Box::pin(pruned::run(context)),
    )
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::behavior(
        "detached::policys_lifetime",
        DETACHED,
        "creates sandboxes without a lifetime under a policy with one, and looks for it in the list and \
         in the time limits of executions",
        |context| Box::pin(policys_lifetime::run(context)),
    )
    .setup(policys_lifetime::setup),
    Probe::behavior(
        "detached::own_executions",
        DETACHED,
        "drops a handle whose executions have no input, an open one and a terminal, beside another \
         handle",
        |context| Box::pin(own_executions::run(context)),
    ),
    Probe::behavior(
        "detached::removed",
        DETACHED,
        "removes a detached sandbox while a program runs in it, and looks for leftovers",
        |context| Box::pin(removed(context)),
    )
    .version(3),
    Probe::behavior(
        "detached::same_outcomes",
        DETACHED,
        "ends programs in nine ways through a second client, and compares what it is told with what \
         the owner of a sandbox is told",
        |context| Box::pin(clients::same_outcomes(context)),
    )
    .version(2)
    .waits()
    .setup(|_| SandboxSetup::with(|policy| policy.memory = Some(ByteSize::mib(64)))),
];

/// Such an end removes the sandboxes of a killed suite.
pub(super) const LIFETIME: Duration = Duration::from_secs(60);

/// How much a listed lifetime may differ. Some backends count it from the start of the agent.
const COUNTED: Duration = Duration::from_secs(20);

/// What the list says, if it is not about this lifetime.
fn other_lifetime(info: &SandboxInfo, lifetime: Duration) -> Option<String> {
    let end = info.expires;
    let lives = end.and_then(|end| end.duration_since(info.created).ok());
    let is_right = lives.is_some_and(|lives| lives.abs_diff(lifetime) < COUNTED);
    (!is_right).then(|| format!("its lifetime of {lifetime:?} is listed as {lives:?}"))
}

/// Without a sandbox, a process outlives its starter. A detached sandbox must do that too, and its
/// end must not leave the process.
async fn controls(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let token = format!("{}-control", context.token());
    let orphan = Call::new(["orphan", &token, "2500"]);
    let run = host::run(&context.fixture().program(), &orphan).await?;
    let left = !host::processes_with(&token)?.is_empty();
    host::kill_all_with(&token)?;
    let failure =
        (!left || !run.attempt(None).is_success()).then(|| "nothing was left behind".to_owned());
    context.record_host_control(control("leave a process behind on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    Ok(())
}

/// Calls `act` with a detached sandbox.
async fn with_detached(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(ProbeSandbox, &str, &SandboxClient) -> Result<Option<String>, ProbeError>,
) -> Result<(), ProbeError> {
    controls(context).await?;
    let deviation = in_detached(context, LIFETIME, act).await?;
    context.record_attack(behavior(action, deviation));
    Ok(())
}

/// Creates a detached sandbox, calls `act`, and removes the sandbox in any case.
pub(super) async fn in_detached(
    context: &mut ProbeContext,
    lifetime: impl Into<Option<Duration>>,
    act: impl AsyncFnOnce(ProbeSandbox, &str, &SandboxClient) -> Result<Option<String>, ProbeError>,
) -> Result<Result<Option<String>, Attempt>, ProbeError> {
    let name = sandbox_core::spi::unique_name("conformance-detached");
    let sandbox = match context.keep(&name, lifetime).await {
        Err(declined) => return Ok(Err(declined)),
        Ok(sandbox) => sandbox,
    };
    let client = context.client()?;
    let found = act(sandbox, &name, &client).await;
    remove(&client, &name).await?;
    Ok(Ok(found?))
}

/// Removes a sandbox if it still exists.
async fn remove(client: &SandboxClient, name: &str) -> Result<(), ProbeError> {
    match client.remove(name).await {
        Err(error) if error.kind() != ErrorKind::SandboxNotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Runs the probe program in a sandbox found by name.
async fn alive(
    client: &SandboxClient,
    name: &str,
    program: &str,
) -> Result<Option<String>, ProbeError> {
    let handle = client.get(name).await?;
    let result = handle
        .exec(&sandbox_core::ExecRequest::new(program).arg("alive"))
        .await?;
    let right = result.stdout_text() == "result=ok\n";
    Ok((!right).then(|| format!("{}: {}", result.outcome, result.output())))
}

/// What is left of an ended sandbox after 2 s.
async fn remains(
    client: &SandboxClient,
    name: &str,
    token: &str,
) -> Result<Option<String>, ProbeError> {
    let left = host::wait_until_gone(token, Duration::from_secs(2)).await?;
    host::kill_all_with(token)?;
    if !left.is_empty() {
        return Ok(Some(format!(
            "{} processes of the host are left",
            left.len()
        )));
    }
    match client.get(name).await {
        Err(error) if error.kind() == ErrorKind::SandboxNotFound => {}
        Err(error) => return Ok(Some(error.to_string())),
        Ok(_) => return Ok(Some("it can still be found by name".to_owned())),
    }
    if client.recorded()?.iter().any(|record| record.name == name) {
        return Ok(Some("its record is left".to_owned()));
    }
    let listed = client.list().await?.iter().any(|info| info.name == name);
    Ok(listed.then(|| "it is still listed".to_owned()))
}

/// How long the groups of a removed sandbox may stay. A kubelet removes them after the pod.
const GROUPS_GONE: Duration = Duration::from_secs(20);

/// The control groups that are left.
async fn left_of(groups: &[PathBuf]) -> Option<String> {
    let end = tokio::time::Instant::now() + GROUPS_GONE;
    loop {
        let left = groups.iter().find(|group| group.exists())?;
        if tokio::time::Instant::now() >= end {
            return Some(format!("the control group {} is left", left.display()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Starts a process that runs for half a minute, and waits until the host sees it.
async fn busy(sandbox: &ProbeSandbox, token: &str) -> Result<sandbox_core::Execution, ProbeError> {
    let request = sandbox.request(&Call::new(["sleep", token, "30000"]));
    let execution = sandbox.handle().start(&request, Stdin::Null).await?;
    if host::wait_for_process(token).await?.is_some() {
        return Ok(execution);
    }
    Err(ProbeError::new(
        "the sandbox's process was never seen on the host",
    ))
}

async fn found_by_name(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let second = context.client_and_spec().await;
    with_detached(context, "find it by name", async |sandbox, name, client| {
        let listed = client.list().await?;
        let Some(info) = listed.iter().find(|info| info.name == name) else {
            return Ok(Some("it is not listed".to_owned()));
        };
        if let Some(wrong) = other_lifetime(info, LIFETIME) {
            return Ok(Some(wrong));
        }
        if let Ok((other, spec)) = &second {
            let mut spec = spec.clone().detached(true).lifetime(LIFETIME);
            spec.name = name.to_owned();
            let again = other.create(&spec).await.map(drop);
            if again.as_ref().map_err(sandbox_core::Error::kind) != Err(ErrorKind::AlreadyExists) {
                return Ok(Some(format!("a second one of its name: {again:?}")));
            }
        }
        if let Some(wrong) = alive(client, name, sandbox.program()).await? {
            return Ok(Some(wrong));
        }
        match client.get(&format!("{name}-not")).await {
            Err(error) if error.kind() == ErrorKind::SandboxNotFound => Ok(None),
            Err(error) => Ok(Some(format!("an unknown name: {error}"))),
            Ok(_) => Ok(Some("a name that no sandbox has was found".to_owned())),
        }
    })
    .await?;
    context.no_host_effect("the attack only checks that the sandbox exists");
    Ok(())
}

async fn outlives_handle(context: &mut ProbeContext) -> Result<(), ProbeError> {
    with_detached(context, "drop the handle", async |sandbox, name, client| {
        let (handle, program) = sandbox.into_parts();
        let own = handle.name().to_owned();
        drop(handle);
        if own != name {
            return Ok(Some(format!("it is named {own}")));
        }
        alive(client, name, &program).await
    })
    .await?;
    context.no_host_effect("the attack only checks that the sandbox exists");
    Ok(())
}

async fn removed(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let token = format!("{}-attack", context.token());
    with_detached(context, "remove it", async |sandbox, name, client| {
        let _execution = busy(&sandbox, &token).await?;
        let mut groups = Vec::new();
        for pid in host::processes_with(&token)? {
            groups.extend(own_folders(pid)?);
        }
        client.remove(name).await?;
        if let Some(remains) = remains(client, name, &token).await? {
            return Ok(Some(remains));
        }
        Ok(left_of(&groups).await)
    })
    .await?;
    context.check_host(
        "processes of the host after the sandbox was removed",
        host::processes_with(&token)?.is_empty(),
    );
    Ok(())
}
