//! Takes every interface of a network namespace down, but for its loopback, and gives up the power to undo that: the first thing that the
//! agent of a pod does.
//!
//! The interfaces stay, with their addresses: container runtimes look for a pod's address there, and take a pod without one for broken.

use alloc::{string::String, vec::Vec};
use core::fmt::{self, Display, Formatter};

use crate::runtime::{Errno, credentials::CAP_NET_ADMIN, fs, io};

use super::{failures::text, interface, privilege};

/// Every interface of the namespace stands here, those that are down too.
const INTERFACES: &core::ffi::CStr = c"/proc/net/dev";
/// How much of that is read: some thousand interfaces.
const MAX_INTERFACE_LIST: usize = 256 * 1024;

/// Why the network is not gone.
#[derive(Debug)]
pub(super) struct CutNetworkError {
    action: String,
    errno: Errno,
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

/// Takes the interfaces down and gives the capability for it up, then asks the kernel for both.
///
/// # Errors
///
/// When anything is left that the namespace could be reached by, or the capability is.
pub(super) fn cut_network() -> Result<(), CutNetworkError> {
    for name in names(&read()?) {
        interface::set_up(name, false).map_err(error_in(text(name)))?;
    }
    privilege::drop_capability(CAP_NET_ADMIN).map_err(error_in("give up CAP_NET_ADMIN"))?;
    // Also those that have come meanwhile.
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

/// The names behind the two lines of the head, without the loopback's.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b'\n')
        .skip(2)
        .filter_map(|line| {
            // A name has no colon, since that would make another name of it.
            let end = line.iter().position(|byte| *byte == b':')?;
            Some(line[..end].trim_ascii_start())
        })
        .filter(|name| *name != b"lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_but_the_loopback_is_named() {
        let list =
            b"Inter-|   Receive \n face |bytes \n    lo:  10 1\n  eth0: 20 2\nlong-name0:3 3\n";
        let found: Vec<_> = names(list).collect();
        assert_eq!(found, [&b"eth0"[..], b"long-name0"]);
    }
}
