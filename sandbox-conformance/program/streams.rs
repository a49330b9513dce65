//! Calls on standard input, output and error.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::call::write_all;
use crate::call_result::{CallResult, Denied, done, print_to};
use crate::kernel;

/// Bytes that depend on their position, so that a loss, a repetition or a change is visible.
pub fn pattern(start: usize, length: usize) -> Vec<u8> {
    (start..start + length)
        .map(|index| (index % 251) as u8)
        .collect()
}

/// Writes this many bytes to standard output and this many to standard error. The result line goes
/// to the stream with fewer.
pub fn emit(out: usize, error: usize) -> CallResult {
    for (descriptor, length) in [(1, out), (2, error)] {
        let mut position = 0;
        while position < length {
            let piece = pattern(position, (length - position).min(65536));
            write_all(descriptor, &piece);
            position += piece.len();
        }
    }
    Err(Denied::Silent(print_to(
        if out > error { 2 } else { 1 },
        done(),
    )))
}

/// Copies standard input to standard output.
pub fn echo() -> CallResult {
    let mut piece = vec![0u8; 65536];
    loop {
        match kernel!(READ, 0usize, piece.as_mut_slice(), piece.len())? {
            0 => return Err(Denied::Silent(0)),
            count => write_all(1, &piece[..count]),
        }
    }
}

/// Writes one text to each stream in turn, a few times.
pub fn both(out: &str, error: &str) -> CallResult {
    for _ in 0..4 {
        write_all(1, out.as_bytes());
        write_all(2, error.as_bytes());
    }
    Err(Denied::Silent(0))
}

/// Writes this many numbered lines to each stream in turn, with one system call each, and exits
/// with `code`.
pub fn lines(count: usize, code: usize) -> CallResult {
    for number in 0..count {
        let line = format!("{number}\n");
        write_all(1, line.as_bytes());
        write_all(2, line.as_bytes());
    }
    Err(Denied::Silent(code as i32))
}

/// Prints `ready`, reads standard input to its end, and then writes it backwards. Like a sorting
/// program, it cannot begin before the end.
pub fn reverse() -> CallResult {
    write_all(1, b"ready\n");
    let mut all = Vec::new();
    let mut piece = [0u8; 4096];
    loop {
        match kernel!(READ, 0usize, piece.as_mut_slice(), piece.len())? {
            0 => break,
            count => all.extend_from_slice(&piece[..count]),
        }
    }
    all.reverse();
    write_all(1, &all);
    Err(Denied::Silent(0))
}
