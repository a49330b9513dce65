//! What a try says.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::call;

/// Success, with what it yielded, or the signs by which it was stopped.
pub type Said = Result<String, Denied>;

/// The signs by which something was stopped.
pub enum Denied {
    /// What the kernel answered to each try.
    Errors(Vec<Errno>),
    /// No error: the thing is not there, or has no effect.
    Word(&'static str),
    /// The program already said what there is to say.
    Silent(i32),
}

impl From<Errno> for Denied {
    fn from(error: Errno) -> Self {
        Denied::Errors(Vec::from([error]))
    }
}

/// Success that says it all.
pub fn done() -> Said {
    Ok(String::new())
}

/// Success when one try succeeds, else what the kernel answered to each.
pub fn any<T>(tries: impl IntoIterator<Item = Result<T, Errno>>) -> Said {
    let mut errors = Vec::new();
    for result in tries {
        match result {
            Ok(_) => return done(),
            Err(error) => errors.push(error),
        }
    }
    Err(Denied::Errors(errors))
}

/// Prints the line and gives the exit code.
pub fn print(said: Said) -> i32 {
    print_to(1, said)
}

/// As [`print`], to another descriptor.
pub fn print_to(descriptor: i32, said: Said) -> i32 {
    let line = match said {
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

/// The exit code of a call that makes no sense.
pub const WRONG_USAGE: i32 = 64;

/// Ends the program with a word that no probe accepts as a sign: what was asked for cannot be tried, and what could be tried instead
/// would be another attack.
pub fn give_up(word: &'static str) -> ! {
    print(Err(Denied::Word(word)));
    crate::runtime::process::exit(WRONG_USAGE)
}
