//! Pseudo-terminals.

use crate::runtime::descriptor::{Descriptor, Fd};
use crate::runtime::errno::Errno;
use crate::runtime::io::{TIOCGPTN, TIOCSCTTY, TIOCSPTLCK, TIOCSWINSZ, ioctl};

/// `ioctl` request on a pty's master: open its slave. Since Linux 4.13.
const TIOCGPTPEER: usize = 0x5441;
/// `ioctl` request: get and set a terminal's modes.
const TCGETS: usize = 0x5401;
const TCSETS: usize = 0x5402;

/// Input mode: a character may have several bytes, and is erased whole.
const IUTF8: u32 = 0o40_000;
/// The index of the end-of-file character.
const VEOF: usize = 4;

/// The modes of a terminal: the kernel's `struct termios`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Modes {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    line: u8,
    characters: [u8; 19],
}

/// `struct winsize`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct WindowSize {
    rows: u16,
    columns: u16,
    pixels: [u16; 2],
}

/// Lets the slave of a pty's master be opened.
///
/// # Errors
/// `ENOTTY` for another file.
pub fn unlock(master: impl Descriptor) -> Result<(), Errno> {
    let unlocked = 0i32;
    // SAFETY: the request reads one `int`.
    unsafe { ioctl(master, TIOCSPTLCK, &raw const unlocked as usize) }.map(drop)
}

/// The number of the slave of a pty's master in its devpts.
///
/// # Errors
/// `ENOTTY` for another file.
pub fn slave_number(master: impl Descriptor) -> Result<u32, Errno> {
    let mut number = 0u32;
    // SAFETY: the request writes one `unsigned int`.
    unsafe { ioctl(master, TIOCGPTN, &raw mut number as usize) }?;
    Ok(number)
}

/// Opens the slave of a pty's master, whatever the paths are. `flags` are those of `open`.
///
/// # Errors
/// `ENOTTY` for another file; `EINVAL` or `ENOTTY` before Linux 4.13.
pub fn open_slave(master: impl Descriptor, flags: i32) -> Result<Fd, Errno> {
    // SAFETY: the request takes a number.
    let raw = unsafe { ioctl(master, TIOCGPTPEER, flags.cast_unsigned() as usize) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Makes a terminal the controlling terminal of the caller's session, which the caller leads.
///
/// # Errors
/// `EPERM` if the caller leads no session, or either already has another.
pub fn take_controlling(terminal: impl Descriptor) -> Result<(), Errno> {
    // SAFETY: the request takes a number: 0, do not take it from another session.
    unsafe { ioctl(terminal, TIOCSCTTY, 0) }.map(drop)
}

/// Sets the size. The kernel sends SIGWINCH to the foreground process group if it changes.
///
/// # Errors
/// `ENOTTY` for another file.
pub fn set_size(terminal: impl Descriptor, rows: u16, columns: u16) -> Result<(), Errno> {
    let size = WindowSize {
        rows,
        columns,
        pixels: [0; 2],
    };
    // SAFETY: the request reads one record.
    unsafe { ioctl(terminal, TIOCSWINSZ, &raw const size as usize) }.map(drop)
}

fn modes(terminal: impl Descriptor) -> Result<Modes, Errno> {
    let mut modes = Modes::default();
    // SAFETY: the request writes one record.
    unsafe { ioctl(terminal, TCGETS, &raw mut modes as usize) }?;
    Ok(modes)
}

/// Lets the line editor erase characters of several bytes as one.
///
/// # Errors
/// `ENOTTY` for another file.
pub fn set_utf8(terminal: impl Descriptor) -> Result<(), Errno> {
    let mut modes = modes(&terminal)?;
    modes.input |= IUTF8;
    // SAFETY: the request reads one record.
    unsafe { ioctl(terminal, TCSETS, &raw const modes as usize) }.map(drop)
}

/// The end-of-file character: that of the terminal's modes, or else Ctrl-D.
pub fn end_of_file(terminal: impl Descriptor) -> u8 {
    const CONTROL_D: u8 = 4;
    match modes(terminal) {
        Ok(modes) if modes.characters[VEOF] != 0 => modes.characters[VEOF],
        // Unset; or no terminal, whose reader gets a byte that it did not ask for.
        _ => CONTROL_D,
    }
}
