//! Files of the kernel that describe the machine, and not the sandbox.

use crate::probes::prelude::*;

/// Hidden on every tier.
const EVERYWHERE: [&str; 14] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/pagetypeinfo",
    "/proc/sched_debug",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/vmallocinfo",
    "/sys/class/dmi/id/product_serial",
    "/sys/class/dmi/id/product_uuid",
    "/sys/firmware/dmi/tables/DMI",
    "/sys/kernel/debug/sched/debug",
];

/// Containers and pods may see these.
const ON_LOCAL: [&str; 3] = ["/proc/cmdline", "/proc/interrupts", "/proc/key-users"];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let read = |files: &[&str]| Call::new(["readable"].iter().chain(files));
    let all = [&EVERYWHERE[..], &ON_LOCAL].concat();
    context.host_control(&read(&all)).await?;
    let own = read(&["/proc/self/status", "/proc/uptime"]);
    let own = own.expect("/proc/self/status,/proc/uptime");
    context.allow_control(&own).await;
    let hidden = match context.tier() {
        tier if tier.starts_with("local") => &all[..],
        _ => &EVERYWHERE,
    };
    context.attack(&read(hidden)).await;
    context.no_host_effect("the attack only reads");
    Ok(())
}
