//! The system call instruction of x86_64.

use core::arch::{asm, naked_asm};
use core::ffi::c_void;

/// The value of `seccomp_data.arch` for native calls: `AUDIT_ARCH_X86_64`.
pub const AUDIT_ARCH: u32 = 0xc000_003e;

macro_rules! define {
    ($($function:ident($($argument:ident in $register:tt),*);)*) => {
        $(
            /// Makes the system call `number` and returns the kernel's return value.
            ///
            /// # Safety
            /// The arguments must be what the call expects: pointers valid for what the kernel
            /// reads and writes, and an effect on the process that Rust's rules allow.
            #[inline]
            pub unsafe fn $function(number: usize $(, $argument: usize)*) -> isize {
                let word: isize;
                // SAFETY: the caller vouches for the arguments; the kernel clobbers rcx and r11
                // only.
                unsafe {
                    asm!(
                        "syscall",
                        inlateout("rax") number => word,
                        $(in($register) $argument,)*
                        lateout("rcx") _,
                        lateout("r11") _,
                        options(nostack),
                    );
                }
                word
            }
        )*
    };
}

define! {
    syscall0();
    syscall1(a in "rdi");
    syscall2(a in "rdi", b in "rsi");
    syscall3(a in "rdi", b in "rsi", c in "rdx");
    syscall4(a in "rdi", b in "rsi", c in "rdx", d in "r10");
    syscall5(a in "rdi", b in "rsi", c in "rdx", d in "r10", e in "r8");
    syscall6(a in "rdi", b in "rsi", c in "rdx", d in "r10", e in "r8", f in "r9");
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
    // r12 and r13 survive the call into the child; the parent restores them.
    naked_asm!(
        "push r12",
        "push r13",
        "mov r12, rsi",
        "mov r13, rdx",
        "mov r11, rdi",
        "mov rax, [r11]",
        "mov rdi, [r11 + 8]",
        "mov rsi, [r11 + 16]",
        "mov rdx, [r11 + 24]",
        "mov r10, [r11 + 32]",
        "mov r8, [r11 + 40]",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "pop r13",
        "pop r12",
        "ret",
        "2:",
        "xor ebp, ebp",
        "mov rdi, r13",
        "call r12",
        "ud2",
    )
}
