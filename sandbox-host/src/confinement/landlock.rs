//! The host's half of Landlock: compiles a plan to the rules of an execution's domain. The agent
//! applies them.
//!
//! Landlock restricts opening, creating, renaming and removing files, but not `stat`, `chmod`,
//! `chown` and extended attributes. So a minimal root or an image is the first layer and Landlock
//! the second. In the host's namespaces it is the only one.

pub use sandbox_agent::protocol::landlock::{handled_fs, handled_net};
use sandbox_agent::protocol::{LandlockPath, LandlockRules};
use sandbox_core::Plan;
use sandbox_core::policy::NetworkPolicy;

use super::{Isolation, Kernel, Paths, Profile};

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
/// Since ABI 3.
const TRUNCATE: u64 = 1 << 14;
/// `ioctl` of device files, since ABI 5.
const IOCTL_DEV: u64 = 1 << 15;
/// The first ABI with scopes.
pub(super) const SCOPES_ABI: u32 = 6;

const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1 << 0;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// The rights that a rule for a path other than a folder may have. The kernel refuses others
/// (`EINVAL`), so the rights of a [`LandlockPath`] must be masked with this for such a path.
pub const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
const DEVICE: u64 = READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE | IOCTL_DEV;

/// The scopes of a domain.
///
/// Signals are confined from ABI 6: an execution can signal neither its supervisor nor another
/// execution of the same user. Abstract sockets are confined if code is in the host's network
/// namespace, which is the case with [`Isolation::Host`] and with the full network. Otherwise the
/// network namespace confines them, and executions may connect to each other.
#[must_use]
pub fn scoped(abi: u32, isolation: Isolation, network: &NetworkPolicy) -> u64 {
    match (abi, isolation, network) {
        (0..SCOPES_ABI, ..) => 0,
        (_, Isolation::Host, _) | (_, _, NetworkPolicy::Full) => {
            SCOPE_SIGNAL | SCOPE_ABSTRACT_UNIX_SOCKET
        }
        (_, Isolation::Namespaces | Isolation::Container, _) => SCOPE_SIGNAL,
    }
}

/// The domain of all executions; `None` if the kernel has no Landlock.
#[must_use]
pub fn landlock(plan: &Plan, kernel: &Kernel, profile: &Profile) -> Option<LandlockRules> {
    let abi = kernel.landlock_abi;
    if abi == 0 {
        return None;
    }
    let handled_fs = handled_fs(abi);
    // A network namespace is better: it covers all protocols and keeps loopback working.
    let no_network = !matches!(plan.network, NetworkPolicy::Full);
    let handled_net = match profile.isolation {
        Isolation::Host if no_network => handled_net(abi),
        _ => 0,
    };
    Some(LandlockRules {
        adapts: false,
        handled_fs,
        handled_net,
        scoped: scoped(abi, profile.isolation, &plan.network),
        paths: rules(&profile.paths, handled_fs),
    })
}

fn rules(paths: &Paths, handled: u64) -> Vec<LandlockPath> {
    let write = handled & !(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV);
    let groups = [
        (&paths.read, READ),
        (&paths.list, READ_DIR),
        (&paths.write, write),
        (&paths.devices, DEVICE),
    ];
    let rule = |(paths, access): (&Vec<_>, u64)| {
        let paths = paths.iter().map(|path: &std::path::PathBuf| LandlockPath {
            path: path.as_os_str().as_encoded_bytes().to_vec(),
            access: access & handled,
            object: None,
        });
        paths.collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(rule).collect()
}
