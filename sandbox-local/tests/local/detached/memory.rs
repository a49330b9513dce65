//! The memory of detached sandboxes and of their supervisors.

use sandbox_core::Capability;

use super::*;
use crate::harness::{Need, Test, test};

pub const TESTS: &[Test] = &[
    test!(async supervisor_uses_less_than_one_mib),
    test!(async supervisor_samples_memory_without_cgroups),
    test!(async memory_kills_are_reported_to_the_client_that_ran_them, Need::Enforced(Capability::Memory)),
];

async fn supervisor_uses_less_than_one_mib() {
    let state = state();
    let name = unique("small");
    let client = client(state.path(), policy());
    let sandbox = client.create(&spec(&name)).await.expect("created");
    let supervisor = parts(state.path(), &name).supervisor;
    let status = std::fs::read_to_string(format!("/proc/{}/status", supervisor.as_raw_nonzero()));
    let status = status.expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(kib.is_some_and(|kib| kib < 1024), "{status}");
    sandbox.kill().await.expect("ended");
}

async fn supervisor_samples_memory_without_cgroups() {
    let state = state();
    let name = unique("sampled");
    let config = LocalConfig::new()
        .state_folder(state.path())
        .without_cgroups();
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    let client = client_of(config, policy);
    drop(client.create(&spec(&name)).await.expect("created"));
    let sandbox = client.get(&name).await.expect("found");
    // Two processes, because a limit of a single process must not be what ends them.
    let hog = "python3 -c 'import time; a = bytearray(48 << 20); time.sleep(3)'";
    let both = format!("{hog} & first=$!; {hog}; echo $?; wait $first; echo $?");
    let result = sandbox.exec(&sh(&both)).await.expect("it runs");
    let codes = result.stdout_text();
    assert!(codes.lines().any(|code| code == "137"), "{result:?}");
    let kills = state
        .path()
        .join("sandboxes")
        .join(&name)
        .join("memory_kills");
    let kills = std::fs::read_to_string(kills).expect("a process was killed");
    assert!(
        kills.trim().parse::<u64>().is_ok_and(|kills| kills >= 1),
        "{kills:?}"
    );
    let alone = sandbox
        .exec(&sh(&format!("exec {}", hog.replace("48", "80"))))
        .await;
    let alone = alone.expect("it runs");
    let bounded = matches!(
        alone.outcome,
        Outcome::OutOfMemory | Outcome::Exited { code: 1 }
    );
    assert!(bounded, "{alone:?}");
    sandbox.kill().await.expect("ended");
}

async fn memory_kills_are_reported_to_the_client_that_ran_them() {
    let state = state();
    let name = unique("memory");
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    let client = client(state.path(), policy);
    drop(client.create(&spec(&name)).await.expect("created"));
    let hog = "exec python3 -c 'a = [bytearray(1 << 20) for _ in range(300)]'";
    let first = client.get(&name).await.expect("found");
    let result = first.exec(&sh(hog)).await.expect("it runs");
    assert_eq!(result.outcome, Outcome::OutOfMemory);
    // A later client does not report kills before it connected.
    let second = client.get(&name).await.expect("found");
    let result = second.exec(&sh("kill -9 $$")).await.expect("it runs");
    assert_eq!(result.outcome, Outcome::Signaled { signal: 9 });
    let result = second.exec(&sh(hog)).await.expect("it runs");
    assert_eq!(result.outcome, Outcome::OutOfMemory);
    // A client does not report kills in another client's executions.
    let result = first.exec(&sh("kill -9 $$")).await.expect("it runs");
    assert_eq!(result.outcome, Outcome::Signaled { signal: 9 });
    client.remove(&name).await.expect("ended");
}
