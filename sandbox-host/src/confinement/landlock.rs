//! The Landlock domain of an execution.
//!
//! Landlock restricts opening, making, renaming and removing files, and is silent about `stat`, `chmod`, `chown` and
//! extended attributes: a minimal root or an image is the first mechanism, this the second. In the host's namespaces it is the
//! only one.

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
/// ABI 3.
const TRUNCATE: u64 = 1 << 14;
/// `ioctl` of device files: ABI 5.
const IOCTL_DEV: u64 = 1 << 15;
/// Where scopes begin.
pub(super) const SCOPES_ABI: u32 = 6;

const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1 << 0;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// The rights that a rule for a path that is no folder may have; the kernel refuses a rule with others (`EINVAL`), so whoever
/// adds the rules of a [`LandlockPath`] keeps only these for such a path.
pub const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
const DEVICE: u64 = READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE | IOCTL_DEV;

/// The scopes of a domain.
///
/// Signals stay inside wherever the ABI has it (6): an execution can signal neither its supervisor nor another execution of
/// the same user. Abstract sockets stay inside where code is in the host's network namespace, as in the host's namespaces and
/// with the whole network. Elsewhere a network namespace keeps the outside away, and one execution may talk to another's server.
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

/// The domain of every execution; `None` where the kernel has no Landlock.
#[must_use]
pub fn landlock(plan: &Plan, kernel: &Kernel, profile: &Profile) -> Option<LandlockRules> {
    let abi = kernel.landlock_abi;
    if abi == 0 {
        return None;
    }
    let handled_fs = handled_fs(abi);
    // A network namespace says it better: all protocols, and a loopback that works.
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
