//! Objects that processes find by name: created, found, removed.
//!
//! The first argument is the kind: `file`, `memory` for System V shared memory, or `queue` for a
//! POSIX message queue. The second is the name: a path, a number, or a word.

use crate::runtime::Errno;

use crate::ProbeArguments;
use crate::call::{O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_WRONLY, close, open};
use crate::call_result::{CallResult, Denied, done};
use crate::kernel;

const UNKNOWN: Denied = Denied::Word("nonsense");
const FOR_ALL: usize = 0o666;
const IPC_CREAT: usize = 0o1000;
const IPC_EXCL: usize = 0o2000;
const IPC_RMID: usize = 0;

/// Creates the object and leaves it there.
pub fn share(arguments: &ProbeArguments) -> CallResult {
    match arguments.text(0) {
        "file" => close(open(arguments.path(1), O_WRONLY | O_CREAT | O_EXCL)?),
        "memory" => {
            let flags = IPC_CREAT | IPC_EXCL | FOR_ALL;
            kernel!(SHMGET, arguments.number(1), 4096usize, flags)?;
        }
        "queue" => {
            let flags = O_CREAT | O_EXCL | O_RDWR;
            let made = kernel!(MQ_OPEN, arguments.path(1), flags, FOR_ALL, 0usize);
            unless_forbidden(made)?;
        }
        _ => return Err(UNKNOWN),
    }
    done()
}

/// Closes a queue. One that may not be opened exists anyway: Landlock decides after the
/// kernel has created or found it.
fn unless_forbidden(opened: Result<usize, Errno>) -> Result<(), Errno> {
    match opened {
        Err(Errno::EACCES) => Ok(()),
        Err(error) => Err(error),
        Ok(queue) => {
            close(queue as i32);
            Ok(())
        }
    }
}

/// Whether the object exists.
pub fn find(arguments: &ProbeArguments) -> CallResult {
    match arguments.text(0) {
        "file" => close(open(arguments.path(1), O_RDONLY)?),
        // Without requested permissions, the call finds an object of any owner.
        "memory" => {
            kernel!(SHMGET, arguments.number(1), 0usize, 0usize)?;
        }
        "queue" => {
            let found = kernel!(MQ_OPEN, arguments.path(1), O_RDONLY, 0usize, 0usize);
            unless_forbidden(found)?;
        }
        _ => return Err(UNKNOWN),
    }
    done()
}

/// Removes the object.
pub fn unshare(arguments: &ProbeArguments) -> CallResult {
    match arguments.text(0) {
        "file" => kernel!(UNLINKAT, crate::call::AT_FDCWD, arguments.path(1), 0usize)?,
        "memory" => {
            let number = kernel!(SHMGET, arguments.number(1), 0usize, 0usize)?;
            kernel!(SHMCTL, number, IPC_RMID, 0usize)?
        }
        "queue" => kernel!(MQ_UNLINK, arguments.path(1))?,
        _ => return Err(UNKNOWN),
    };
    done()
}
