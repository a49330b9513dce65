//! Files of the sandbox's `/proc` that are about the machine, and not about the sandbox.

use std::path::Path;

use sandbox_agent::protocol::Mount;
use sandbox_host::confinement::Mode;

use super::mounts::{bytes, mask};
use crate::host::Host;

/// Hidden in every sandbox: the names of the caller's keys, how the machine was started, what its devices do.
const MASKS: [&str; 4] = [
    "/proc/cmdline",
    "/proc/interrupts",
    "/proc/key-users",
    "/proc/keys",
];

/// Hidden where code runs as user 0 of the host; to every other user the kernel denies them.
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

/// Settings of the kernel, some of which every user may open for writing. Container engines make the same ones read-only.
const SETTINGS: [&str; 1] = ["/proc/sys"];

/// The same, which user 0 of the host may write without any capability; every other user the kernel keeps from it.
const SETTINGS_FOR_ROOT: [&str; 4] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger"];

/// Mounts over parts of the `/proc` that was mounted before. Each costs the start of a sandbox some ten microseconds.
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
