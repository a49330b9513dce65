//! The start of a freestanding program, its heap and its last words.

use core::arch::global_asm;
use core::fmt::Write;

use crate::environment::Environment;
use crate::heap::Heap;
use crate::io::Writer;
use crate::process::exit;

#[global_allocator]
static HEAP: Heap = Heap::new();

unsafe extern "Rust" {
    fn sandbox_freestanding_main(environment: Environment) -> i32;
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym start,
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x0, sp",
    "and sp, x0, #-16",
    "bl {start}",
    "brk #1",
    start = sym start,
);

unsafe extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: `_start` passes the stack pointer as the kernel set it; `entry!` defines the function.
    exit(unsafe { sandbox_freestanding_main(Environment::from_stack(stack)) })
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let mut stderr = Writer::new(2);
    // Nobody is left to hear of a failure.
    let _ = writeln!(stderr, "panic: {info}");
    drop(stderr);
    exit(101)
}

/// The compiler's tables name this function even where nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// As [`rust_eh_personality`].
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(101)
}
