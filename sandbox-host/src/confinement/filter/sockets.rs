//! Address families. An empty network namespace isolates the sandbox from the network. It does not
//! cover virtual machine sockets, kernel services, and the code of families that the kernel loads
//! on demand.

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

/// Default, ICMP, TCP, UDP, ICMPv6, raw. Others load modules on demand (SCTP, DCCP, L2TP, multipath
/// TCP).
const PROTOCOLS: [u64; 6] = [0, 1, 6, 17, 58, 255];

/// The bits of a socket's type without the flags.
const TYPE: u64 = 0xf;
const SOCK_STREAM: u64 = 1;
const SOCK_SEQPACKET: u64 = 5;

/// The allowed families:
///
/// - In separate namespaces: unix, IPv4, IPv6 and netlink routes, whatever the network policy is.
///   Without a network, `connect` fails, as programs expect.
/// - In separate namespaces with folders of the host or storage, without the full network: unix
///   sockets only as connected pairs. A socket in such a folder would lead out of any network namespace, even on
///   a read-only mount.
/// - In separate namespaces with the full network, which is the host's network namespace: that
///   namespace contains the abstract sockets of the host's desktop, session buses and editors. If
///   Landlock can deny these, unix sockets are allowed, otherwise connected pairs only. (A
///   container with the full network has its own namespace.)
/// - In the host's namespaces: IPv4 and IPv6 only with the full network; unix sockets as above.
pub(super) fn rules(plan: &Plan, kernel: &Kernel, isolation: Isolation) -> Vec<Rule> {
    let family = Condition::int(Argument::First);
    let full = matches!(plan.network, NetworkPolicy::Full);
    let unix = match (isolation, full) {
        (Isolation::Host, _) => false,
        (Isolation::Namespaces, true) => kernel.landlock_abi >= SCOPES_ABI,
        (Isolation::Container, true) => true,
        (Isolation::Namespaces | Isolation::Container, false) => !sees_shared_folders(plan),
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

/// The families for a sandbox with its own network namespace.
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

/// Whether code sees folders of the host, or storage that others use, which may contain sockets.
fn sees_shared_folders(plan: &Plan) -> bool {
    let roots = [&plan.read_roots, &plan.write_roots];
    roots.iter().any(|roots| !roots.is_empty())
        || plan.workspace.is_some()
        || !plan.mounts.is_empty()
        || !plan.volumes.is_empty()
}

fn unknown_protocol(family: u64, known: &[u64]) -> Rule {
    Rule::refuse(Syscall::SOCKET, Errno::EPROTONOSUPPORT)
        .when(Condition::int(Argument::First).equals(family))
        .when(Condition::int(Argument::Third).none_of(known.iter().copied()))
}

/// A datagram socket of a pair can still send to any socket's path, such as the host's log. Streams
/// and sequenced packets stay connected to their peer.
fn connected_pairs() -> Rule {
    Rule::refuse(Syscall::SOCKETPAIR, Errno::ESOCKTNOSUPPORT)
        .when(Condition::masked(Argument::Second, TYPE).none_of([SOCK_STREAM, SOCK_SEQPACKET]))
}
