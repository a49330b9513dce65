//! What the removal of leftovers takes, and what it leaves.

use std::time::Duration;

use sandbox_core::SandboxClient;
use sandbox_core::spi::unique_name;
use sandbox_host::process::ProcessId;
use sandbox_host::{DEFAULT_IMAGE, Owner};
use serde_json::{Value, json};

use crate::engine_api::EngineApi;
use crate::probes::prelude::*;

/// Another client may be removing a container at the same time.
const REMOVED: Duration = Duration::from_secs(10);

/// A container with the labels of a sandbox.
struct Left {
    name: String,
    owner: String,
    starts: bool,
    stays: bool,
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let token = context.token().to_owned();
    let tier = context.tier().to_owned();
    // The attached sandbox exists before.
    super::controls(context).await?;
    let program = context.fixture().program();
    let creator = host::spawn(&program, &Call::new(["sleep", &token, "60000"])).await?;
    let living = owner_of(creator.id().unwrap_or_default().cast_signed())?;
    let image = context.client_and_spec().await;
    let image = image.ok().and_then(|(_, spec)| spec.image);
    let image = image.unwrap_or_else(|| DEFAULT_IMAGE.to_owned());
    let deviation = super::in_detached(context, super::LIFETIME, async |sandbox, name, client| {
        let pruned = match EngineApi::of(&tier).await? {
            None => client.prune().await.map(|_| None)?,
            Some(engine) => containers(&engine, client, &image, living).await?,
        };
        match pruned {
            None => super::alive(client, name, sandbox.program()).await,
            left => Ok(left),
        }
    })
    .await?;
    drop(creator);
    let attached = context
        .with_sandbox(async |sandbox| sandbox.run(&Call::new(["alive"])).await)
        .await;
    let deviation = deviation.and_then(|deviation| {
        let ended = match attached? {
            Ok(run) if run.attempt(None).is_success() => None,
            other => Some(format!("an attached sandbox: {other:?}")),
        };
        Ok(deviation.or(ended))
    });
    context.record_attack(behavior("prune", deviation));
    context.no_host_effect("the containers are the engine's");
    Ok(())
}

/// The label of a running process of this host as a creator.
fn owner_of(pid: i32) -> Result<String, ProbeError> {
    let process = ProcessId::of(pid).ok_or_else(|| ProbeError::new("no process is there"))?;
    let own = Owner::current().to_label();
    let fields: Vec<_> = own.splitn(4, ':').collect();
    match fields[..] {
        [user, _, _, era] => Ok(format!("{user}:{}:{}:{era}", process.pid, process.start)),
        _ => Err(ProbeError::new(format!("{own} is no label of an owner"))),
    }
}

/// Containers of a creator that is gone must go, and those of one that runs must stay.
async fn containers(
    engine: &EngineApi,
    client: &SandboxClient,
    image: &str,
    living: String,
) -> Deviation {
    let gone = Owner::ended_for_tests().to_label();
    let left = |owner: &String, starts, stays| Left {
        name: unique_name("conformance-left"),
        owner: owner.clone(),
        starts,
        stays,
    };
    let all = [
        left(&gone, false, false),
        left(&gone, true, false),
        left(&living, false, true),
        left(&living, true, true),
    ];
    let pruned = prune(engine, client, image, &all).await;
    for left in &all {
        engine.remove_container(&left.name).await?;
    }
    pruned
}

async fn prune(engine: &EngineApi, client: &SandboxClient, image: &str, all: &[Left]) -> Deviation {
    for left in all {
        let body = left.body(client.tier(), image);
        engine.create_container(&left.name, &body).await?;
        if left.starts {
            engine.start_container(&left.name).await?;
        }
    }
    client.prune().await?;
    let end = tokio::time::Instant::now() + REMOVED;
    for left in all {
        let what = format!("a container of {}, started: {}", left.owner, left.starts);
        if left.stays {
            if !engine.has_container(&left.name).await? {
                return Ok(Some(format!("{what}: removed")));
            }
            continue;
        }
        while engine.has_container(&left.name).await? {
            if tokio::time::Instant::now() >= end {
                return Ok(Some(format!("{what}: left")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(None)
}

impl Left {
    fn body(&self, tier: &str, image: &str) -> Value {
        json!({
            "Image": image,
            // It ends by itself if the suite is killed.
            "Entrypoint": ["sleep", "60"],
            "Labels": {
                "sandbox.tier": tier,
                "sandbox.name": self.name,
                "sandbox.owner": self.owner,
                "sandbox.token": self.name,
            },
            "HostConfig": {"NetworkMode": "none"},
        })
    }
}
