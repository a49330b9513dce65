//! Many cycles of creation, use and end.

use std::time::Duration;

use sandbox_core::SandboxClient;

use crate::census::{Census, MountTable, resident};
use crate::harness::{Test, test};
use crate::scaled;
use crate::support::{backend_in, policy, sh, spec};
use crate::users::alone;

pub const TESTS: &[Test] = &[test!(sync ten_thousand_cycles_do_not_leak)];

/// The most bytes by which the memory of this process may grow over all cycles. An allocator keeps
/// less, and a leak of 400 bytes in each of 10,000 sandboxes is more.
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
        let mounts = MountTable::now();
        runtime.block_on(cycle(&client, cycles));
        let (mut after, resident_after) = (Census::take(state.path()), resident());
        println!(
            "{cycles} cycles: resident memory {} -> {} KiB, {after:?}",
            resident_before / 1024,
            resident_after / 1024
        );
        // The first count may include a descriptor that is being closed. A leak in one of a hundred
        // cycles adds ten or more.
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

/// Runs this number of cycles, and waits until the last sandbox has closed its descriptors.
async fn cycle(client: &SandboxClient, count: usize) {
    for number in 0..count {
        let sandbox = client.create(&spec()).await.expect("a sandbox");
        let result = sandbox.exec(&sh("exit 7")).await.expect("it runs");
        assert_eq!(result.exit_code(), Some(7), "cycle {number}: {result:?}");
        sandbox.kill().await.expect("it ends");
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
}
