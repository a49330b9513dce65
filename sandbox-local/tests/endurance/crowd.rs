//! A thousand concurrent sandboxes.

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::{SandboxClient, SandboxHandle};
use sandbox_testing::wait::wait_until;
use tokio::sync::Semaphore;

use crate::census::{Census, MountTable, memory_below, resident};
use crate::harness::{Test, test};
use crate::scaled;

use crate::support::{backend_in, namespaces, policy, sh, spec};
use crate::users::alone;

pub const TESTS: &[Test] = &[test!(sync thousand_concurrent_sandboxes_leave_nothing)];

/// The most memory of a sandbox in bytes: its processes and its part of this process.
const MEMORY: u64 = 5 << 20;

/// The number of concurrent creations. More of them would only wait for each other.
const AT_ONCE: usize = 8;

fn thousand_concurrent_sandboxes_leave_nothing() {
    alone("crowd::thousand_concurrent_sandboxes_leave_nothing", || {
        let state = crate::census::state_folder();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let client = SandboxClient::with_backend(backend_in(state.path()), policy())
            .expect("a valid policy");
        // The first sandbox creates what all share.
        runtime.block_on(async { drop(one(&client, 0).await) });
        settle(state.path());
        let (before, mounts) = (Census::take(state.path()), MountTable::now());
        let resident_before = resident();

        // Without namespaces all processes of the user count. The limit of each sandbox is 256
        // above the number of processes before it.
        let count = if namespaces() { scaled(1000) } else { 50 };
        runtime.block_on(async {
            let crowd = gather(&client, count).await;
            let (processes, bytes) = memory_below();
            let own = resident().saturating_sub(resident_before);
            let each = (bytes + own) / count as u64;
            println!(
                "{count} sandboxes at once: {processes} processes, {} KiB each, {} KiB of them in this process",
                each / 1024,
                own / count as u64 / 1024,
            );
            assert!(processes >= count, "{processes}");
            assert!(each < MEMORY, "{each} bytes");
            recall(crowd).await;
        });
        settle(state.path());
        let mut after = Census::take(state.path());
        // At most the runtime's own descriptors.
        assert!(after.descriptors <= before.descriptors + 8, "{after:?}");
        after.descriptors = before.descriptors;
        assert_eq!(after, before);
        mounts.assert_none_new();
    });
}

fn settle(state: &std::path::Path) {
    wait_until("nothing is left", Duration::from_secs(20), || {
        let census = Census::take(state);
        census.children + census.groups + census.taken_ranges + census.folders == 0
    });
}

async fn one(client: &SandboxClient, number: usize) -> SandboxHandle {
    let sandbox = client.create(&spec()).await.expect("a sandbox");
    // Sandboxes may share /tmp, so each file has its own name.
    let write = sh(&format!(
        "echo {number} > \"$TMPDIR/mine\" 2>/dev/null || echo {number} > /tmp/mine; exit {}",
        number % 200
    ));
    let result = sandbox.exec(&write).await.expect("it runs");
    let code = i32::try_from(number % 200).expect("small");
    assert_eq!(result.exit_code(), Some(code), "{result:?}");
    sandbox
}

async fn gather(client: &SandboxClient, count: usize) -> Vec<(usize, Arc<SandboxHandle>)> {
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let tasks = (0..count).map(|number| {
        let (client, gate) = (client.clone(), Arc::clone(&gate));
        tokio::spawn(async move {
            let _turn = gate.acquire().await.expect("open");
            (number, Arc::new(one(&client, number).await))
        })
    });
    let mut crowd = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        crowd.push(task.await.expect("no panic"));
    }
    crowd
}

/// Asserts that each sandbox finds its own file. Kills half of them and drops the others.
async fn recall(crowd: Vec<(usize, Arc<SandboxHandle>)>) {
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let tasks = crowd.into_iter().map(|(number, sandbox)| {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            let _turn = gate.acquire().await.expect("open");
            let read = sh("cat \"$TMPDIR/mine\" 2>/dev/null || cat /tmp/mine");
            let result = sandbox.exec(&read).await.expect("it runs");
            assert_eq!(result.stdout_text(), format!("{number}\n"), "{result:?}");
            if number % 2 == 0 {
                sandbox.kill().await.expect("it ends");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}
