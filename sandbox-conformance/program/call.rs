//! System calls with a variable number of arguments.

use core::ffi::CStr;

pub use crate::runtime::syscall::nr;
use crate::runtime::{Errno, syscall};

use crate::call_result::{self, CallResult};

/// An argument of a system call.
pub trait CallArgument {
    fn word(self) -> usize;
}

impl CallArgument for usize {
    fn word(self) -> usize {
        self
    }
}

impl CallArgument for i32 {
    fn word(self) -> usize {
        self as isize as usize
    }
}

impl CallArgument for &CStr {
    fn word(self) -> usize {
        self.as_ptr() as usize
    }
}

impl<T> CallArgument for &[T] {
    fn word(self) -> usize {
        self.as_ptr() as usize
    }
}

impl<T> CallArgument for &mut [T] {
    fn word(self) -> usize {
        self.as_mut_ptr() as usize
    }
}

impl<T> CallArgument for *const T {
    fn word(self) -> usize {
        self as usize
    }
}

impl<T> CallArgument for *mut T {
    fn word(self) -> usize {
        self as usize
    }
}

/// `kernel!(OPENAT, AT_FDCWD, path, O_RDONLY, 0)` makes the system call with this name.
#[macro_export]
macro_rules! kernel {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        // SAFETY: each argument is a number, or points to an object that outlives the call and has
        // the size that the call needs. Calls that change the process have a comment where they are
        // made.
        unsafe {
            $crate::call::call($crate::call::nr::$name, &[$($crate::call::CallArgument::word($argument)),*])
        }
    };
}

/// Makes a system call.
///
/// # Safety
/// The requirements of the call itself.
pub unsafe fn call<const COUNT: usize>(
    number: usize,
    arguments: &[usize; COUNT],
) -> Result<usize, Errno> {
    const { assert!(COUNT <= 6, "no call takes more") };
    // A call with fewer parameters ignores the other registers.
    let mut words = [0; 6];
    words[..COUNT].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = words;
    // SAFETY: the caller guarantees the arguments.
    let answer = unsafe { syscall::syscall6(number, a, b, c, d, e, f) };
    syscall::result(answer)
}

pub const AT_FDCWD: i32 = -100;
pub const O_RDONLY: usize = 0;
pub const O_WRONLY: usize = 1;
pub const O_RDWR: usize = 2;
pub const O_CREAT: usize = 0o100;
pub const O_EXCL: usize = 0o200;
pub const O_NOCTTY: usize = 0o400;
pub const O_TRUNC: usize = 0o1000;
pub const O_NONBLOCK: usize = 0o4000;
pub const O_CLOEXEC: usize = 0o2000000;

/// Opens a file.
pub fn open(path: &CStr, flags: usize) -> Result<i32, Errno> {
    Ok(kernel!(OPENAT, AT_FDCWD, path, flags | O_CLOEXEC, 0o600usize)? as i32)
}

pub fn close(descriptor: i32) {
    // The descriptor is this program's own. An error of `close` needs no reaction.
    let _ = kernel!(CLOSE, descriptor);
}

pub fn unlink(path: &CStr) {
    // Cleanup after a call. The suite removes what stays.
    let _ = kernel!(UNLINKAT, AT_FDCWD, path, 0usize);
}

/// Writes all bytes. A closed reader ends the program.
pub fn write_all(descriptor: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match kernel!(WRITE, descriptor, bytes, bytes.len()) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            Err(_) => crate::runtime::process::exit(65),
        }
    }
}

pub fn pause(milliseconds: usize) {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    // Only a signal interrupts it, and an early return does no harm.
    let _ = kernel!(NANOSLEEP, time.as_slice(), 0usize);
}

/// Whether the descriptor becomes readable (`event` 1) or writable (4) in this time.
pub fn poll(descriptor: i32, event: u32, milliseconds: usize) -> Result<bool, Errno> {
    let mut polled = [descriptor as u32, event];
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    let ready = kernel!(
        PPOLL,
        polled.as_mut_slice(),
        1usize,
        time.as_slice(),
        0usize,
        8usize
    )?;
    Ok(ready != 0)
}

/// Milliseconds of the monotonic clock. If the clock is denied, the program ends with a sign that
/// no probe accepts: with a clock that stands still it would wait forever.
pub fn now() -> usize {
    let mut time = [0usize; 2];
    match kernel!(CLOCK_GETTIME, 1usize, time.as_mut_slice()) {
        Ok(_) => time[0] * 1000 + time[1] / 1_000_000,
        Err(_) => call_result::give_up("no_clock"),
    }
}

pub fn exit(code: usize) -> CallResult {
    crate::runtime::process::exit(code as i32)
}

/// The id of this process. If a filter denies it, the program ends with a sign that no probe
/// accepts: some calls take 0 as a process group.
pub fn own_pid() -> usize {
    match kernel!(GETPID) {
        Ok(pid) => pid,
        Err(_) => call_result::give_up("no_number"),
    }
}
