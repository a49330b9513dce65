//! Compares the kernel's state inside a pod with the request, before code runs. This only ever
//! downgrades the report.
//!
//! The agent reads the state; no code that could interfere has run yet.

use std::net::{IpAddr, SocketAddr};

use sandbox_core::{Capability, Enforcement, EnforcementReport, Plan};
use sandbox_host::AgentInstance;

use crate::egress;
use crate::lowering::MESSAGE_FILE;
use crate::report::MESSAGE_GAP;

/// Files with the memory limit in bytes, for cgroup v2 and v1.
const MEMORY: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];
/// Files with the processor quota: v2 has quota and period in one file, v1 in two.
const CPUS: [&str; 2] = [
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
];
const PERIOD: &str = "/sys/fs/cgroup/cpu/cpu.cfs_period_us";

/// IPv4 routes, after a header line; the first column is the interface. This is the view of the
/// first process, the agent; links are not followed.
const ROUTES: &str = "/proc/1/net/route";
/// IPv6 routes, without a header; the last column is the interface.
const ROUTES_6: &str = "/proc/1/net/ipv6_route";

/// Sockets that accept connections or packets, after a header line. None should exist before code
/// runs. Even with all interfaces down, loopback works, so a service mesh's agent on the node could
/// listen inside the pod's network.
const SOCKETS: [&str; 4] = [
    "/proc/1/net/tcp",
    "/proc/1/net/tcp6",
    "/proc/1/net/udp",
    "/proc/1/net/udp6",
];

/// Mounts of the pod, as seen by the first process.
const MOUNTS: &str = "/proc/1/mountinfo";

/// The names of name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// What the pod's network should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedNetwork {
    /// The agent leaves it as it is.
    Kept,
    /// Every interface but loopback is down.
    Down,
    /// The same, and the agent listens for connections that rules allow.
    DownWithRules,
}

/// Downgrades what the kernel does not confirm.
pub(crate) async fn downgrade(
    report: &mut EnforcementReport,
    instance: &AgentInstance,
    plan: &Plan,
    network: ExpectedNetwork,
) {
    if network != ExpectedNetwork::Kept {
        let remaining = remaining_network(instance, plan, network).await;
        for capability in [Capability::NetworkAccess, Capability::Egress] {
            check(report, capability, remaining.is_none(), || {
                remaining.clone().unwrap_or_default()
            });
        }
    }
    if network == ExpectedNetwork::DownWithRules {
        let found = read(instance, RESOLV_CONF).await;
        let named = found.as_deref().is_some_and(egress::names_agent);
        check(report, Capability::Egress, named, || {
            format!("the pod's {RESOLV_CONF} does not name the agent alone as its name server")
        });
    }
    let mounts = read(instance, MOUNTS).await;
    let read_only = mounts.as_deref().is_some_and(root_is_read_only);
    for capability in [Capability::FilesystemWriteRoots, Capability::Disk] {
        check(report, capability, read_only, || {
            "the pod's root can be written".to_owned()
        });
    }
    let memory = read_first(instance, &MEMORY).await;
    let asked = plan.memory.as_u64();
    check(
        report,
        Capability::Memory,
        limit(memory.as_deref()).is_some_and(|found| found <= asked),
        || format!("the kernel's limit is {memory:?}, not {asked}"),
    );
    let cpus = milli_cpus(instance).await;
    // A quota is a whole number of microseconds, and runtimes round up to their minimum.
    let asked = u64::from(plan.cpus.as_milli()).max(10) + 1;
    check(
        report,
        Capability::Cpus,
        cpus.is_some_and(|found| found <= asked),
        || format!("the kernel's quota is {cpus:?} thousandths, not {asked}"),
    );
    // The code's user reads it, so it must be closed or missing.
    if !matches!(instance.kernel_file(MESSAGE_FILE).await, Ok(None)) {
        add_gap(report, Capability::Disk, MESSAGE_GAP);
    }
}

/// A remaining way out of the pod, or why that is unknown; `None` if there is none.
async fn remaining_network(
    instance: &AgentInstance,
    plan: &Plan,
    network: ExpectedNetwork,
) -> Option<String> {
    let is_expected =
        |local| network == ExpectedNetwork::DownWithRules && egress::is_of_agent(plan, local);
    let Some(routes) = read(instance, ROUTES).await else {
        return Some(format!("{ROUTES} cannot be read in the pod"));
    };
    let routes_6 = read(instance, ROUTES_6).await;
    // A kernel without IPv6 has no such file.
    if let Some(interface) = route(&routes, routes_6.as_deref().unwrap_or("")) {
        let interface = sandbox_core::spi::escape(interface);
        return Some(format!("the pod has a route over {interface}"));
    }
    for sockets in SOCKETS {
        let table = read(instance, sockets).await;
        let table = table.as_deref();
        if let Some(port) = table.and_then(|table| unexpected_listener(table, is_expected)) {
            let protocol = sockets.rsplit('/').next().unwrap_or(sockets);
            return Some(format!(
                "another process listens in the pod's network ({protocol} port {port}): a mesh's agent on the node, or another container"
            ));
        }
    }
    None
}

