//! Reading, writing and descriptors' flags. Reads and writes are repeated on `EINTR`.

use crate::runtime::descriptor::{Descriptor, Fd, RawFd, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, result, retry, syscall2, syscall3, syscall4};

/// `fcntl` command: the descriptor's flags.
pub const F_GETFD: i32 = 1;
/// `fcntl` command: set the descriptor's flags.
pub const F_SETFD: i32 = 2;
/// `fcntl` command: the open file's status flags.
pub const F_GETFL: i32 = 3;
/// `fcntl` command: set the open file's status flags.
pub const F_SETFL: i32 = 4;
/// `fcntl` command: duplicate to the lowest free number from the argument on, close-on-exec.
pub const F_DUPFD_CLOEXEC: i32 = 1030;
/// `fcntl` command: set a pipe's capacity in bytes.
pub const F_SETPIPE_SZ: i32 = 1031;
/// The only descriptor flag: close-on-exec.
pub const FD_CLOEXEC: i32 = 1;

/// `close_range` flag: set close-on-exec instead of closing.
pub const CLOSE_RANGE_CLOEXEC: u32 = 4;

/// `ioctl` request: bytes ready to read.
pub const FIONREAD: usize = 0x541b;
/// `ioctl` request: put a byte into a terminal's input.
pub const TIOCSTI: usize = 0x5412;
/// `ioctl` request: make a terminal the controlling one.
pub const TIOCSCTTY: usize = 0x540e;
/// `ioctl` request: a terminal's window size.
pub const TIOCGWINSZ: usize = 0x5413;
/// `ioctl` request: set a terminal's window size.
pub const TIOCSWINSZ: usize = 0x5414;
/// `ioctl` request on a pty's master: the number of its slave.
pub const TIOCGPTN: usize = 0x8004_5430;
/// `ioctl` request on a pty's master: lock (1) or unlock (0) its slave.
pub const TIOCSPTLCK: usize = 0x4004_5431;

/// One buffer of a gathered write: `struct iovec` for reading from memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoSlice<'a> {
    base: *const u8,
    length: usize,
    bytes: core::marker::PhantomData<&'a [u8]>,
}

impl<'a> IoSlice<'a> {
    /// Names `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        IoSlice {
            base: bytes.as_ptr(),
            length: bytes.len(),
            bytes: core::marker::PhantomData,
        }
    }
}

/// Reads once; 0 at the end of the file.
///
/// # Errors
/// What `read` reports, except `EINTR`.
pub fn read(descriptor: impl Descriptor, buffer: &mut [u8]) -> Result<usize, Errno> {
    let descriptor = word(descriptor);
    retry(|| {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
        result(unsafe {
            syscall3(
                nr::READ,
                descriptor,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
            )
        })
    })
}

