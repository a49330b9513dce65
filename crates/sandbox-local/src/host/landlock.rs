//! The Landlock ABI.

/// The ABI that the kernel offers; 0 where it has none or it is switched off at boot.
pub(super) fn abi() -> u32 {
    sandbox_freestanding::landlock::abi().unwrap_or(0)
}
