//! Calls of 32-bit programs. Their numbers differ, so a filter that ignores the architecture
//! confuses them.

use crate::runtime::Errno;
use crate::runtime::syscall::result;

use crate::call_result::{CallResult, done};

/// Makes a system call by interrupt 0x80.
#[cfg(target_arch = "x86_64")]
fn interrupt(number: usize, first: usize) -> Result<usize, Errno> {
    let word: i32;
    // SAFETY: rbx is saved around the call. These calls take one number and access no memory.
    unsafe {
        core::arch::asm!(
            "xchg rbx, {first}",
            "int 0x80",
            "xchg rbx, {first}",
            first = inout(reg) first => _,
            inlateout("eax") number as i32 => word,
            in("ecx") 0,
            in("edx") 0,
            in("esi") 0,
            in("edi") 0,
            lateout("r8") _,
            lateout("r9") _,
            lateout("r10") _,
            lateout("r11") _,
        );
    }
    result(word as isize)
}

#[cfg(not(target_arch = "x86_64"))]
fn interrupt(_number: usize, _first: usize) -> Result<usize, Errno> {
    Err(Errno::ENOSYS)
}

/// unshare(CLONE_NEWUSER).
pub fn namespace() -> CallResult {
    interrupt(310, crate::kernel_surface::CLONE_NEWUSER)?;
    done()
}

/// fork().
pub fn fork() -> CallResult {
    match interrupt(2, 0)? {
        0 => crate::runtime::process::exit(7),
        pid => match crate::forking::reap(pid)? {
            0x0700 => done(),
            _ => Err(Errno::ECHILD.into()),
        },
    }
}
