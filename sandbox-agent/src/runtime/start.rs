//! The entry point, the global allocator and the panic handler of a freestanding program.

use core::arch::global_asm;
use core::fmt::Write;

use crate::runtime::environment::Environment;
use crate::runtime::fd_writer::FdWriter;
use crate::runtime::heap::Heap;
use crate::runtime::process::exit;

#[global_allocator]
static HEAP: Heap = Heap::new();

unsafe extern "Rust" {
    fn freestanding_main(environment: Environment) -> i32;
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
    // SAFETY: `_start` passes the stack pointer as the kernel set it; `entry!` defines the
    // function.
    exit(unsafe { freestanding_main(Environment::from_stack(stack)) })
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let mut stderr = FdWriter::new(2);
    // A failure to write cannot be reported anywhere.
    let _ = writeln!(stderr, "panic: {info}");
    drop(stderr);
    exit(101)
}

/// Unwind tables refer to this function, even without unwinding.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// As [`rust_eh_personality`].
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(101)
}
