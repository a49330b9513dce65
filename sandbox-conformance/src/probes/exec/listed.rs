//! What another client is told about an attached sandbox.

use sandbox_core::{SandboxClient, SandboxSpec};

use crate::probes::prelude::*;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let other = context.client()?;
    let label = context.token().to_owned();
    let listed = match context.client_and_spec().await {
        Ok((client, mut spec)) => {
            spec.name = sandbox_core::spi::unique_name("conformance-listed");
            spec.labels.insert("probe".into(), label);
            Ok(compare(&client, &spec, &other).await)
        }
        Err(declined) => Err(declined),
    };
    let deviation = if_offered(context, listed);
    context.record_attack(behavior("list it from another client", deviation));
    context.no_host_effect("the list changes nothing");
    Ok(())
}

async fn compare(client: &SandboxClient, spec: &SandboxSpec, other: &SandboxClient) -> Deviation {
    let sandbox = client.create(spec).await?;
    let listed = other.list_all().await;
    let found = other.get(&spec.name).await;
    sandbox.kill().await?;
    let after = other.list_all().await?;
    let listed = listed?;
    let is_it = |info: &&sandbox_core::SandboxInfo| info.name == spec.name;
    let Some(info) = listed.iter().find(is_it) else {
        return Ok(Some("it is not listed".to_owned()));
    };
    if info.labels != spec.labels || info.owner.is_none() {
        return Ok(Some(format!("{info:?}")));
    }
    if found.is_ok() {
        return Ok(Some("another client got a handle".to_owned()));
    }
    Ok(after
        .iter()
        .any(|info| is_it(&info))
        .then(|| "it is listed after its end".to_owned()))
}
