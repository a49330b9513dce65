//! Requests (`ioctl`) that no sandbox permits, from the headers of Linux 6.18, and not from the
//! filter's own tables.

use alloc::format;
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::call_result::{CallResult, through};
use crate::kernel;
use crate::kernel_surface::new_terminal;

/// Bits above the 32nd, which the kernel ignores.
const HIGH: usize = 0xdead << 32;

/// Requests to a terminal that change its input, or load a line discipline.
const OF_TERMINALS: [usize; 3] = [
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    0x5423, // TIOCSETD
];

/// Requests that are sent to no file, so that none does anything.
const OTHERS: [usize; 60] = [
    0x0000_541d, // TIOCCONS
    // Consoles and keyboards.
    0x0000_4b3a, // KDSETMODE
    0x0000_4b47, // KDSKBENT
    0x0000_4b49, // KDSKBSENT
    0x0000_4b61, // PIO_FONT
    0x0000_5606, // VT_ACTIVATE
    0x0000_560b, // VT_LOCKSWITCH
    // All file systems.
    0x0000_0001, // FIBMAP
    0x4008_6602, // FS_IOC_SETFLAGS
    0x4004_6602, // FS_IOC32_SETFLAGS
    0x4008_7602, // FS_IOC_SETVERSION
    0x8008_6602, // the same request with another direction
    0x401c_5820, // FS_IOC_FSSETXATTR
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x4100_9432, // FS_IOC_SETFSLABEL
    0x800c_6613, // FS_IOC_SET_ENCRYPTION_POLICY
    0xc050_6617, // FS_IOC_ADD_ENCRYPTION_KEY
    0xc040_6618, // FS_IOC_REMOVE_ENCRYPTION_KEY
    0xc040_6619, // FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS
    0x4080_6685, // FS_IOC_ENABLE_VERITY
    0xc004_5877, // FIFREEZE
    0xc004_5878, // FITHAW
    0xc018_5879, // FITRIM
    0x8004_587d, // EXT4_IOC_SHUTDOWN
    0x4028_5881, // XFS_IOC_EXCHANGE_RANGE
    // Single file systems.
    0x4008_6610, // EXT4_IOC_RESIZE_FS
    0x0000_6611, // EXT4_IOC_SWAP_BOOT
    0xc028_660f, // EXT4_IOC_MOVE_EXT
    0x5000_9401, // BTRFS_IOC_SNAP_CREATE
    0x5000_9402, // BTRFS_IOC_DEFRAG
    0x5000_9403, // BTRFS_IOC_RESIZE
    0x5000_940e, // BTRFS_IOC_SUBVOL_CREATE
    0x5000_940f, // BTRFS_IOC_SNAP_DESTROY
    0x5000_9417, // BTRFS_IOC_SNAP_CREATE_V2
    0xd000_9412, // BTRFS_IOC_INO_LOOKUP
    0x0000_f501, // F2FS_IOC_START_ATOMIC_WRITE
    0x4010_bc10, // BCH_IOCTL_SUBVOLUME_CREATE
    // Disks.
    0x0000_125d, // BLKROSET
    0x0000_125f, // BLKRRPART
    0x0000_1277, // BLKDISCARD
    0x0000_127f, // BLKZEROOUT
    0x0000_2285, // SG_IO
    0x0000_4c00, // LOOP_SET_FD
    0x0000_4c82, // LOOP_CTL_GET_FREE
    0xc138_fd03, // DM_DEV_CREATE
    // Other devices.
    0x0000_ae01, // KVM_CREATE_VM
    0x0000_af01, // VHOST_SET_OWNER
    0x0000_3b64, // VFIO_GET_API_VERSION
    0x8004_e500, // FUSE_DEV_IOC_CLONE
    0x4008_5203, // RNDADDENTROPY
    0x0000_5206, // RNDCLEARPOOL
    0x4004_4590, // EVIOCGRAB
    0x0000_5501, // UI_DEV_CREATE
    0xc004_743e, // PPPIOCNEWUNIT
    0x0000_aa00, // USERFAULTFD_IOC_NEW
    // Descriptors of the kernel.
    0x0000_2400, // PERF_EVENT_IOC_ENABLE
    0x0000_5760, // IOC_WATCH_QUEUE_SET_SIZE
    0x0000_b701, // NS_GET_USERNS
    0x0000_b702, // NS_GET_PARENT
    0xc040_ff0b, // PIDFD_GET_INFO
];

/// The requests that the kernel looked at.
pub fn all() -> CallResult {
    let mut tries = Vec::new();
    // Without terminals there is no file for these requests either.
    let terminal = new_terminal().unwrap_or(-1);
    for request in OF_TERMINALS {
        for high in [0, HIGH] {
            // A byte of input, a selection's code, and the usual line discipline.
            let argument = [0u8; 8];
            let answer = kernel!(IOCTL, terminal, request | high, argument.as_slice());
            tries.push((format!("terminal {request:#x}"), looked_at(answer)));
        }
    }
    for request in OTHERS {
        for high in [0, HIGH] {
            let answer = kernel!(IOCTL, -1, request | high, 0usize);
            tries.push((format!("{request:#x}"), looked_at(answer)));
        }
    }
    through(tries)
}

/// A filter answers that the permission is missing, or that the file has no such request. The
/// kernel would first find that there is no file.
fn looked_at(answer: Result<usize, Errno>) -> Result<usize, Errno> {
    match answer {
        Err(error @ (Errno::EPERM | Errno::EACCES | Errno::ENOSYS | Errno::ENOTTY)) => Err(error),
        _ => Ok(0),
    }
}
