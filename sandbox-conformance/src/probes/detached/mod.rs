//! Sandboxes that outlive their handles.

use std::time::Duration;

use sandbox_core::{ErrorKind, SandboxClient, Stdin};

use crate::evidence::Attempt;
use crate::pool::Sandbox;
use crate::probe::Probe;
use crate::probes::prelude::*;

mod ends_in_time;
mod found_by_name;
mod outlives_handle;
mod removed;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    ends_in_time::PROBE,
    found_by_name::PROBE,
    outlives_handle::PROBE,
    removed::PROBE,
];

/// What ends the sandboxes of a suite that was killed.
const LIFETIME: Duration = Duration::from_secs(60);

/// Without any sandbox a process outlives the one that held it: that is what is asked of a detached sandbox, and what its end
/// must not leave.
async fn controls(stage: &mut Stage) -> Result<(), Trouble> {
    let token = format!("{}-control", stage.token());
    let orphan = Call::new(["orphan", &token, "2500"]);
    let run = host::run(&stage.grounds().program(), &orphan).await?;
    let left = !host::processes_with(&token)?.is_empty();
    host::kill_all_with(&token)?;
    let failure =
        (!left || !run.attempt(None).is_success()).then(|| "nothing was left behind".to_owned());
    stage.host_control_was(control("leave a process behind on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    Ok(())
}

/// Acts in a detached sandbox that lives long enough for it.
async fn with_detached(
    stage: &mut Stage,
    action: &str,
    act: impl AsyncFnOnce(Sandbox, &str, &SandboxClient) -> Result<Option<String>, Trouble>,
) -> Result<(), Trouble> {
    controls(stage).await?;
    let told = in_detached(stage, LIFETIME, act).await?;
    stage.attack_was(behavior(action, told));
    Ok(())
}

/// Creates a detached sandbox, hands it over, and removes it in the end, whatever was found.
async fn in_detached(
    stage: &mut Stage,
    lifetime: Duration,
    act: impl AsyncFnOnce(Sandbox, &str, &SandboxClient) -> Result<Option<String>, Trouble>,
) -> Result<Result<Option<String>, Attempt>, Trouble> {
    let name = sandbox_core::unique_name("conformance-detached");
    let sandbox = match stage.keep(&name, lifetime).await {
        Err(declined) => return Ok(Err(declined)),
        Ok(sandbox) => sandbox,
    };
    let client = stage.client()?;
    let found = act(sandbox, &name, &client).await;
    remove(&client, &name).await?;
    Ok(Ok(found?))
}

/// Removes a sandbox, where it is still there.
async fn remove(client: &SandboxClient, name: &str) -> Result<(), Trouble> {
    match client.remove(name).await {
        Err(error) if error.kind() != ErrorKind::SandboxNotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Runs the probe program in a sandbox that was got by name.
async fn alive(
    client: &SandboxClient,
    name: &str,
    program: &str,
) -> Result<Option<String>, Trouble> {
    let handle = client.get(name).await?;
    let result = handle
        .exec(&sandbox_core::ExecRequest::new(program).arg("alive"))
        .await?;
    let right = result.stdout_text() == "result=ok\n";
    Ok((!right).then(|| format!("{}: {}", result.outcome, result.output())))
}

/// What is still there of a sandbox that has ended, 2 s later.
async fn remains(
    client: &SandboxClient,
    name: &str,
    token: &str,
) -> Result<Option<String>, Trouble> {
    let left = host::wait_gone(token, Duration::from_secs(2)).await?;
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
        Ok(_) => return Ok(Some("it is still found by its name".to_owned())),
    }
    let listed = client.list().await?.iter().any(|info| info.name == name);
    Ok(listed.then(|| "it is still listed".to_owned()))
}

/// Starts a process that would live for half a minute, and waits until the host sees it.
async fn busy(sandbox: &Sandbox, token: &str) -> Result<sandbox_core::Execution, Trouble> {
    let request = sandbox.request(&Call::new(["sleep", token, "30000"]));
    let execution = sandbox.handle().start(&request, Stdin::Null).await?;
    for _ in 0..200 {
        if !host::processes_with(token)?.is_empty() {
            return Ok(execution);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(Trouble::new(
        "the sandbox's process was never seen on the host",
    ))
}
