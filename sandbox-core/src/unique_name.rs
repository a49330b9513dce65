//! Names that no other process uses.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns `prefix` with a random number of this process and a counter. A process id is not enough:
/// processes of several containers may use one engine.
#[must_use]
pub fn unique_name(prefix: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<u64> =
        LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:012x}-{count}", *PROCESS >> 16)
}
