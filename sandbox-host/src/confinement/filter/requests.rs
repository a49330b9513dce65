//! File requests (`ioctl`): allows what programs need and refuses the rest.
//!
//! File systems have hundreds of requests that no other mechanism covers: Landlock confines those
//! of device files only, and a file's owner needs no capability. A btrfs snapshot copies the whole
//! subvolume of a file, a flag makes a file immutable on the host, a key or a seal changes it
//! forever. So this is an allow list. Other requests get `ENOTTY`, as from a file without the
//! request, and programs have fallbacks.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

/// Requests of one kind share their second lowest byte.
const KIND: u64 = 0xff00;

/// Terminals and all descriptors: FIONREAD, FIONBIO, FIOCLEX, FIOASYNC, FIOQSIZE.
const OF_DESCRIPTORS: u64 = 0x5400;
/// Sockets and interfaces. Changing an interface requires a capability.
const OF_SOCKETS: u64 = 0x8900;
/// Notifications of seccomp filters, which the agent and programs with their own filter use.
const OF_FILTERS: u64 = 0x2100;

const ALLOWED: [u64; 9] = [
    // FIGETBSZ: the block size.
    0x2,
    // FICLONE, FICLONERANGE, FIDEDUPERANGE: copies with shared blocks.
    0x4004_9409,
    0x4020_940d,
    0xc018_9436,
    // FS_IOC_GETFLAGS, in 64-bit and 32-bit programs.
    0x8008_6601,
    0x8004_6601,
    // FS_IOC_FIEMAP: the holes of a file.
    0xc020_660b,
    // FS_IOC_GETVERSION.
    0x8008_7601,
    // RNDGETENTCNT.
    0x8004_5200,
];

/// Typing into a terminal, the console's selection, line disciplines (which load modules), the
/// kernel's messages.
const TERMINALS: [u64; 4] = [
    // TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD.
    0x5412, 0x541c, 0x541d, 0x5423,
];

/// The kernel reads 32 bits of the request.
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
