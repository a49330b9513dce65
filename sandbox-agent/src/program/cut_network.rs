//! Brings every interface of a network namespace down, except the loopback. It is the first action of
//! a pod's agent, which then gives up `CAP_NET_ADMIN`.
//!
//! The interfaces keep their addresses: container runtimes treat a pod without an address as
//! broken.

use alloc::{string::String, vec::Vec};
use core::fmt::{self, Display, Formatter};

use crate::runtime::{Errno, credentials::CAP_NET_ADMIN, fs, io};

use super::{
    failures::{failure, text},
    interface, privilege,
};
use crate::protocol::{FailStep, Failure};

/// Whether the agent may change the network after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CutNetwork {
    /// It may not.
    Forever,
    /// Until the first client's settings, whose rules need routes on the loopback.
    UntilRules,
}

/// Lists every interface of the namespace, including those that are down.
const INTERFACES: &core::ffi::CStr = c"/proc/net/dev";
/// The largest size of the list, in bytes: several thousand interfaces.
const MAX_INTERFACE_LIST: usize = 256 * 1024;

/// What failed.
#[derive(Debug)]
pub(super) struct CutNetworkError {
    action: String,
    errno: Errno,
}

impl CutNetworkError {
    /// The failure for a client that is connected already.
    pub(super) fn into_failure(self) -> Failure {
        failure(FailStep::Settings, self.errno, self.action)
    }
}

impl Display for CutNetworkError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.errno)
    }
}

fn error_in(action: impl Into<String>) -> impl FnOnce(Errno) -> CutNetworkError {
    let action = action.into();
    |errno| CutNetworkError { action, errno }
}

/// Brings the interfaces down, and drops the capability if nothing else needs it.
///
/// # Errors
///
/// When an interface is still up, or the capability is still held.
pub(super) fn cut_network(cut: CutNetwork) -> Result<(), CutNetworkError> {
    for name in names(&read()?) {
        interface::set_up(name, false).map_err(error_in(text(name)))?;
    }
    match cut {
        CutNetwork::Forever => give_up_network(),
        CutNetwork::UntilRules => Ok(()),
    }
}

/// Drops the capability, then checks that it is gone and that every interface is down.
///
/// # Errors
///
/// As [`cut_network`].
pub(super) fn give_up_network() -> Result<(), CutNetworkError> {
    privilege::drop_capability(CAP_NET_ADMIN).map_err(error_in("give up CAP_NET_ADMIN"))?;
    // Includes interfaces that appeared in between.
    for name in names(&read()?) {
        if interface::is_up(name).map_err(error_in(text(name)))? {
            return Err(error_in(text(name))(Errno::EBUSY));
        }
    }
    Ok(())
}

fn read() -> Result<Vec<u8>, CutNetworkError> {
    let list = || {
        let file = fs::open(INTERFACES, fs::O_RDONLY | fs::O_CLOEXEC, 0)?;
        let mut list = Vec::new();
        io::read_to_end(&file, &mut list, MAX_INTERFACE_LIST)?;
        Ok(list)
    };
    list().map_err(error_in(text(INTERFACES.to_bytes())))
}

/// The names after the two header lines, without the loopback.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b'\n')
        .skip(2)
        .filter_map(|line| {
            // A name has no colon: a colon marks an alias.
            let end = line.iter().position(|byte| *byte == b':')?;
            Some(line[..end].trim_ascii_start())
        })
        .filter(|name| *name != b"lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_except_loopback_is_listed() {
        let list =
            b"Inter-|   Receive \n face |bytes \n    lo:  10 1\n  eth0: 20 2\nlong-name0:3 3\n";
        let found: Vec<_> = names(list).collect();
        assert_eq!(found, [&b"eth0"[..], b"long-name0"]);
    }
}
