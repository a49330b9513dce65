//! The Landlock ABI.

/// The ABI that the kernel offers; 0 where it has none, it is switched off at boot, or a filter around this process refuses it. What
/// depends on it is then reported as not enforced by it.
pub(super) fn abi() -> u32 {
    sandbox_freestanding::landlock::abi().unwrap_or(0)
}
