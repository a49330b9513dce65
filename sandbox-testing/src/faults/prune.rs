//! What `prune` removes and what it leaves.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, VolumeCreateRequest};
use bollard::query_parameters::CreateContainerOptions;
use sandbox_core::ExecRequest;

use super::private_engine::{IMAGE, PrivateEngine, run, spec};
use super::{EngineLauncher, FaultTest};
use crate::contract::TestResult;

pub const TESTS: &[FaultTest] = &[("prune::foreign_and_used_objects_are_kept", prune)];

fn prune(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start(launcher).await;
        let (client, api) = (engine.client(), engine.api());
        let volume = |name: &str| VolumeCreateRequest {
            name: Some(name.to_owned()),
            ..VolumeCreateRequest::default()
        };
        // Volumes of an agent of another build, and of other users of the engine.
        let old = "sandbox-agent-0123456789abcdef";
        for name in [old, "unrelated", "sandbox-agent-mine"] {
            api.create_volume(volume(name)).await.expect("made");
        }
        let other_agent = [sandbox_agent::program(), b"another build"].concat();
        let in_use = engine
            .client_with(engine.config().agent(other_agent))
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
        let detached = spec().detached(true).lifetime(Duration::from_secs(120));
        drop(client.create(&detached).await?);

        make("foreign", &[]).await;
        // Of an owner in another process namespace, which may be about to start it.
        make(
            "young",
            &[
                ("sandbox.tier", launcher.tier()),
                ("sandbox.owner", "0:1:2:another-start:3"),
            ],
        )
        .await;
        // Of an owner that has ended.
        let ended = sandbox_host::process::Era::current().encode();
        let ended = format!("{}:1:1:{ended}", sandbox_host::state::user());
        make(
            "dead",
            &[
                ("sandbox.tier", launcher.tier()),
                ("sandbox.owner", &ended),
                ("sandbox.name", "left"),
            ],
        )
        .await;

        assert_eq!(client.prune().await?, ["left"]);
        let mut remaining = engine
            .containers()
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>();
        remaining.sort();
        let mut expected = ["foreign", "young"].map(|name| format!("/{name}")).to_vec();
        expected.extend([&in_use, &attached].map(|sandbox| format!("/sandbox-{}", sandbox.name())));
        expected.push(format!("/sandbox-{}", detached.name));
        expected.sort();
        assert_eq!(remaining, expected);
        let volumes = engine.volumes();
        assert!(!volumes.contains(&old.to_owned()), "{volumes:?}");
        assert_eq!(
            volumes.len(),
            4,
            "two of agents, two of other users: {volumes:?}"
        );
        for sandbox in [&in_use, &attached, &client.get(&detached.name).await?] {
            assert!(sandbox.exec(&ExecRequest::new("true")).await?.success());
            sandbox.kill().await?;
        }
        assert!(engine.client().prune().await?.is_empty());
        assert_eq!(engine.volumes().len(), 3);
        Ok(())
    })
}
