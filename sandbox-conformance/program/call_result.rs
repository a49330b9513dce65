//! The result of a call.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::call;

/// Success with a value, or the signs of a denial.
pub type CallResult = Result<String, Denied>;

/// The signs of a denial.
pub enum Denied {
    /// The kernel's answer to each call.
    Errors(Vec<Errno>),
    /// No error, but the object is absent or the call has no effect.
    Word(&'static str),
    /// The program has already printed the result.
    Silent(i32),
}

impl From<Errno> for Denied {
    fn from(error: Errno) -> Self {
        Denied::Errors(Vec::from([error]))
    }
}

/// Success without a value.
pub fn done() -> CallResult {
    Ok(String::new())
}

/// Success if one call succeeds, else the kernel's answer to each.
pub fn any<T>(tries: impl IntoIterator<Item = Result<T, Errno>>) -> CallResult {
    let mut errors = Vec::new();
    for result in tries {
        match result {
            Ok(_) => return done(),
            Err(error) => errors.push(error),
        }
    }
    Err(Denied::Errors(errors))
}

/// The names of the calls that succeeded; without one, the kernel's answer to each.
pub fn through(tries: impl IntoIterator<Item = (String, Result<usize, Errno>)>) -> CallResult {
    let mut names = Vec::new();
    let mut refusals = Vec::new();
    for (name, result) in tries {
        match result {
            Ok(_) => names.push(name),
            Err(error) => refusals.push(error),
        }
    }
    match names.is_empty() {
        true => Err(Denied::Errors(refusals)),
        false => Ok(names.join(",")),
    }
}

/// Prints the result line and returns the exit code.
pub fn print(result: CallResult) -> i32 {
    print_to(1, result)
}

/// As [`print`], to another descriptor.
pub fn print_to(descriptor: i32, result: CallResult) -> i32 {
    let line = match result {
        Ok(value) if value.is_empty() => String::from("result=ok\n"),
        Ok(value) => format!("result=value:{value}\n"),
        Err(Denied::Errors(errors)) => {
            let names: Vec<String> = errors.iter().map(ToString::to_string).collect();
            format!("result=errno:{}\n", names.join(","))
        }
        Err(Denied::Word(word)) => format!("result=denied:{word}\n"),
        Err(Denied::Silent(code)) => return code,
    };
    call::write_all(descriptor, line.as_bytes());
    0
}

/// The exit code of wrong usage.
pub const WRONG_USAGE: i32 = 64;

/// Ends the program with a sign that no probe accepts, because the requested call cannot be tried.
pub fn give_up(word: &'static str) -> ! {
    print(Err(Denied::Word(word)));
    crate::runtime::process::exit(WRONG_USAGE)
}
