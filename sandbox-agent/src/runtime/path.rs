//! Nul-terminated paths.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ops::Deref;

use crate::runtime::errno::Errno;

/// The longest path of the kernel, including its nul: `PATH_MAX`.
pub const PATH_MAX: usize = 4096;

/// A nul-terminated path on the stack.
pub struct PathBuffer {
    bytes: [MaybeUninit<u8>; PATH_MAX],
    /// Without the nul.
    length: usize,
}

impl PathBuffer {
    /// Copies `path` and adds the nul.
    ///
    /// # Errors
    /// `EINVAL` when `path` contains a nul byte, `ENAMETOOLONG` from 4096 bytes on.
    pub fn new(path: &[u8]) -> Result<PathBuffer, Errno> {
        PathBuffer::concat(&[path])
    }

    /// Copies all `parts`, one after the other, and adds the nul.
    ///
    /// # Errors
    /// As [`PathBuffer::new`].
    pub fn concat(parts: &[&[u8]]) -> Result<PathBuffer, Errno> {
        let mut buffer = PathBuffer {
            bytes: [MaybeUninit::uninit(); PATH_MAX],
            length: 0,
        };
        for part in parts {
            for &byte in *part {
                if byte == 0 {
                    return Err(Errno::EINVAL);
                }
                if buffer.length + 1 >= PATH_MAX {
                    return Err(Errno::ENAMETOOLONG);
                }
                buffer.bytes[buffer.length].write(byte);
                buffer.length += 1;
            }
        }
        buffer.bytes[buffer.length].write(0);
        Ok(buffer)
    }
}

impl Deref for PathBuffer {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        // SAFETY: the constructor wrote `length` bytes that are not nul and one nul after them.
        unsafe {
            CStr::from_bytes_with_nul_unchecked(core::slice::from_raw_parts(
                self.bytes.as_ptr().cast(),
                self.length + 1,
            ))
        }
    }
}

/// `path` with a nul at its end, allocated.
///
/// # Errors
/// `EINVAL` when `path` contains a nul byte.
pub fn terminated(path: impl Into<Vec<u8>>) -> Result<CString, Errno> {
    CString::new(path).map_err(|_| Errno::EINVAL)
}

/// `/proc/self/fd/N` for a descriptor's number, made without allocation.
pub fn of_descriptor(raw: crate::runtime::RawFd) -> PathBuffer {
    let mut digits = [0u8; 20];
    let digits = decimal(u64::from(raw.unsigned_abs()), &mut digits);
    match PathBuffer::concat(&[b"/proc/self/fd/", digits]) {
        Ok(path) => path,
        Err(_) => unreachable!("a descriptor's path is short and has no nul"),
    }
}

/// Writes `value` in decimal into `buffer` and returns the digits, without `core::fmt`.
pub fn decimal(mut value: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = buffer.len();
    loop {
        start -= 1;
        buffer[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &buffer[start..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn paths_with_nul_or_above_path_max_are_refused() {
        assert_eq!(PathBuffer::new(b"a\0b").err(), Some(Errno::EINVAL));
        assert_eq!(terminated(&b"a\0b"[..]).err(), Some(Errno::EINVAL));
        assert!(PathBuffer::new(&vec![b'a'; PATH_MAX - 1]).is_ok());
        assert_eq!(
            PathBuffer::new(&vec![b'a'; PATH_MAX]).err(),
            Some(Errno::ENAMETOOLONG)
        );
        assert_eq!(&*PathBuffer::concat(&[b"/a", b"/", b"b"]).unwrap(), c"/a/b");
        assert_eq!(&*of_descriptor(17), c"/proc/self/fd/17");
        assert_eq!(decimal(u64::MAX, &mut [0; 20]), b"18446744073709551615");
    }
}
