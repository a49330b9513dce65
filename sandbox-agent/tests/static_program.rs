//! Compiles a freestanding program and runs it.

use std::path::PathBuf;
use std::process::{Command, Output};

use build::StaticProgram;

#[path = "../src/runtime/build.rs"]
#[expect(dead_code, reason = "only build scripts use `compile_or_exit`")]
mod build;

const ROOT: &str = r#"
#![no_std]
#![no_main]
extern crate alloc;
extern crate runtime;
use alloc::{format, string::String, vec::Vec};
use runtime::{clone, environment::Environment, io, process};

runtime::entry!(main);

fn main(environment: Environment) -> i32 {
    let arguments: Vec<&str> = environment.arguments().map(|text| text.to_str().unwrap()).collect();
    match arguments.get(1) {
        Some(&"echo") => {
            let variables: Vec<String> =
                environment.variables().map(|text| String::from(text.to_str().unwrap())).collect();
            let text = format!("{:?} {:?}\n", &arguments[2..], variables);
            io::write_all(1, text.as_bytes()).unwrap();
            0
        }
        Some(&"allocate") => {
            let blocks: Vec<Vec<u8>> = (0..1000).map(|size| alloc::vec![size as u8; size * 20]).collect();
            let intact = blocks.iter().enumerate().all(|(size, block)| block.iter().all(|byte| *byte == size as u8));
            i32::from(!intact)
        }
        // SAFETY: this process has one thread.
        Some(&"fork") => match unsafe { clone::fork() }.unwrap() {
            None => process::exit(7),
            Some(pid) => match process::wait_for(pid).unwrap() {
                process::Wait::Exited(code) => i32::from(code) * 6,
                process::Wait::Signaled(_) => 1,
            },
        },
        Some(&"panic") => panic!("as asked: {}", arguments.len()),
        _ => 3,
    }
}
"#;

fn program() -> PathBuf {
    static ONCE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    ONCE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        let root = folder.join("root.rs");
        std::fs::write(&root, ROOT).unwrap();
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        // SAFETY: the test sets them once, before any other thread reads the environment for them.
        unsafe {
            std::env::set_var("OUT_DIR", &folder);
            std::env::set_var("TARGET", target);
        }
        StaticProgram::new("hello", root).compile().unwrap()
    })
    .clone()
}

fn run(arguments: &[&str]) -> Output {
    Command::new(program())
        .args(arguments)
        .env_clear()
        .env("A", "b")
        .output()
        .unwrap()
}

#[test]
fn program_receives_arguments_and_variables() {
    let output = run(&["echo", "x", "y z"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "[\"x\", \"y z\"] [\"A=b\"]\n"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn allocations_keep_their_content_and_fork_works() {
    assert_eq!(run(&["allocate"]).status.code(), Some(0));
    assert_eq!(run(&["fork"]).status.code(), Some(42));
    assert_eq!(run(&[]).status.code(), Some(3));
}

#[test]
fn panic_prints_its_message_and_exits_with_101() {
    let output = run(&["panic"]);
    assert_eq!(output.status.code(), Some(101));
    assert!(String::from_utf8_lossy(&output.stderr).contains("as asked: 2"));
}
