//! Many cycles of creation, use and end.

use std::time::Duration;

use sandbox_core::SandboxClient;

use crate::census::{Census, Mounts, resident};
use crate::harness::{Test, test};
use crate::scaled;
use crate::support::{backend_in, policy, sh, spec};
use crate::users::alone;

pub const TESTS: &[Test] = &[test!(sync ten_thousand_cycles_do_not_leak)];

/// By how much the memory of this process may grow over all cycles, in bytes: what an allocator
/// keeps, not what sandboxes keep (10,000 of them at 400 bytes would be this much).
const GROWTH: u64 = 4 << 20;

fn ten_thousand_cycles_do_not_leak() {
    alone("cycles::ten_thousand_cycles_do_not_leak", || {
        let state = crate::census::state_folder();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let client = SandboxClient::with_backend(backend_in(state.path()), policy())
            .expect("a valid policy");
        let cycles = scaled(10_000);
        runtime.block_on(cycle(&client, cycles / 20));
        let (before, resident_before) = (Census::take(state.path()), resident());
        let mounts = Mounts::now();
        runtime.block_on(cycle(&client, cycles));
        let (mut after, resident_after) = (Census::take(state.path()), resident());
        println!(
            "{cycles} cycles: resident memory {} -> {} KiB, {after:?}",
            resident_before / 1024,
            resident_after / 1024
        );
        // A closing that the first count has still seen is no growth; a leak of one in a hundred
        // cycles is ten, or a hundred.
        assert!(
            after.descriptors <= before.descriptors + 8,
            "{before:?} -> {after:?}"
        );
        after.descriptors = before.descriptors;
        assert_eq!(after, before);
        mounts.assert_none_new();
        assert!(
            resident_after < resident_before + GROWTH,
            "{resident_before} -> {resident_after} bytes"
        );
    });
}

/// Makes, uses and ends so many, and lets what the last of them still closes be closed.
async fn cycle(client: &SandboxClient, count: usize) {
    for number in 0..count {
        let sandbox = client.create(&spec()).await.expect("a sandbox");
        let result = sandbox.exec(&sh("exit 7")).await.expect("it runs");
        assert_eq!(result.exit_code(), Some(7), "cycle {number}: {result:?}");
        sandbox.kill().await.expect("it ends");
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
}
