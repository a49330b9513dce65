//! Compiles freestanding programs, in build scripts and in tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt, fs};

/// Why a program could not be built.
#[derive(Debug)]
pub struct BuildError(String);

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildError {}

/// Folder of the runtime's sources, relative to the folder of every package of the workspace.
const SOURCES: &str = "../sandbox-agent/src";

/// A freestanding program: its name and the root file of its crate.
///
/// The root file begins with `#![no_std]` and `#![no_main]`, declares `extern crate runtime`, and
/// calls `runtime::entry!`.
#[derive(Debug)]
pub struct StaticProgram {
    name: String,
    root: PathBuf,
}

impl StaticProgram {
    /// A program whose crate has its root at `root`, which is relative to the package's folder.
    pub fn new(name: &str, root: impl Into<PathBuf>) -> StaticProgram {
        StaticProgram {
            name: name.to_string(),
            root: root.into(),
        }
    }

    /// Compiles the program into `OUT_DIR/NAME` and returns its path. For an unsupported target,
    /// and on docs.rs, the file is empty.
    ///
    /// # Errors
    /// A variable of Cargo that is not set, a missing compiler or linker, or the messages of
    /// either.
    pub fn compile(&self) -> Result<PathBuf, BuildError> {
        let folder = PathBuf::from(variable("OUT_DIR")?);
        let program = folder.join(&self.name);
        let target = variable("TARGET")?;
        let linker_variable = linker_variable(&target);
        if env::var_os("DOCS_RS").is_some() || !is_supported(&target) {
            fs::write(&program, b"").map_err(|error| {
                BuildError(format!("cannot write {}: {error}", program.display()))
            })?;
            return Ok(program);
        }
        let compiler = Compiler {
            target,
            linker: env::var(linker_variable)
                .or_else(|_| env::var("RUSTC_LINKER"))
                .ok(),
        };
        let runtime_root = Path::new(SOURCES).join("runtime_root.rs");
        let runtime = folder.join("libruntime.rlib");
        compiler.compile_runtime(&runtime_root, &runtime)?;
        compiler.compile_program(&self.name, &self.root, &runtime, &program)?;
        Ok(program)
    }
}

fn is_supported(target: &str) -> bool {
    target.contains("-linux-")
        && (target.starts_with("x86_64-") || target.starts_with("aarch64-"))
        && !target.ends_with("x32")
}

/// Cargo's variable for the linker of `target`.
fn linker_variable(target: &str) -> String {
    let target = target.to_uppercase().replace(['-', '.'], "_");
    format!("CARGO_TARGET_{target}_LINKER")
}

fn variable(name: &str) -> Result<String, BuildError> {
    env::var(name).map_err(|_| BuildError(format!("{name} is not set: only Cargo sets it")))
}

struct Compiler {
    target: String,
    linker: Option<String>,
}

impl Compiler {
    fn compile_runtime(&self, root: &Path, output: &Path) -> Result<(), BuildError> {
        let mut command = self.command("runtime", "rlib");
        command.arg("-o").arg(output).arg(root);
        self.run("runtime", command)
    }

    fn compile_program(
        &self,
        name: &str,
        root: &Path,
        runtime: &Path,
        output: &Path,
    ) -> Result<(), BuildError> {
        let mut command = self.command(&name.replace('-', "_"), "bin");
        let mut dependency = OsString::from("runtime=");
        dependency.push(runtime);
        command.arg("--extern").arg(dependency);
        for argument in [
            "-nostartfiles",
            "-nostdlib",
            "-static",
            "-no-pie",
            "-Wl,--gc-sections",
            "-Wl,--build-id=none",
            "-Wl,-z,norelro",
        ] {
            command.arg("-C").arg(format!("link-arg={argument}"));
        }
        if let Some(linker) = &self.linker {
            command.arg("-C").arg(format!("linker={linker}"));
        }
        command.arg("-o").arg(output).arg(root);
        self.run(name, command)
    }

    /// The compiler with the options that the runtime and the programs share.
    fn command(&self, crate_name: &str, crate_type: &str) -> Command {
        let compiler = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let mut command = Command::new(compiler);
        command
            .args(["--edition", "2024"])
            .args(["--crate-name", crate_name])
            .args(["--crate-type", crate_type])
            .args(["--cfg", "freestanding"])
            .args(["--check-cfg", "cfg(freestanding)"])
            .args(["--target", &self.target])
            .args(["--cap-lints", "warn"]);
        for option in [
            "panic=abort",
            "opt-level=3",
            "codegen-units=1",
            "debug-assertions=off",
            "overflow-checks=on",
            "relocation-model=static",
            "target-feature=+crt-static",
            "force-unwind-tables=no",
            "strip=symbols",
        ] {
            command.args(["-C", option]);
        }
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
        ] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, name: &str, mut command: Command) -> Result<(), BuildError> {
        let output = command.output().map_err(|error| {
            let compiler = Path::new(command.get_program()).display();
            BuildError(format!("cannot start {compiler}: {error}"))
        })?;
        if output.status.success() {
            return Ok(());
        }
        let messages = String::from_utf8_lossy(&output.stderr);
        if messages.contains("linker `") && messages.contains("not found") {
            return Err(BuildError(format!(
                "{name}: no linker for {}; install a C compiler (Debian, Ubuntu, Fedora: gcc; \
                 Alpine: build-base) or set RUSTC_LINKER",
                self.target
            )));
        }
        Err(BuildError(format!("{name} does not compile:\n{messages}")))
    }
}

/// Compiles the program for a build script, which runs again when a file in `folder`, the folder of
/// the program's sources, changes. Ends the build script with one line when compiling fails.
pub fn compile_or_exit(program: &StaticProgram, folder: &str) {
    let runtime_root = format!("{SOURCES}/runtime_root.rs");
    let runtime = format!("{SOURCES}/runtime");
    let numbers = format!("{SOURCES}/syscall_numbers");
    for source in [folder, &runtime_root, &runtime, &numbers] {
        println!("cargo::rerun-if-changed={source}");
    }
    let linker = linker_variable(&env::var("TARGET").unwrap_or_default());
    for name in ["DOCS_RS", "RUSTC_LINKER", &linker] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if let Err(error) = program.compile() {
        println!("cargo::error={}", error.to_string().replace('\n', "\\n "));
        std::process::exit(1);
    }
}
