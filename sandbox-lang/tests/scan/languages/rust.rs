//! Rust.

use sandbox_lang::scan::Category;

use super::expect::{clean, does, restricted};

#[test]
fn paths_are_found() {
    restricted(
        "rust",
        "std::process",
        &[
            "use std::process::Command;",
            "use std::{fs, process::{self, Command as C}};",
            "use ::std::process::*;",
            "fn main() { std::process::Command::new(\"ls\"); }",
            "fn main() { ::std::process::exit(1); }",
            "fn main() { println!(\"{:?}\", std::process::Command::new(\"ls\")); }",
            "use std as s; fn main() { s::process::abort(); }",
            "use r#std::process;",
            "use std::r#process::Command;",
            "type C = std::process::Command;",
        ],
    );
    restricted("rust", "libc", &["extern crate libc as l;"]);
    does(
        "rust",
        Category::Process,
        &[
            "use std::process::Command as C; fn main() { C::new(\"ls\"); }",
            "use std::process; fn main() { process::Command::new(\"ls\"); }",
            "use std::process::*; fn main() { Command::new(\"ls\"); }",
        ],
    );
    does(
        "rust",
        Category::Native,
        &[
            "fn main() { unsafe { x() } }",
            "unsafe extern \"C\" { fn x(); }",
        ],
    );
    clean(
        "rust",
        "std::process",
        &[
            "fn main() { println!(\"use std::process;\"); }",
            "// use std::process;\nfn process() {}",
        ],
    );
}
