//! Requests to open files (`ioctl`): what programs need, and nothing else.
//!
//! File systems have hundreds of requests that no other mechanism sees: Landlock confines those of device files only, and a
//! file's owner needs no capability. A snapshot of btrfs copies the whole subvolume around a file, a flag makes a file
//! immutable to the host, a key or a seal changes it for good. So this is a list of what is allowed. Anything else gets
//! `ENOTTY`, as from a file that does not know the request, and programs do without.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

/// Requests of a kind have one byte in common, the second lowest.
const KIND: u64 = 0xff00;

/// Terminals, and what every descriptor knows: FIONREAD, FIONBIO, FIOCLEX, FIOASYNC, FIOQSIZE.
const OF_DESCRIPTORS: u64 = 0x5400;
/// Sockets and interfaces. Changing an interface takes a capability.
const OF_SOCKETS: u64 = 0x8900;
/// Notifications of a program's own seccomp filter; the agent has one.
const OF_FILTERS: u64 = 0x2100;

const ALLOWED: [u64; 9] = [
    // FIGETBSZ: the size of a block.
    0x2,
    // FICLONE, FICLONERANGE, FIDEDUPERANGE: copies that share their blocks.
    0x4004_9409,
    0x4020_940d,
    0xc018_9436,
    // FS_IOC_GETFLAGS, as programs of 64 and 32 bits name it.
    0x8008_6601,
    0x8004_6601,
    // FS_IOC_FIEMAP: where a file has holes.
    0xc020_660b,
    // FS_IOC_GETVERSION.
    0x8008_7601,
    // RNDGETENTCNT.
    0x8004_5200,
];

/// Typing into a terminal, its console's selection, its line discipline (which loads modules), the kernel's messages.
const TERMINALS: [u64; 4] = [
    // TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD.
    0x5412, 0x541c, 0x541d, 0x5423,
];

/// The kernel takes 32 bits of the request.
pub(super) fn rules() -> Vec<Rule> {
    let request = || Condition::int(Argument::Second);
    let kind =
        Condition::masked(Argument::Second, KIND).one_of([OF_DESCRIPTORS, OF_SOCKETS, OF_FILTERS]);
    vec![
        Rule::refuse(Syscall::IOCTL, Errno::EPERM).when(request().one_of(TERMINALS)),
        Rule::allow(Syscall::IOCTL).when(kind),
        Rule::allow(Syscall::IOCTL).when(request().one_of(ALLOWED)),
        Rule::refuse(Syscall::IOCTL, Errno::ENOTTY),
    ]
}
