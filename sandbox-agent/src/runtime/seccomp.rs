//! Seccomp programs and their notifications.

use crate::runtime::descriptor::{Descriptor, Fd};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{nr, result, syscall3};

/// One instruction: `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SockFilter {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if a comparison is true.
    pub jump_true: u8,
    /// Instructions to skip if it is false.
    pub jump_false: u8,
    /// Operand.
    pub k: u32,
}

#[repr(C)]
struct FilterProgram {
    length: u16,
    filter: *const SockFilter,
}

/// Operation: load the 32-bit word at offset `k` of the call's data.
pub const BPF_LOAD: u16 = 0x20;
/// Operation: compare with `k`.
pub const BPF_JUMP_EQUAL: u16 = 0x15;
/// Operation: return the verdict `k`.
pub const BPF_RETURN: u16 = 0x06;

/// Verdict: allow.
pub const SECCOMP_RET_ALLOW: u32 = 0x7fff_0000;
/// Verdict: notify the listener.
pub const SECCOMP_RET_USER_NOTIF: u32 = 0x7fc0_0000;
/// Verdict: fail with the error number in the low bits.
pub const SECCOMP_RET_ERRNO: u32 = 0x0005_0000;

/// Flag: return the listener for [`SECCOMP_RET_USER_NOTIF`].
pub const SECCOMP_FILTER_FLAG_NEW_LISTENER: usize = 8;

fn install_with(filter: &[SockFilter], flags: usize) -> Result<usize, Errno> {
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    let length = u16::try_from(filter.len()).map_err(|_| Errno::EINVAL)?;
    let program = FilterProgram {
        length,
        filter: filter.as_ptr(),
    };
    // SAFETY: the kernel reads the program and its instructions, and checks them.
    result(unsafe {
        syscall3(
            nr::SECCOMP,
            SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program as usize,
        )
    })
}

/// Installs a program for the calling thread, its future programs and its children.
///
/// # Errors
/// `EACCES` without `no_new_privs`, `EINVAL` for a bad program, `ENOSYS`.
pub fn install(filter: &[SockFilter]) -> Result<(), Errno> {
    install_with(filter, 0).map(drop)
}

/// Installs a program and returns its listener.
///
/// # Errors
/// As [`install`]; `EBUSY` when another program of the thread has a listener.
pub fn install_with_listener(filter: &[SockFilter]) -> Result<Fd, Errno> {
    install_with(filter, SECCOMP_FILTER_FLAG_NEW_LISTENER).map(|raw| Fd::from_raw(raw as i32))
}

/// A notification: `struct seccomp_notif`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notification {
    /// The ID to answer with.
    pub id: u64,
    /// The caller's PID; 0 if it is outside of the PID namespace.
    pub pid: u32,
    /// Always 0.
    pub flags: u32,
    /// The system call's number.
    pub number: i32,
    /// Its architecture.
    pub architecture: u32,
    /// The instruction pointer.
    pub instruction_pointer: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

#[repr(C)]
struct NotificationResponse {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const NOTIFICATION_RECEIVE: usize = 0xc050_2100;
const NOTIFICATION_SEND: usize = 0xc018_2101;

/// Receives a notification.
///
/// # Errors
/// `ENOENT` when its caller has gone, `EINTR`.
pub fn receive(listener: impl Descriptor) -> Result<Notification, Errno> {
    let mut notification = Notification::default();
    // SAFETY: the request writes one record, which must be zero before.
    unsafe {
        crate::runtime::io::ioctl(
            listener,
            NOTIFICATION_RECEIVE,
            &raw mut notification as usize,
        )?;
    }
    Ok(notification)
}

/// Answers a notification: `None` lets the call continue, `Some` makes it fail.
///
/// # Errors
/// `ENOENT` when its caller has gone.
pub fn answer(listener: impl Descriptor, id: u64, error: Option<Errno>) -> Result<(), Errno> {
    const CONTINUE: u32 = 1;
    let response = NotificationResponse {
        id,
        value: 0,
        error: error.map_or(0, |error| -error.0),
        flags: if error.is_none() { CONTINUE } else { 0 },
    };
    // SAFETY: the request reads one record.
    unsafe { crate::runtime::io::ioctl(listener, NOTIFICATION_SEND, &raw const response as usize) }
        .map(drop)
}
