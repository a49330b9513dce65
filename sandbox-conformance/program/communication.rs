//! Ways in which a process and its child communicate.

use alloc::string::String;

use crate::runtime::Errno;

use crate::call::{close, poll, write_all};
use crate::call_result::{CallResult, Denied};
use crate::forking::{child, reap};
use crate::kernel;

const PAGE: usize = 4096;
const READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const AF_UNIX: usize = 1;
const SOCK_STREAM: usize = 1;
const IPC_CREAT: usize = 0o1000;
const IPC_NOWAIT: usize = 0o4000;
const IPC_RMID: usize = 0;
const GETVAL: usize = 12;
const POLLIN: u32 = 1;

/// What the child writes.
const SIGN: u8 = 0x5a;

/// The ways that work, of `pipe`, `unix`, `memory`, `segment`, `queue` and `semaphore`. System V
/// objects that are refused are left out. Any other failure is the result.
pub fn communicate() -> CallResult {
    let ways: [(&str, Result<(), Denied>); 6] = [
        ("pipe", pipe()),
        ("unix", unix()),
        ("memory", memory()),
        ("segment", segment().or_else(unless_refused)),
        ("queue", queue().or_else(unless_refused)),
        ("semaphore", semaphore().or_else(unless_refused)),
    ];
    let mut working = String::new();
    for (name, result) in ways {
        match result {
            Ok(()) => {
                if !working.is_empty() {
                    working.push(',');
                }
                working += name;
            }
            Err(Denied::Word("refused")) => {}
            Err(denied) => return Err(denied),
        }
    }
    Ok(working)
}

fn unless_refused(denied: Denied) -> Result<(), Denied> {
    Err(match denied {
        Denied::Errors(errors) if matches!(errors[..], [Errno::ENOSYS | Errno::EPERM]) => {
            Denied::Word("refused")
        }
        denied => denied,
    })
}

/// Success if the byte is what the child wrote.
fn is_sign(byte: u8) -> Result<(), Denied> {
    match byte {
        SIGN => Ok(()),
        _ => Err(Denied::Word("lost")),
    }
}

fn pipe() -> Result<(), Denied> {
    let mut ends = [0i32; 2];
    kernel!(PIPE2, ends.as_mut_slice(), 0usize)?;
    through(ends)
}

fn unix() -> Result<(), Denied> {
    let mut ends = [0i32; 2];
    kernel!(
        SOCKETPAIR,
        AF_UNIX,
        SOCK_STREAM,
        0usize,
        ends.as_mut_slice()
    )?;
    through(ends)
}

fn through([from, to]: [i32; 2]) -> Result<(), Denied> {
    let writer = child(|| write_all(to, &[SIGN]))?;
    let mut byte = [0u8];
    if poll(from, POLLIN, 1000)? {
        kernel!(READ, from, byte.as_mut_slice(), 1usize)?;
    }
    reap(writer)?;
    close(from);
    close(to);
    is_sign(byte[0])
}

/// A file without a name that both have mapped.
fn memory() -> Result<(), Denied> {
    let file = kernel!(MEMFD_CREATE, c"shared", 0usize)? as i32;
    kernel!(FTRUNCATE, file, PAGE)?;
    let start = kernel!(MMAP, 0usize, PAGE, READ_WRITE, MAP_SHARED, file, 0usize)?;
    let byte = written_by_child(start)?;
    kernel!(MUNMAP, start, PAGE)?;
    close(file);
    is_sign(byte)
}

/// A System V segment that both have attached.
fn segment() -> Result<(), Denied> {
    let segment = kernel!(SHMGET, 0usize, PAGE, IPC_CREAT | 0o600)?;
    let attached = kernel!(SHMAT, segment, 0usize, 0usize);
    // It stays until nobody has it attached.
    kernel!(SHMCTL, segment, IPC_RMID, 0usize)?;
    let start = attached?;
    let byte = written_by_child(start)?;
    kernel!(SHMDT, start)?;
    is_sign(byte)
}

/// The byte at `start`, which a child has written.
fn written_by_child(start: usize) -> Result<u8, Errno> {
    let byte = start as *mut u8;
    // SAFETY: the page is mapped in this process and its child, and is writable.
    reap(child(|| unsafe { byte.write_volatile(SIGN) })?)?;
    // SAFETY: the page is mapped, and the child has ended.
    Ok(unsafe { byte.read_volatile() })
}

/// A System V message queue.
fn queue() -> Result<(), Denied> {
    let queue = kernel!(MSGGET, 0usize, IPC_CREAT | 0o600)?;
    // The type of the message, and its only byte.
    let sent = [1usize, usize::from(SIGN)];
    let mut received = [0usize; 2];
    let sender = child(|| drop(kernel!(MSGSND, queue, sent.as_slice(), 1usize, IPC_NOWAIT)))?;
    reap(sender)?;
    let count = kernel!(
        MSGRCV,
        queue,
        received.as_mut_slice(),
        1usize,
        1usize,
        IPC_NOWAIT
    );
    kernel!(MSGCTL, queue, IPC_RMID, 0usize)?;
    count?;
    is_sign(received[1].to_le_bytes()[0])
}

/// A System V semaphore, which the child raises.
fn semaphore() -> Result<(), Denied> {
    let semaphore = kernel!(SEMGET, 0usize, 1usize, IPC_CREAT | 0o600)?;
    // Semaphore 0, by 1, without flags.
    let raise = [0i16, 1, 0];
    reap(child(|| {
        drop(kernel!(SEMOP, semaphore, raise.as_slice(), 1usize))
    })?)?;
    let value = kernel!(SEMCTL, semaphore, 0usize, GETVAL, 0usize);
    kernel!(SEMCTL, semaphore, 0usize, IPC_RMID, 0usize)?;
    match value? {
        1 => Ok(()),
        _ => Err(Denied::Word("lost")),
    }
}