/// The first port with a listener that is not expected, from the kernel's table.
fn unexpected_listener(table: &str, is_expected: impl Fn(SocketAddr) -> bool) -> Option<u16> {
    // TCP_LISTEN, and TCP_CLOSE, which the kernel shows for unconnected UDP sockets.
    const STATES: [&str; 2] = ["0A", "07"];
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, state) = (words.next()?, words.next()?, words.next()?);
        STATES.contains(&state).then_some(())?;
        let (address, port) = local.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let expected = address_of(address).is_some_and(|ip| is_expected((ip, port).into()));
        (!expected).then_some(port)
    })
}

/// An address of the kernel's table: groups of 32 bits in the byte order of the processor, which is
/// the same for all supported ones.
fn address_of(text: &str) -> Option<IpAddr> {
    let bytes =
        (0..text.len() / 2).map(|at| u8::from_str_radix(text.get(2 * at..)?.get(..2)?, 16).ok());
    let mut bytes = bytes.collect::<Option<Vec<u8>>>()?;
    bytes.chunks_mut(4).for_each(<[u8]>::reverse);
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The first interface other than loopback that a route uses.
fn route<'a>(routes: &'a str, routes_6: &'a str) -> Option<&'a str> {
    let first = routes
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().next());
    let last = routes_6.lines().map(|line| line.split_whitespace().last());
    first.chain(last).flatten().find(|name| *name != "lo")
}

/// Whether the root is read-only. The last mount on `/` counts.
fn root_is_read_only(table: &str) -> bool {
    let mut mounts = table.lines().rev().filter_map(|line| {
        let mut fields = line.split(' ').skip(4);
        Some((fields.next()?, fields.next()?))
    });
    let root = mounts.find(|(target, _)| *target == "/");
    root.is_some_and(|(_, options)| options.split(',').any(|option| option == "ro"))
}

/// Adds a gap to a reported enforcement.
fn add_gap(report: &mut EnforcementReport, capability: Capability, more: &str) {
    let partial = match report.get(capability).cloned() {
        Some(Enforcement::Partial { mechanisms, gap }) if !gap.contains(more) => {
            Enforcement::partial(mechanisms, format!("{gap}; {more}"))
        }
        Some(entry) => entry.weakened(more),
        None => return,
    };
    report.set(capability, partial);
}

/// Whether a sandbox's agent answers.
pub(crate) async fn agent_answers(instance: &AgentInstance) -> bool {
    // A refusal is an answer, too.
    instance.kernel_file("/proc/uptime").await.is_ok()
}

fn check(
    report: &mut EnforcementReport,
    capability: Capability,
    holds: bool,
    reason: impl FnOnce() -> String,
) {
    let claimed = matches!(
        report.get(capability),
        Some(Enforcement::Enforced { .. } | Enforcement::Partial { .. })
    );
    if claimed && !holds {
        report.set(capability, Enforcement::unenforced(reason()));
    }
}

/// A limit as a number; `None` for `max` and anything else.
fn limit(text: Option<&str>) -> Option<u64> {
    text?.trim().parse().ok()
}

async fn milli_cpus(instance: &AgentInstance) -> Option<u64> {
    if let Some(text) = read(instance, CPUS[0]).await {
        return quota(&text);
    }
    let (used, period) = (
        read(instance, CPUS[1]).await?,
        read(instance, PERIOD).await?,
    );
    quota(&format!("{} {}", used.trim(), period.trim()))
}

/// Quota divided by period, in thousandths of a processor.
fn quota(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok()?;
    (quota * 1000).checked_div(period)
}

async fn read_first(instance: &AgentInstance, paths: &[&str]) -> Option<String> {
    for path in paths {
        if let Some(text) = read(instance, path).await {
            return Some(text);
        }
    }
    None
}

