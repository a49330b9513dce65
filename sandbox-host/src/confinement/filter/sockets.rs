//! Address families. An empty network namespace keeps a sandbox off the network; it does not cover sockets of virtual
//! machines, of the kernel's own services, nor the code behind every family that the kernel loads on demand.

use sandbox_core::Plan;
use sandbox_core::policy::NetworkPolicy;

use super::{Isolation, Kernel};
use crate::confinement::landlock::SCOPES_ABI;
use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;

/// Addresses and routes, which programs list to find their interfaces.
const NETLINK_ROUTE: u64 = 0;

/// Whatever fits the type, ICMP, TCP, UDP, ICMPv6, raw. Others load modules on demand (SCTP, DCCP, L2TP, multipath TCP).
const PROTOCOLS: [u64; 6] = [0, 1, 6, 17, 58, 255];

/// The bits of a socket's type beside its flags.
const TYPE: u64 = 0xf;
const SOCK_STREAM: u64 = 1;
const SOCK_SEQPACKET: u64 = 5;

/// The families of a sandbox:
///
/// - In namespaces of its own: unix, IPv4, IPv6 and netlink's routes, whatever the network policy is; without a network it is
///   connecting that fails, as programs expect.
/// - The same with folders of the host in view, and without the whole network: no unix sockets but pairs of connected ones. A
///   socket of the host in such a folder would lead out of every network namespace, on a read-only mount too.
/// - The same with the whole network, which is the host's network namespace: the names of abstract sockets belong to that, and
///   behind them are the host's desktop, session buses and editors. Landlock keeps code away from these where it can; else there
///   are connected pairs only. (A container with the whole network has a namespace of its own.)
/// - In the host's namespaces: IPv4 and IPv6 only where the policy grants the whole network; unix sockets as before.
pub(super) fn rules(plan: &Plan, kernel: &Kernel, isolation: Isolation) -> Vec<Rule> {
    let family = Condition::int(Argument::First);
    let full = matches!(plan.network, NetworkPolicy::Full);
    let unix = match (isolation, full) {
        (Isolation::Host, _) => false,
        (Isolation::Namespaces, true) => kernel.landlock_abi >= SCOPES_ABI,
        (Isolation::Container, true) => true,
        (Isolation::Namespaces | Isolation::Container, false) => !sees_host_folders(plan),
    };
    let mut rules = match (isolation, full) {
        (Isolation::Namespaces | Isolation::Container, _) => return namespaced(unix),
        (Isolation::Host, true) => vec![
            unknown_protocol(AF_INET, &PROTOCOLS),
            unknown_protocol(AF_INET6, &PROTOCOLS),
            no_family(Syscall::SOCKET).when(family.none_of([AF_INET, AF_INET6])),
        ],
        (Isolation::Host, false) => vec![no_family(Syscall::SOCKET)],
    };
    rules.extend(pairs(unix));
    rules
}

/// The families where the network namespace is the sandbox's own.
pub(super) fn namespaced(unix: bool) -> Vec<Rule> {
    let families = [AF_INET, AF_INET6, AF_NETLINK];
    let families = families.into_iter().chain(unix.then_some(AF_UNIX));
    let mut rules = vec![
        unknown_protocol(AF_INET, &PROTOCOLS),
        unknown_protocol(AF_INET6, &PROTOCOLS),
        unknown_protocol(AF_NETLINK, &[NETLINK_ROUTE]),
        no_family(Syscall::SOCKET).when(Condition::int(Argument::First).none_of(families)),
    ];
    rules.extend(pairs(unix));
    rules
}

fn pairs(unix: bool) -> Vec<Rule> {
    let other = Condition::int(Argument::First).differs_from(AF_UNIX);
    let mut rules = vec![no_family(Syscall::SOCKETPAIR).when(other)];
    if !unix {
        rules.push(connected_pairs());
    }
    rules
}

fn no_family(syscall: Syscall) -> Rule {
    Rule::refuse(syscall, Errno::EAFNOSUPPORT)
}

/// Whether the plan shows the code folders of the host, which may hold sockets.
fn sees_host_folders(plan: &Plan) -> bool {
    !plan.read_roots.is_empty() || !plan.write_roots.is_empty() || plan.workspace.is_some()
}

fn unknown_protocol(family: u64, known: &[u64]) -> Rule {
    Rule::refuse(Syscall::SOCKET, Errno::EPROTONOSUPPORT)
        .when(Condition::int(Argument::First).equals(family))
        .when(Condition::int(Argument::Third).none_of(known.iter().copied()))
}

/// A datagram socket of a pair can still be pointed at any socket's path, like the host's log's; streams and packet sequences
/// stay with their peer.
fn connected_pairs() -> Rule {
    Rule::refuse(Syscall::SOCKETPAIR, Errno::ESOCKTNOSUPPORT)
        .when(Condition::masked(Argument::Second, TYPE).none_of([SOCK_STREAM, SOCK_SEQPACKET]))
}
