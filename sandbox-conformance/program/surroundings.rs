//! What was handed to the program: variables and descriptors.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::Arguments;
use crate::kernel;
use crate::said::{Denied, Said, done};

/// The value of a variable.
pub fn variable(arguments: &Arguments) -> Said {
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

/// The names of all variables but those that the arguments list, sorted.
pub fn variables(arguments: &Arguments) -> Said {
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

/// Whether the environment of any visible process holds the text.
pub fn variables_of_others(text: &str) -> Said {
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

/// The open descriptors above standard error.
pub fn descriptors() -> Said {
    let mut found = Vec::new();
    for number in 3..4096i32 {
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