/// Reads until `buffer` is full or the file ends; returns the number of bytes.
///
/// # Errors
/// As [`read`]; what came before the error is lost to the caller.
pub fn read_full(descriptor: impl Descriptor, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(&descriptor, &mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Reads to the end of the file and appends at most `limit` bytes to `bytes` (allocates).
///
/// # Errors
/// As [`read`]; `EFBIG` when the file has more than `limit` bytes.
pub fn read_to_end(
    descriptor: impl Descriptor,
    bytes: &mut alloc::vec::Vec<u8>,
    limit: usize,
) -> Result<(), Errno> {
    let mut chunk = [0u8; 4096];
    let mut total = 0usize;
    loop {
        let count = read(&descriptor, &mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        total += count;
        if total > limit {
            return Err(Errno::EFBIG);
        }
        bytes.extend_from_slice(&chunk[..count]);
    }
}

/// Writes once and returns the number of bytes.
///
/// # Errors
/// What `write` reports, except `EINTR`. `EPIPE` comes with `SIGPIPE` unless that is ignored.
pub fn write(descriptor: impl Descriptor, bytes: &[u8]) -> Result<usize, Errno> {
    let descriptor = word(descriptor);
    retry(|| {
        // SAFETY: the kernel reads at most `bytes.len()` bytes from `bytes`.
        result(unsafe { syscall3(nr::WRITE, descriptor, bytes.as_ptr() as usize, bytes.len()) })
    })
}

/// Writes all bytes, in as many calls as needed.
///
/// # Errors
/// As [`write()`]; a part may have been written. On a non-blocking descriptor `EAGAIN` ends it too.
pub fn write_all(descriptor: impl Descriptor, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let count = write(&descriptor, bytes)?;
        if count == 0 {
            return Err(Errno::EIO);
        }
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Writes several buffers in one call and returns the number of bytes.
///
/// # Errors
/// As [`write()`]; `EINVAL` for more than 1024 buffers.
pub fn write_vectored(
    descriptor: impl Descriptor,
    buffers: &[IoSlice<'_>],
) -> Result<usize, Errno> {
    let descriptor = word(descriptor);
    retry(|| {
        // SAFETY: every buffer is a live borrow of the length it states.
        result(unsafe {
            syscall3(
                nr::WRITEV,
                descriptor,
                buffers.as_ptr() as usize,
                buffers.len(),
            )
        })
    })
}

/// Reads at `offset` without moving the file's position.
///
/// # Errors
/// As [`read`].
pub fn read_at(
    descriptor: impl Descriptor,
    buffer: &mut [u8],
    offset: u64,
) -> Result<usize, Errno> {
    let descriptor = word(descriptor);
    retry(|| {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
        result(unsafe {
            syscall4(
                nr::PREAD64,
                descriptor,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                offset as usize,
            )
        })
    })
}

/// Writes at `offset` without moving the file's position.
///
/// # Errors
/// As [`write()`].
pub fn write_at(descriptor: impl Descriptor, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    let descriptor = word(descriptor);
    retry(|| {
        // SAFETY: the kernel reads at most `bytes.len()` bytes from `bytes`.
        result(unsafe {
            syscall4(
                nr::PWRITE64,
                descriptor,
                bytes.as_ptr() as usize,
                bytes.len(),
                offset as usize,
            )
        })
    })
}

/// Creates a pipe: its read end and its write end. `flags` of `open`: `O_CLOEXEC`, `O_NONBLOCK`.
///
/// # Errors
/// `EMFILE`, `ENFILE`.
pub fn pipe(flags: i32) -> Result<(Fd, Fd), Errno> {
    let mut ends = [0 as RawFd; 2];
    // SAFETY: the kernel writes two descriptors into the array.
    check(unsafe { syscall2(nr::PIPE2, ends.as_mut_ptr() as usize, flags as usize) })?;
    Ok((Fd::from_raw(ends[0]), Fd::from_raw(ends[1])))
}

/// A duplicate with the lowest free number, close-on-exec.
///
/// # Errors
/// `EBADF`, `EMFILE`.
pub fn duplicate(descriptor: impl Descriptor) -> Result<Fd, Errno> {
    duplicate_above(descriptor, 0)
}

/// A duplicate with the lowest free number from `lowest` on, close-on-exec.
///
/// # Errors
/// `EBADF`, `EMFILE`; `EINVAL` when `lowest` is above the limit.
pub fn duplicate_above(descriptor: impl Descriptor, lowest: RawFd) -> Result<Fd, Errno> {
    // SAFETY: the command takes a number.
    unsafe { fcntl(descriptor, F_DUPFD_CLOEXEC, lowest as usize) }
        .map(|raw| Fd::from_raw(raw as RawFd))
}

/// Makes `target` a duplicate of `source`; closes the previous `target`. `flags`: 0 or `O_CLOEXEC`.
///
/// # Errors
/// `EBADF`; `EINVAL` when both are the same number.
pub fn duplicate_onto(source: impl Descriptor, target: RawFd, flags: i32) -> Result<(), Errno> {
    let source = word(source);
    retry(|| {
        // SAFETY: the call takes no pointer.
        check(unsafe { syscall3(nr::DUP3, source, target as usize, flags as usize) })
    })
}

/// `fcntl` with one argument word.
///
/// # Safety
/// `argument` must be what `command` expects, a valid pointer where it takes one.
///
/// # Errors
/// What the command reports.
pub unsafe fn fcntl(
    descriptor: impl Descriptor,
    command: i32,
    argument: usize,
) -> Result<usize, Errno> {
    // SAFETY: passed on to the caller.
    result(unsafe { syscall3(nr::FCNTL, word(descriptor), command as usize, argument) })
}

/// Sets or clears close-on-exec.
///
/// # Errors
/// `EBADF`.
pub fn set_close_on_exec(descriptor: impl Descriptor, on: bool) -> Result<(), Errno> {
    // SAFETY: the command takes a number.
    unsafe {
        fcntl(
            descriptor,
            F_SETFD,
            if on { FD_CLOEXEC as usize } else { 0 },
        )
    }
    .map(drop)
}

/// The status flags and access mode an open file has now, as `open` takes them.
///
/// # Errors
/// `EBADF`.
pub fn status_flags(descriptor: impl Descriptor) -> Result<i32, Errno> {
    // SAFETY: the command takes no argument.
    unsafe { fcntl(descriptor, F_GETFL, 0) }.map(|flags| flags as i32)
}

/// Sets a pipe's capacity in bytes and returns the actual one.
///
/// # Errors
/// `EPERM` above `/proc/sys/fs/pipe-max-size`, `EBUSY` when the pipe holds more.
pub fn set_pipe_capacity(descriptor: impl Descriptor, bytes: usize) -> Result<usize, Errno> {
    // SAFETY: the command takes a number.
    unsafe { fcntl(descriptor, F_SETPIPE_SZ, bytes) }
}

/// Sets or clears `O_NONBLOCK` of the open file (shared by all its duplicates).
///
/// # Errors
/// `EBADF`.
pub fn set_nonblocking(descriptor: impl Descriptor, on: bool) -> Result<(), Errno> {
    let flags = status_flags(&descriptor)?;
    let bit = crate::runtime::fs::O_NONBLOCK;
    let wanted = if on { flags | bit } else { flags & !bit };
    if wanted != flags {
        // SAFETY: the command takes a number.
        unsafe { fcntl(&descriptor, F_SETFL, wanted as usize) }?;
    }
    Ok(())
}

/// Closes every descriptor from `first` to `last`, both included, or with
/// [`CLOSE_RANGE_CLOEXEC`] marks them.
///
/// # Errors
/// `ENOSYS` before Linux 5.9, `EINVAL` for an unknown flag (the mark needs 5.11).
pub fn close_range(first: u32, last: u32, flags: u32) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe {
        syscall3(
            nr::CLOSE_RANGE,
            first as usize,
            last as usize,
            flags as usize,
        )
    })
}

/// `ioctl` with one argument word.
///
/// # Safety
/// `argument` must be what `request` expects, a valid pointer where it takes one.
///
/// # Errors
/// What the device reports; `ENOTTY` for a request it does not know.
pub unsafe fn ioctl(
    descriptor: impl Descriptor,
    request: usize,
    argument: usize,
) -> Result<usize, Errno> {
    // SAFETY: passed on to the caller.
    result(unsafe { syscall3(nr::IOCTL, word(descriptor), request, argument) })
}

/// Locks (`LOCK_SH` 1, `LOCK_EX` 2, with `LOCK_NB` 4) or unlocks (`LOCK_UN` 8) an open file.
///
/// # Errors
/// `EWOULDBLOCK` when the lock is taken and `LOCK_NB` was given.
pub fn flock(descriptor: impl Descriptor, operation: i32) -> Result<(), Errno> {
    let descriptor = word(descriptor);
    retry(|| {
        // SAFETY: the call takes no pointer.
        check(unsafe { syscall2(nr::FLOCK, descriptor, operation as usize) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::fs::O_CLOEXEC;

    #[test]
    fn pipe_carries_bytes_and_ends() {
        let (reader, writer) = pipe(O_CLOEXEC).unwrap();
        write_all(&writer, b"hello").unwrap();
        write_vectored(&writer, &[IoSlice::new(b", "), IoSlice::new(b"world")]).unwrap();
        let mut buffer = [0; 12];
        assert_eq!(read_full(&reader, &mut buffer).unwrap(), 12);
        assert_eq!(&buffer, b"hello, world");
        writer.close().unwrap();
        assert_eq!(read(&reader, &mut buffer).unwrap(), 0);
    }

    #[test]
    fn nonblocking_pipe_reports_eagain() {
        let (reader, writer) = pipe(O_CLOEXEC).unwrap();
        set_nonblocking(&reader, true).unwrap();
        assert_eq!(read(&reader, &mut [0; 1]), Err(Errno::EAGAIN));
        write_all(&writer, &[7; 100]).unwrap();
        drop(writer);
        let mut bytes = alloc::vec::Vec::new();
        assert_eq!(read_to_end(&reader, &mut bytes, 99), Err(Errno::EFBIG));
    }

    #[test]
    fn duplicates_share_the_open_file() {
        let (reader, writer) = pipe(O_CLOEXEC).unwrap();
        let copy = duplicate(&writer).unwrap();
        drop(writer);
        write_all(&copy, b"x").unwrap();
        assert_eq!(read(&reader, &mut [0; 4]), Ok(1));
        assert_eq!(
            duplicate_onto(&reader, reader.as_raw(), 0),
            Err(Errno::EINVAL)
        );
        assert_eq!(status_flags(-1), Err(Errno::EBADF));
    }
}
