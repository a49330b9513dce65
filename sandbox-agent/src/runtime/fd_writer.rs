//! Formatted output to a descriptor.

use core::fmt;

use crate::runtime::RawFd;
use crate::runtime::errno::Errno;
use crate::runtime::io::write_all;

/// Implements `core::fmt::Write` for a descriptor, with a buffer of 1 KiB on the stack.
/// [`FdWriter::flush`] and drop write the rest.
#[derive(Debug)]
pub struct FdWriter {
    descriptor: RawFd,
    buffer: [u8; 1024],
    length: usize,
}

impl FdWriter {
    /// A writer to `descriptor`, which must stay open as long as the writer lives.
    pub const fn new(descriptor: RawFd) -> FdWriter {
        FdWriter {
            descriptor,
            buffer: [0; 1024],
            length: 0,
        }
    }

    /// Writes the buffer, which is empty afterwards even on failure.
    ///
    /// # Errors
    /// As [`write_all`].
    pub fn flush(&mut self) -> Result<(), Errno> {
        let length = core::mem::take(&mut self.length);
        write_all(self.descriptor, &self.buffer[..length])
    }
}

impl fmt::Write for FdWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            if self.length == self.buffer.len() {
                self.flush().map_err(|_| fmt::Error)?;
            }
            let count = bytes.len().min(self.buffer.len() - self.length);
            self.buffer[self.length..self.length + count].copy_from_slice(&bytes[..count]);
            self.length += count;
            bytes = &bytes[count..];
        }
        Ok(())
    }
}

impl Drop for FdWriter {
    fn drop(&mut self) {
        // Use `flush` to see errors.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::fs::O_CLOEXEC;
    use crate::runtime::io::{pipe, read_to_end};
    use core::fmt::Write;

    #[test]
    fn writer_accepts_more_than_its_buffer() {
        let (reader, writer) = pipe(O_CLOEXEC).unwrap();
        let mut text = FdWriter::new(writer.as_raw());
        for number in 0..1000 {
            write!(text, "{number:04}").unwrap();
        }
        drop(text);
        drop(writer);
        let mut bytes = alloc::vec::Vec::new();
        read_to_end(&reader, &mut bytes, 4000).unwrap();
        assert_eq!(bytes.len(), 4000);
        assert_eq!(&bytes[3996..], b"0999");
    }
}
