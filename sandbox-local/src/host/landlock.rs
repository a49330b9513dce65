//! The Landlock ABI.

/// The kernel's ABI version. 0 if it has none, if it is disabled at boot, or if a filter around
/// this process refuses it. Everything that depends on it is then reported as not enforced by it.
pub(super) fn abi() -> u32 {
    sandbox_agent::runtime::landlock::abi().unwrap_or(0)
}
