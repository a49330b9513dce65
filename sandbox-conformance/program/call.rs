//! System calls with as many arguments as they take.

use core::ffi::CStr;

pub use crate::runtime::syscall::nr;
use crate::runtime::{Errno, Result, syscall};

use crate::said::{self, Said};

/// What can be an argument of a system call.
pub trait Word {
    fn word(self) -> usize;
}

impl Word for usize {
    fn word(self) -> usize {
        self
    }
}

impl Word for i32 {
    fn word(self) -> usize {
        self as isize as usize
    }
}

impl Word for &CStr {
    fn word(self) -> usize {
        self.as_ptr() as usize
    }
}

impl<T> Word for &[T] {
    fn word(self) -> usize {
        self.as_ptr() as usize
    }
}

impl<T> Word for &mut [T] {
    fn word(self) -> usize {
        self.as_mut_ptr() as usize
    }
}

impl<T> Word for *const T {
    fn word(self) -> usize {
        self as usize
    }
}

impl<T> Word for *mut T {
    fn word(self) -> usize {
        self as usize
    }
}

/// `kernel!(OPENAT, AT_FDCWD, path, O_RDONLY, 0)`: the call by its name in the kernel's table.
#[macro_export]
macro_rules! kernel {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        // SAFETY: each argument is a number or points into an object that outlives the call and is as large as the call
        // wants; see the place of use for calls that change the process.
        unsafe {
            $crate::call::call($crate::call::nr::$name, &[$($crate::call::Word::word($argument)),*])
        }
    };
}

/// Makes a system call.
///
/// # Safety
/// As the call itself demands.
pub unsafe fn call<const COUNT: usize>(number: usize, arguments: &[usize; COUNT]) -> Result<usize> {
    const { assert!(COUNT <= 6, "no call takes more") };
    // A call that takes fewer does not look at the other registers.
    let mut words = [0; 6];
    words[..COUNT].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = words;
    // SAFETY: the caller vouches for the arguments.
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
pub fn open(path: &CStr, flags: usize) -> Result<i32> {
    Ok(kernel!(OPENAT, AT_FDCWD, path, flags | O_CLOEXEC, 0o600usize)? as i32)
}

pub fn close(descriptor: i32) {
    // A descriptor of our own: there is nothing to do about an error.
    let _ = kernel!(CLOSE, descriptor);
}

pub fn unlink(path: &CStr) {
    // Tidying up after a try; the suite removes what stays.
    let _ = kernel!(UNLINKAT, AT_FDCWD, path, 0usize);
}

/// Writes everything; a reader that went away ends the program.
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
    // Interrupted only by a signal, which is as good as having slept.
    let _ = kernel!(NANOSLEEP, time.as_slice(), 0usize);
}

/// Milliseconds of the monotonic clock. Where that is denied the program ends with a sign that no probe accepts: a clock that
/// stands still would have it wait for ever.
pub fn now() -> usize {
    let mut time = [0usize; 2];
    match kernel!(CLOCK_GETTIME, 1usize, time.as_mut_slice()) {
        Ok(_) => time[0] * 1000 + time[1] / 1_000_000,
        Err(_) => said::give_up("no_clock"),
    }
}

pub fn exit(code: usize) -> Said {
    crate::runtime::process::exit(code as i32)
}

/// The number of this process. Where a filter denies it the program ends with a sign that no probe accepts: 0 is a process group to
/// those calls that take a number.
pub fn own_pid() -> usize {
    match kernel!(GETPID) {
        Ok(pid) => pid,
        Err(_) => said::give_up("no_number"),
    }
}
