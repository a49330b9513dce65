//! What an engine cannot do and some tests need: measured, and said with the tests' names.

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{RemoveContainerOptions, WaitContainerOptions};
use futures_util::StreamExt;
use sandbox_core::{Capability, CapabilityPolicy};

use crate::suite::engine::{BUSYBOX, api, client};

/// Tests of limits that an engine without control groups does not have. That it then refuses what asks for them is
/// `limits::what_is_not_limited_is_refused`.
const LIMITED: &[&str] = &[
    "hardening::memory_kills_are_told_apart_from_afar",
    "limits::memory_kills_are_told_apart",
    "limits::empty_files_are_bounded",
    "limits::a_fork_bomb_is_stopped",
    "detached::code_that_takes_all_processes_does_not_lock_clients_out",
];

/// Tests of containers with the engine's default network.
const NETWORKED: &[&str] = &[
    "isolation::the_unsafe_tier_is_the_engines_default",
    "detached::the_tier_without_a_policy_has_its_own",
    "adopt::the_gate_stands_before_a_foreign_container",
    "packages::a_registry_is_reached_over_the_network_that_is_named",
];

/// The tests that this engine cannot run, by the beginnings of their names, and why.
pub fn lacking() -> Vec<(&'static str, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (limits, network) =
        runtime.block_on(async { (without_limits().await, no_network().await) });
    let of = |names: &'static [&'static str], reason: Option<String>| {
        let named = move |reason: String| names.iter().map(move |name| (*name, reason.clone()));
        reason.into_iter().flat_map(named)
    };
    of(LIMITED, limits).chain(of(NETWORKED, network)).collect()
}

/// Why nothing can be limited; `None` where it can.
pub async fn without_limits() -> Option<String> {
    let client = client(CapabilityPolicy::new());
    let unenforced = client.unenforced_capabilities().await;
    let unenforced = unenforced.expect("an engine that answers");
    unenforced
        .contains(&Capability::Memory)
        .then(|| "the engine has no control groups to limit by".to_owned())
}

/// Why a container cannot have the engine's default network; `None` where it can.
async fn no_network() -> Option<String> {
    let engine = api();
    let body = ContainerCreateBody {
        image: Some(BUSYBOX.to_owned()),
        cmd: Some(vec!["true".to_owned()]),
        host_config: Some(HostConfig::default()),
        ..ContainerCreateBody::default()
    };
    let container = engine
        .create_container(None, body)
        .await
        .expect("container")
        .id;
    let started = engine.start_container(&container, None).await;
    // Podman refuses to remove a container that ends just then.
    if started.is_ok() {
        let ended = engine
            .wait_container(&container, None::<WaitContainerOptions>)
            .next()
            .await;
        ended.expect("an end").expect("exit code 0");
    }
    let options = RemoveContainerOptions {
        force: true,
        ..RemoveContainerOptions::default()
    };
    let removed = engine.remove_container(&container, Some(options)).await;
    removed.expect("removed");
    let error = started.err()?;
    Some(format!(
        "the engine's default network does not work: {error}"
    ))
}

/// Who on the host is the first user of containers: another than root where the engine gives them users of their own.
pub async fn first_user() -> u32 {
    let info = api().info().await.expect("info");
    let options = info.security_options.unwrap_or_default();
    if !options.iter().any(|option| option == "name=userns") {
        return 0;
    }
    let folder = info.docker_root_dir.expect("the engine's folder");
    let ids = folder.rsplit('/').next().unwrap_or_default();
    let user = ids.split('.').next().unwrap_or_default();
    user.parse().expect("its name ends in their number")
}
