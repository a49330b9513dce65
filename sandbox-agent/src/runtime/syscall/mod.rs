//! Raw system calls: their numbers, and one function for each count of arguments.
//!
//! The functions return the kernel's value unchanged. A value in `-4095..0` is a negated error
//! number, which [`result`] turns into an [`Errno`]. Nothing here allocates or touches thread-local
//! storage.

use crate::runtime::errno::Errno;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{
    AUDIT_ARCH, clone_onto, syscall0, syscall1, syscall2, syscall3, syscall4, syscall5, syscall6,
};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{
    AUDIT_ARCH, clone_onto, syscall0, syscall1, syscall2, syscall3, syscall4, syscall5, syscall6,
};

/// System call numbers of the target, named as in the kernel's tables, in upper case.
pub mod nr {
    macro_rules! numbers {
        ($($name:ident = $number:literal, $text:literal;)*) => {
            $(
                #[doc = concat!("The number of `", $text, "`.")]
                pub const $name: usize = $number;
            )*

            /// The name of the system call `number`, when this table has it.
            pub fn name(number: usize) -> Option<&'static str> {
                match number {
                    $($number => Some($text),)*
                    _ => None,
                }
            }

            /// The number of the system call `name` on this architecture, when this table has it.
            pub fn by_name(name: &str) -> Option<usize> {
                match name {
                    $($text => Some($number),)*
                    _ => None,
                }
            }
        };
    }

    include!("../../syscall_numbers/common.rs");
    #[cfg(target_arch = "aarch64")]
    include!("../../syscall_numbers/aarch64.rs");
    #[cfg(target_arch = "x86_64")]
    include!("../../syscall_numbers/x86_64.rs");
}

/// Turns the kernel's return value into a result.
///
/// # Errors
/// The [`Errno`] that a word in `-4095..0` stands for.
#[inline]
pub fn result(word: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&word) {
        Err(Errno(-word as i32))
    } else {
        Ok(word as usize)
    }
}

/// Like [`result`], for calls whose success carries no value.
///
/// # Errors
/// As [`result`].
#[inline]
pub fn check(word: isize) -> Result<(), Errno> {
    result(word).map(drop)
}

/// Repeats `call` while it fails with `EINTR`.
///
/// # Errors
/// Any other error of `call`.
#[inline]
pub fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => continue,
            other => return other,
        }
    }
}
