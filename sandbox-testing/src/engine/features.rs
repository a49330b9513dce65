//! Features that some tests need and an engine may lack. They are measured before the tests start.

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{RemoveContainerOptions, WaitContainerOptions};
use futures_util::StreamExt;
use sandbox_core::{Capability, CapabilityPolicy};

use super::TestEngine;
use super::libraries::missing_node;
use super::test_engine::block_on;
use crate::contract::BUSYBOX;
use crate::users::needs_root;

/// Tests of limits, which need control groups. `limits::unenforceable_limits_are_refused` tests
/// that an engine without them refuses limits.
const LIMITED: &[&str] = &[
    "hardening::memory_kills_are_attributed_over_tcp",
    "limits::memory_kills_are_attributed_to_executions",
    "limits::empty_files_are_bounded",
    "detached::code_that_takes_all_processes_does_not_lock_clients_out",
];

/// Tests that need the engine's default network.
const NETWORKED: &[&str] = &[
    "isolation::the_unsafe_tier_is_the_engines_default",
    "detached::the_tier_without_a_policy_supports_it",
    "adopt::admission_checks_a_foreign_container",
    "packages::an_index_is_reached_over_the_configured_network",
];

/// Tests that make an image with Node.js.
const WITH_NODE: &[&str] = &["libraries::"];

/// Tests that compare times with those of the engine's command.
const WITH_COMMAND: &[&str] = &["speed::"];

/// Tests that give folders to other users.
const AS_ROOT: &[&str] = &[
    "folders::a_users_workspace_keeps_its_owner",
    "folders::roots_workspace_keeps_its_owner_without_giving_privileges",
    "folders::folders_of_two_owners_are_refused",
];

/// Tests with the image of all languages, which is large: rootless engines do not get it.
const LARGE: &[&str] = &["languages::", "installers::"];

/// The beginnings of the names of tests that this engine cannot run, each with the reason.
pub fn unsupported_tests(engine: &TestEngine) -> Vec<(&'static str, String)> {
    let (limits, network) = block_on(async {
        (
            unenforceable_limits(engine).await,
            unusable_network(engine).await,
        )
    });
    let mut tests = Vec::new();
    for (names, reason) in [
        (LIMITED, limits),
        (NETWORKED, network),
        (AS_ROOT, needs_root().map(str::to_owned)),
        (
            LARGE,
            needs_root().map(|_| "only engines of root have the image of all languages".to_owned()),
        ),
        (WITH_COMMAND, missing_command(engine)),
        (WITH_NODE, missing_node()),
    ] {
        if let Some(reason) = reason {
            tests.extend(names.iter().map(|name| (*name, reason.clone())));
        }
    }
    tests
}

/// Why the engine's command cannot be used; `None` where it can.
fn missing_command(engine: &TestEngine) -> Option<String> {
    let program = engine.family.command;
    let output = std::process::Command::new(program)
        .arg("--version")
        .output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("{program} --version: {}", output.status)),
        Err(error) => Some(format!("{program}: {error}")),
    }
}

/// Why the engine cannot enforce limits; `None` where it can.
pub async fn unenforceable_limits(engine: &TestEngine) -> Option<String> {
    let client = engine.client(CapabilityPolicy::new());
    let unenforced = client.unenforced_capabilities().await;
    let unenforced = unenforced.expect("an engine that answers");
    unenforced
        .contains(&Capability::Memory)
        .then(|| "the engine has no control groups to limit by".to_owned())
}

/// Why the engine's default network cannot be used; `None` where it can.
async fn unusable_network(engine: &TestEngine) -> Option<String> {
    let api = engine.api();
    let body = ContainerCreateBody {
        image: Some(BUSYBOX.to_owned()),
        cmd: Some(vec!["true".to_owned()]),
        host_config: Some(HostConfig::default()),
        ..ContainerCreateBody::default()
    };
    let container = api
        .create_container(None, body)
        .await
        .expect("container")
        .id;
    let started = api.start_container(&container, None).await;
    // Podman refuses to remove a container that ends just then.
    if started.is_ok() {
        let ended = api
            .wait_container(&container, None::<WaitContainerOptions>)
            .next()
            .await;
        ended.expect("an end").expect("exit code 0");
    }
    let options = RemoveContainerOptions {
        force: true,
        ..RemoveContainerOptions::default()
    };
    let removed = api.remove_container(&container, Some(options)).await;
    removed.expect("removed");
    let error = started.err()?;
    Some(format!(
        "the engine's default network does not work: {error}"
    ))
}

/// The host's user that root is mapped to in containers. With `userns-remap` that is a subordinate
/// user.
pub async fn user_of_root(engine: &TestEngine) -> u32 {
    let info = engine.api().info().await.expect("info");
    let options = info.security_options.unwrap_or_default();
    if !options.iter().any(|option| option == "name=userns") {
        return 0;
    }
    let folder = info.docker_root_dir.expect("the engine's folder");
    let ids = folder.rsplit('/').next().unwrap_or_default();
    let user = ids.split('.').next().unwrap_or_default();
    user.parse().expect("its name ends in their number")
}
