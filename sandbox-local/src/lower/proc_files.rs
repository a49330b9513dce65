//! Files of the sandbox's `/proc` that describe the machine rather than the sandbox.

use std::path::Path;

use sandbox_agent::protocol::Mount;
use sandbox_host::confinement::Mode;

use super::mounts::{bytes, mask};
use crate::host::Host;

/// Hidden in every sandbox: the caller's keys, the boot parameters, the activity of devices.
const MASKS: [&str; 4] = [
    "/proc/cmdline",
    "/proc/interrupts",
    "/proc/key-users",
    "/proc/keys",
];

/// Hidden where code runs as user 0 of the host; the kernel denies them to all other users.
const MASKS_FOR_ROOT: [&str; 10] = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/pagetypeinfo",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/vmallocinfo",
];

/// Kernel settings, some of which any user may open for writing. Container engines make the same
/// ones read-only.
const SETTINGS: [&str; 1] = ["/proc/sys"];

/// Settings that user 0 of the host may write without capabilities; the kernel denies them to all
/// other users.
const SETTINGS_FOR_ROOT: [&str; 4] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger"];

/// Mounts over parts of `/proc`. Each adds about ten microseconds to the start of a sandbox.
pub(super) fn restricted(mode: Mode, host: &Host) -> Vec<Mount> {
    if !host.proc_mount.is_present() {
        return Vec::new();
    }
    let is_root = mode == Mode::Shared && host.user.id == 0;
    let with = |always: &[&'static str], for_root: &[&'static str]| {
        let for_root = if is_root { for_root } else { &[] };
        [always, for_root].concat()
    };
    let settings = with(&SETTINGS, &SETTINGS_FOR_ROOT).into_iter();
    let settings = settings.map(|path| Mount::ReadOnlyPart {
        target: bytes(Path::new(path)),
    });
    let masks = with(&MASKS, &MASKS_FOR_ROOT).into_iter();
    settings
        .chain(masks.map(|path| mask(Path::new(path), None)))
        .collect()
}
