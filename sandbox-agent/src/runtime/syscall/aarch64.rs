//! The system call instruction of aarch64.

use core::arch::{asm, naked_asm};
use core::ffi::c_void;

/// The value of `seccomp_data.arch` for native calls: `AUDIT_ARCH_AARCH64`.
pub const AUDIT_ARCH: u32 = 0xc000_00b7;

macro_rules! define {
    ($($function:ident($first:ident $(, $argument:ident in $register:tt)*);)*) => {
        $(
            /// Makes the system call `number` and returns the kernel's return value.
            ///
            /// # Safety
            /// The arguments must be what the call expects: pointers valid for what the kernel
            /// reads and writes, and an effect on the process that Rust's rules allow.
            #[inline]
            pub unsafe fn $function(
                number: usize,
                $first: usize
                $(, $argument: usize)*
            ) -> isize {
                let word: isize;
                // SAFETY: the caller vouches for the arguments; the kernel changes x0 only.
                unsafe {
                    asm!(
                        "svc 0",
                        in("x8") number,
                        inlateout("x0") $first => word,
                        $(in($register) $argument,)*
                        options(nostack),
                    );
                }
                word
            }
        )*
    };
}

define! {
    syscall1(a);
    syscall2(a, b in "x1");
    syscall3(a, b in "x1", c in "x2");
    syscall4(a, b in "x1", c in "x2", d in "x3");
    syscall5(a, b in "x1", c in "x2", d in "x3", e in "x4");
    syscall6(a, b in "x1", c in "x2", d in "x3", e in "x4", f in "x5");
}

/// Makes the system call `number` and returns the kernel's return value.
///
/// # Safety
/// The call must have an effect on the process that Rust's rules allow.
#[inline]
pub unsafe fn syscall0(number: usize) -> isize {
    // SAFETY: the caller vouches for the call; a call without arguments ignores the register.
    unsafe { syscall1(number, 0) }
}

/// Makes a clone call whose child starts at `entry(argument)` on its own stack instead of
/// returning. `arguments` holds the call's number and its five arguments. The parent receives the
/// kernel's return value; the child must not return from `entry`.
///
/// # Safety
/// The clone's arguments must name a stack, 16-byte aligned at its top, that lives for as long as
/// the child uses it; `entry` must obey what the shared resources demand.
#[unsafe(naked)]
pub unsafe extern "C" fn clone_onto(
    arguments: &[usize; 6],
    entry: unsafe extern "C" fn(*mut c_void) -> !,
    argument: *mut c_void,
) -> isize {
    // The kernel preserves every register but x0, in the child too.
    naked_asm!(
        "mov x9, x0",
        "mov x10, x1",
        "mov x11, x2",
        "ldr x8, [x9]",
        "ldp x0, x1, [x9, #8]",
        "ldp x2, x3, [x9, #24]",
        "ldr x4, [x9, #40]",
        "svc 0",
        "cbz x0, 2f",
        "ret",
        "2:",
        "mov x29, xzr",
        "mov x30, xzr",
        "mov x0, x11",
        "blr x10",
        "brk #1",
    )
}
