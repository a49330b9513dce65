//! The entries of folders.

use core::ffi::CStr;

use crate::call::{O_NONBLOCK, O_RDONLY, close, open};
use crate::kernel;
use crate::runtime::Errno;

const O_DIRECTORY: usize = 0o200000;

/// Calls `see` with the name of each entry, and whether it is a folder. Names that are not text are
/// left out, and so are the folder itself and its parent.
pub fn entries(path: &CStr, mut see: impl FnMut(&str, bool)) -> Result<(), Errno> {
    const DT_DIR: u8 = 4;
    let folder = open(path, O_RDONLY | O_NONBLOCK | O_DIRECTORY)?;
    let mut buffer = [0u8; 8192];
    let result = loop {
        let length = match kernel!(GETDENTS64, folder, buffer.as_mut_slice(), buffer.len()) {
            Ok(0) => break Ok(()),
            Ok(length) => length,
            Err(error) => break Err(error),
        };
        let mut offset = 0;
        while offset < length {
            let size = usize::from(u16::from_ne_bytes([
                buffer[offset + 16],
                buffer[offset + 17],
            ]));
            let name = buffer[offset + 19..offset + size]
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or(&[]);
            if let Ok(name) = core::str::from_utf8(name)
                && name != "."
                && name != ".."
            {
                see(name, buffer[offset + 18] == DT_DIR);
            }
            offset += size;
        }
    };
    close(folder);
    result
}
