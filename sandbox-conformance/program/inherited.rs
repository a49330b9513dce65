//! What the program inherited: variables and descriptors.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::ProbeArguments;
use crate::call_result::{CallResult, Denied, done};
use crate::kernel;

/// The value of a variable.
pub fn variable(arguments: &ProbeArguments) -> CallResult {
    let name = arguments.text(0);
    for entry in arguments.variables() {
        if let Some((found, value)) = entry.to_str().ok().and_then(|entry| entry.split_once('='))
            && found == name
        {
            return Ok(String::from(value));
        }
    }
    Err(Denied::Word("absent"))
}

/// The names of all variables except the listed ones, sorted.
pub fn variables(arguments: &ProbeArguments) -> CallResult {
    let expected: Vec<&str> = arguments.texts().collect();
    let mut names = Vec::new();
    for entry in arguments.variables() {
        let name = entry
            .to_str()
            .unwrap_or("?")
            .split('=')
            .next()
            .unwrap_or("?");
        if !expected.contains(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    if names.is_empty() {
        Err(Denied::Word("absent"))
    } else {
        Ok(names.join(","))
    }
}

/// Whether the environment of any visible process contains the text.
pub fn variables_of_others(text: &str) -> CallResult {
    for pid in crate::processes::visible()? {
        let Ok(path) = CString::new(format!("/proc/{pid}/environ")) else {
            continue;
        };
        if let Ok(content) = crate::files::content(&path)
            && content
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        {
            return done();
        }
    }
    Err(Denied::Word("absent"))
}

/// The largest number of a descriptor, by the kernel's default `fs.nr_open`. A limit of open files
/// does not close those above it.
const MOST_DESCRIPTORS: i32 = 1 << 20;

/// The open descriptors above standard error.
pub fn descriptors() -> CallResult {
    let mut found = Vec::new();
    for number in 3..MOST_DESCRIPTORS {
        match kernel!(FCNTL, number, 1usize, 0usize) {
            Err(Errno::EBADF) => {}
            _ => found.push(number.to_string()),
        }
    }
    if found.is_empty() {
        Err(Denied::Word("absent"))
    } else {
        Ok(found.join(","))
    }
}
