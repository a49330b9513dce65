//! What `prune` removes, and what it leaves.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, VolumeCreateRequest};
use bollard::query_parameters::CreateContainerOptions;
use libtest_mimic::Failed;
use sandbox_core::ExecRequest;

use super::Test;
use super::engine::{Engine, IMAGE, client_of, run, spec};
use crate::family::TIER;

pub const TESTS: &[Test] = &[("prune::what_is_not_ours_and_what_is_used_stays", prune)];

fn prune() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start().await;
        let (client, api) = (engine.client(), engine.api());
        let volume = |name: &str| VolumeCreateRequest {
            name: Some(name.to_owned()),
            ..VolumeCreateRequest::default()
        };
        // Of an agent of another build, of an agent that is in use, and of somebody.
        let old = "sandbox-agent-0123456789abcdef";
        for name in [old, "somebodys", "sandbox-agent-mine"] {
            api.create_volume(volume(name)).await.expect("made");
        }
        let other = [sandbox_agent::program(), b"another build"].concat();
        let in_use = client_of(engine.config().agent(other))
            .create(&spec())
            .await?;
        let body = |labels: &[(&str, &str)]| ContainerCreateBody {
            image: Some(IMAGE.into()),
            labels: Some(
                labels
                    .iter()
                    .map(|(name, value)| ((*name).into(), (*value).into()))
                    .collect::<HashMap<_, _>>(),
            ),
            ..ContainerCreateBody::default()
        };
        let named = |name: &str| CreateContainerOptions {
            name: Some(name.to_owned()),
            ..CreateContainerOptions::default()
        };
        let make = async |name: &str, labels: &[(&str, &str)]| {
            api.create_container(Some(named(name)), body(labels))
                .await
                .expect("made")
                .id
        };
        let attached = client.create(&spec()).await?;
        let kept = spec().detached(true).lifetime(Duration::from_secs(120));
        drop(client.create(&kept).await?);

        make("foreign", &[]).await;
        // Of an owner of whom nothing can be known: it may be about to start it.
        make(
            "young",
            &[
                ("sandbox.tier", TIER),
                ("sandbox.owner", "0:1:2:another-start:3"),
            ],
        )
        .await;
        // Of one that has ended.
        let gone = sandbox_host::process::Era::current().encode();
        let gone = format!("{}:1:1:{gone}", sandbox_host::state::user());
        make(
            "dead",
            &[
                ("sandbox.tier", TIER),
                ("sandbox.owner", &gone),
                ("sandbox.name", "left"),
            ],
        )
        .await;

        assert_eq!(client.prune().await?, ["left"]);
        let mut left = engine
            .containers()
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>();
        left.sort();
        let mut wanted = ["foreign", "young"].map(|name| format!("/{name}")).to_vec();
        wanted.extend([&in_use, &attached].map(|sandbox| format!("/sandbox-{}", sandbox.name())));
        wanted.push(format!("/sandbox-{}", kept.name));
        wanted.sort();
        assert_eq!(left, wanted);
        let volumes = engine.volumes();
        assert!(!volumes.contains(&old.to_owned()), "{volumes:?}");
        assert_eq!(
            volumes.len(),
            4,
            "two of agents, two that are not ours: {volumes:?}"
        );
        for sandbox in [&in_use, &attached, &client.get(&kept.name).await?] {
            assert!(sandbox.exec(&ExecRequest::new("true")).await?.ok());
            sandbox.kill().await?;
        }
        assert!(engine.client().prune().await?.is_empty());
        assert_eq!(engine.volumes().len(), 3);
        Ok(())
    })
}
