//! Passing a descriptor on to another program.

use crate::runtime::Errno;

use crate::call::{now, pause, poll, write_all};
use crate::call_result::{CallResult, done};
use crate::kernel;
use crate::network::{STREAM, named, socket_unix};

/// How long the two programs wait for each other, in milliseconds.
const WAIT: usize = 5000;
/// How long the descriptor is held: longer than its execution may take.
const HELD: usize = 20_000;

/// The control message with one descriptor: its length, `SOL_SOCKET` and `SCM_RIGHTS`.
fn rights(descriptor: i32) -> [u64; 3] {
    [20, 1 | 1 << 32, u64::from(descriptor as u32)]
}

/// A message of one byte with a control message.
fn header(parts: &[usize; 2], control: &mut [u64; 3]) -> [usize; 7] {
    let control = control.as_mut_ptr() as usize;
    [0, 0, parts.as_ptr() as usize, 1, control, 24, 0]
}

/// Waits for a descriptor at this path, and holds it.
pub fn hold(path: &str) -> CallResult {
    let address = named(path);
    let listener = socket_unix(STREAM)?;
    kernel!(BIND, listener, address.as_slice(), address.len())?;
    kernel!(LISTEN, listener, 1usize)?;
    if !poll(listener, 1, WAIT)? {
        return Err(Errno::ETIMEDOUT.into());
    }
    let peer = kernel!(ACCEPT4, listener, 0usize, 0usize, 0usize)? as i32;
    let mut byte = [0u8];
    let parts = [byte.as_mut_ptr() as usize, 1];
    let mut control = rights(0);
    let mut message = header(&parts, &mut control);
    kernel!(RECVMSG, peer, message.as_mut_slice(), 0usize)?;
    write_all(peer, b"x");
    pause(HELD);
    done()
}

/// Writes a text, passes standard output to the program that holds it, and ends.
pub fn hand(path: &str, text: &str) -> CallResult {
    write_all(1, text.as_bytes());
    let address = named(path);
    let peer = socket_unix(STREAM)?;
    let end = now() + WAIT;
    while let Err(error) = kernel!(CONNECT, peer, address.as_slice(), address.len()) {
        if now() > end {
            return Err(error.into());
        }
        pause(20);
    }
    let byte = [b'x'];
    let parts = [byte.as_ptr() as usize, 1];
    let mut control = rights(1);
    let message = header(&parts, &mut control);
    kernel!(SENDMSG, peer, message.as_slice(), 0usize)?;
    match poll(peer, 1, WAIT)? {
        true => done(),
        false => Err(Errno::ETIMEDOUT.into()),
    }
}
