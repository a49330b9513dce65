//! Takes a network namespace's interfaces down, all but its loopback: what a pod's first step does, with a capability that the
//! code's container does not have.

use alloc::vec::Vec;
use core::fmt::Write;

use sandbox_freestanding::{Errno, Result, fs, io};

use super::{ending::EXIT_SETUP, interface};

/// Every interface of the namespace stands here, those that are down too.
const INTERFACES: &core::ffi::CStr = c"/proc/net/dev";
/// How much of that is read: some thousand interfaces.
const BOUND: usize = 256 * 1024;

/// Takes them down; gives the exit code.
pub(super) fn cut_network() -> i32 {
    let mut stderr = io::Writer::new(2);
    // Without a place to say it, the code says it.
    let mut failed = |what: &[u8], errno: Errno| {
        let what = core::str::from_utf8(what).unwrap_or("an interface");
        let _ = writeln!(stderr, "sandbox-agent: cannot take {what} down: {errno}");
        let _ = stderr.flush();
        EXIT_SETUP
    };
    let list = match read() {
        Ok(list) => list,
        Err(errno) => return failed(INTERFACES.to_bytes(), errno),
    };
    for name in names(&list) {
        if let Err(errno) = interface::set_up(name, false) {
            return failed(name, errno);
        }
    }
    0
}

fn read() -> Result<Vec<u8>> {
    let file = fs::open(INTERFACES, fs::O_RDONLY | fs::O_CLOEXEC, 0)?;
    let mut list = Vec::new();
    io::read_to_end(&file, &mut list, BOUND)?;
    Ok(list)
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
