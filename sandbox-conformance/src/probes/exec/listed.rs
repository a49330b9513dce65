//! What another client is told about an attached sandbox.

use sandbox_core::{Error, ErrorKind, ExecRequest, SandboxClient, SandboxSpec};

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
            // They need not be valid labels of a cluster.
            spec.labels
                .insert("a name".into(), "\u{e4}, \"b\" = {c}".into());
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
    let found = other.get(&spec.name).await.map(drop);
    let removed = other.remove(&spec.name).await;
    let own = client.get(&spec.name).await;
    let own = match own {
        Ok(own) => own.exec(&ExecRequest::shell("exit 7")).await,
        Err(error) => Err(error),
    };
    let in_lists = [client.list().await, other.list().await];
    sandbox.kill().await?;
    let ended = client.get(&spec.name).await.map(drop);
    let after = other.list_all().await?;
    let listed = listed?;
    let is_it = |info: &&sandbox_core::SandboxInfo| info.name == spec.name;
    let Some(info) = listed.iter().find(is_it) else {
        return Ok(Some("it is not listed".to_owned()));
    };
    if info.labels != spec.labels || info.owner.is_none() {
        return Ok(Some(format!("{info:?}")));
    }
    let attached = Err(ErrorKind::SandboxAttached);
    for (what, answer) in [("got", found), ("removed", removed)] {
        if answer.as_ref().map_err(Error::kind).copied() != attached {
            return Ok(Some(format!("another client {what} it: {answer:?}")));
        }
    }
    let own = own?.outcome;
    if own != (Outcome::Exited { code: 7 }) {
        return Ok(Some(format!("found by its own client: {own}")));
    }
    // The list of a client has no attached sandboxes of others. A tier may have no others.
    for (list, is_own) in in_lists.into_iter().zip([true, false]) {
        let is_listed = list.map(|list| list.iter().any(|info| is_it(&info)));
        if is_listed
            .as_ref()
            .is_ok_and(|is_listed| *is_listed != is_own)
        {
            return Ok(Some(format!("a list, of its own client: {is_own}")));
        }
    }
    if ended.is_ok() {
        return Ok(Some("its own client finds it after its end".to_owned()));
    }
    Ok(after
        .iter()
        .any(|info| is_it(&info))
        .then(|| "it is listed after its end".to_owned()))
}