/// The content of a file in the sandbox; `None` if it is missing or cannot be read.
async fn read(instance: &AgentInstance, path: &str) -> Option<String> {
    let content = instance.kernel_file(path).await.ok().flatten()?;
    String::from_utf8(content).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_limits_are_parsed() {
        assert_eq!(limit(Some("536870912\n")), Some(536_870_912));
        assert_eq!(limit(Some("max\n")), None);
        assert_eq!(limit(None), None);
        assert_eq!(quota("50000 100000\n"), Some(500));
        assert_eq!(quota("max 100000"), None);
        assert_eq!(quota("-1 100000"), None);
        assert_eq!(quota("1 0"), None);
    }

    #[test]
    fn routes_of_both_families_are_found() {
        let head = "Iface\tDestination\tGateway\n";
        let lo = "fe80000000000000 40 00 0 00 00000100 00000001 00000000 00000001       lo\n";
        assert_eq!(route(head, lo), None);
        assert_eq!(route("", ""), None);
        let four = format!("{head}eth0\t00000000\t0100F40A\t0003\n");
        assert_eq!(route(&four, lo), Some("eth0"));
        let six = format!("{lo}{}", lo.replace("lo", "net1"));
        assert_eq!(route(head, &six), Some("net1"));
    }

    #[test]
    fn listeners_are_found() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let socket = |state: &str| {
            format!(
                "{head}   0: 0100007F:3ACD 00000000:0000 {state} 00000000:00000000 00:00000000\n"
            )
        };
        let listening = |table: &str| unexpected_listener(table, |_| false);
        assert_eq!(listening(head), None);
        assert_eq!(listening(""), None);
        assert_eq!(listening(&socket("0A")), Some(15053));
        assert_eq!(listening(&socket("07")), Some(15053));
        // Connected and closing sockets.
        assert_eq!(listening(&socket("01")), None);
        assert_eq!(listening(&socket("06")), None);
        let six = "0: 00000000000000000000000001000000:3A99 00000000000000000000000000000000:0000 0A 0:0\n";
        assert_eq!(listening(&format!("{head}{six}")), Some(15001));
        // All expected listeners are passed over, and no others.
        let both = format!("{}{six}", socket("0A"));
        let expects = |expected: &[&str]| {
            let expected: Vec<SocketAddr> = expected
                .iter()
                .map(|local| local.parse().expect("an address"))
                .collect();
            unexpected_listener(&both, |local| expected.contains(&local))
        };
        assert_eq!(expects(&["127.0.0.1:15053", "[::1]:15001"]), None);
        assert_eq!(expects(&["127.0.0.1:15053"]), Some(15001));
        assert_eq!(expects(&["[::1]:15001", "1.0.0.127:15053"]), Some(15053));
    }

    #[test]
    fn addresses_of_the_kernel_are_parsed() {
        assert_eq!(address_of("010012C6"), Some([198, 18, 0, 1].into()));
        let six = "5B0000FD000000000000000001000000";
        assert_eq!(address_of(six), "fd00:5b::1".parse().ok());
        for bad in ["", "0100", "010012G6", "é10012C", "010012C6C6"] {
            assert_eq!(address_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn last_root_mount_counts() {
        let root = |options: &str| format!("600 599 0:77 / / {options} - overlay overlay rw\n");
        let tmp = "601 600 0:78 / /tmp rw,nosuid - tmpfs tmpfs rw\n";
        assert!(root_is_read_only(&(root("ro,relatime") + tmp)));
        assert!(!root_is_read_only(&(root("rw") + tmp)));
        assert!(!root_is_read_only(&(root("ro") + tmp + &root("rw"))));
        assert!(!root_is_read_only(tmp));
    }

    #[test]
    fn gap_is_added_once() {
        let mut report = EnforcementReport::new();
        report.set(Capability::Disk, Enforcement::enforced("a"));
        let text =
            |report: &EnforcementReport| report.get(Capability::Disk).map(ToString::to_string);
        for _ in 0..2 {
            add_gap(&mut report, Capability::Disk, "b");
            assert_eq!(text(&report).as_deref(), Some("partial (a; gap: b)"));
        }
        add_gap(&mut report, Capability::Disk, "c");
        assert_eq!(text(&report).as_deref(), Some("partial (a; gap: b; c)"));
        report.set(Capability::Disk, Enforcement::unenforced("d"));
        add_gap(&mut report, Capability::Disk, "c");
        assert_eq!(text(&report).as_deref(), Some("not enforced (d)"));
    }

    #[test]
    fn report_is_only_downgraded() {
        let mut report = EnforcementReport::new();
        report.set(Capability::Memory, Enforcement::enforced("a"));
        report.set(Capability::Cpus, Enforcement::unenforced("b"));
        for capability in [Capability::Memory, Capability::Cpus] {
            check(&mut report, capability, true, String::new);
        }
        assert!(
            report
                .get(Capability::Memory)
                .is_some_and(Enforcement::is_enforced)
        );
        for capability in [Capability::Memory, Capability::Cpus, Capability::Disk] {
            check(&mut report, capability, false, || "c".to_owned());
        }
        let text = |capability| report.get(capability).map(ToString::to_string);
        assert_eq!(
            text(Capability::Memory).as_deref(),
            Some("not enforced (c)")
        );
        assert_eq!(text(Capability::Cpus).as_deref(), Some("not enforced (b)"));
        assert_eq!(text(Capability::Disk), None);
    }
}
