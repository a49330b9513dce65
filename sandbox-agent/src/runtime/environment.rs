//! Arguments and environment variables of a program.

use core::ffi::{CStr, c_char};

/// Arguments and variables on the initial stack.
#[derive(Debug, Clone, Copy)]
pub struct Environment {
    arguments: &'static [*const c_char],
    variables: &'static [*const c_char],
}

impl Environment {
    /// Reads the initial stack: count, arguments, null, variables, null.
    ///
    /// # Safety
    /// `stack` must be the stack pointer as the kernel set it.
    pub unsafe fn from_stack(stack: *const usize) -> Environment {
        // SAFETY: the kernel wrote the count, so many pointers and a null, then pointers up to a
        // null.
        unsafe {
            let count = stack.read();
            let start = stack.add(1).cast::<*const c_char>();
            let variables = start.add(count + 1);
            let mut length = 0;
            while !variables.add(length).read().is_null() {
                length += 1;
            }
            Environment {
                arguments: core::slice::from_raw_parts(start, count),
                variables: core::slice::from_raw_parts(variables, length),
            }
        }
    }

    /// The arguments, the program's name first.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &'static CStr> {
        // SAFETY: the kernel's pointers name nul-terminated strings that live as long as the
        // process.
        self.arguments
            .iter()
            .map(|text| unsafe { CStr::from_ptr(*text) })
    }

    /// The variables as `NAME=value`.
    pub fn variables(&self) -> impl ExactSizeIterator<Item = &'static CStr> {
        // SAFETY: as for the arguments.
        self.variables
            .iter()
            .map(|text| unsafe { CStr::from_ptr(*text) })
    }
}
