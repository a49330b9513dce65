//! Compiles freestanding programs in build scripts.

use std::borrow::ToOwned;
use std::boxed::Box;
use std::format;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{env, fmt, fs, println};

/// Why a program could not be built, in one line.
#[derive(Debug)]
pub struct BuildError(String);

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildError {}

/// A freestanding program: a name, and the file that is its crate's root.
///
/// The root file begins with `#![no_std]` and `#![no_main]`, names the crate `sandbox_freestanding` like any dependency, and
/// calls [`crate::entry!`].
#[derive(Debug)]
pub struct StaticProgram {
    name: String,
    root: PathBuf,
    sources: Vec<PathBuf>,
}

impl StaticProgram {
    /// A program of this name; `root` is relative to the package's folder. The root's folder is watched for changes.
    pub fn new(name: &str, root: impl Into<PathBuf>) -> StaticProgram {
        let root = root.into();
        let sources = root
            .parent()
            .map(|folder| Vec::from([folder.to_owned()]))
            .unwrap_or_default();
        StaticProgram {
            name: name.to_string(),
            root,
            sources,
        }
    }

    /// Watches another file or folder for changes.
    #[must_use]
    pub fn source(mut self, path: impl Into<PathBuf>) -> StaticProgram {
        self.sources.push(path.into());
        self
    }

    /// Compiles the program into `OUT_DIR/NAME` and returns its path. For a target that is not supported, and on docs.rs,
    /// the file is empty.
    ///
    /// # Errors
    /// What the compiler or the linker said, in one line with what to install.
    pub fn compile(&self) -> Result<PathBuf, BuildError> {
        let folder = PathBuf::from(variable("OUT_DIR")?);
        let program = folder.join(&self.name);
        let own = own_sources(&variable("CARGO_MANIFEST_DIR")?);
        for source in self.sources.iter().chain([&own]) {
            println!("cargo::rerun-if-changed={}", source.display());
        }
        let target = variable("TARGET")?;
        let linker = format!(
            "CARGO_TARGET_{}_LINKER",
            target.to_uppercase().replace(['-', '.'], "_")
        );
        for name in ["DOCS_RS", "RUSTC_LINKER", &linker] {
            println!("cargo::rerun-if-env-changed={name}");
        }
        let supported = target.contains("-linux-")
            && (target.starts_with("x86_64-") || target.starts_with("aarch64-"))
            && !target.ends_with("x32");
        if env::var_os("DOCS_RS").is_some() || !supported {
            fs::write(&program, b"")
                .map_err(|error| BuildError(format!("{}: {error}", program.display())))?;
            return Ok(program);
        }
        let library = folder.join("libsandbox_freestanding.rlib");
        let compiler = Compiler {
            target,
            linker: env::var(linker).or_else(|_| env::var("RUSTC_LINKER")).ok(),
        };
        compiler.run(
            "sandbox_freestanding",
            &own.join("lib.rs"),
            "rlib",
            &library,
            None,
        )?;
        let name = self.name.replace('-', "_");
        compiler.run(&name, &self.root, "bin", &program, Some(&library))?;
        Ok(program)
    }
}

/// This package's sources: beside the package that is built, where both are in one workspace. What was compiled in here may
/// name another checkout, since cargo compares the times of files and not their paths in a shared target folder.
fn own_sources(built: &str) -> PathBuf {
    let beside = Path::new(built).join("../sandbox-freestanding/src");
    if beside.join("lib.rs").is_file() {
        return beside;
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn variable(name: &str) -> Result<String, BuildError> {
    env::var(name).map_err(|_| {
        BuildError(format!(
            "{name} is not set: this runs in a build script only"
        ))
    })
}

struct Compiler {
    target: String,
    linker: Option<String>,
}

impl Compiler {
    fn run(
        &self,
        name: &str,
        root: &Path,
        kind: &str,
        output: &Path,
        library: Option<&Path>,
    ) -> Result<(), BuildError> {
        let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(&compiler);
        command.args([
            "--edition",
            "2024",
            "--crate-name",
            name,
            "--crate-type",
            kind,
            "--cfg",
            "freestanding",
        ]);
        command.args([
            "--check-cfg",
            "cfg(freestanding)",
            "--check-cfg",
            "cfg(feature, values(\"build\"))",
        ]);
        command.args(["--target", &self.target, "--cap-lints", "warn"]);
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
        if let Some(library) = library {
            let mut name = std::ffi::OsString::from("sandbox_freestanding=");
            name.push(library);
            command.arg("--extern").arg(name);
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
        }
        command.arg("-o").arg(output).arg(root);
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
        ] {
            command.env_remove(name);
        }
        let result = command
            .output()
            .map_err(|error| BuildError(format!("{}: {error}", Path::new(&compiler).display())))?;
        if result.status.success() {
            return Ok(());
        }
        let messages = String::from_utf8_lossy(&result.stderr);
        if messages.contains("linker `") && messages.contains("not found") {
            return Err(BuildError(format!(
                "{name}: no linker for {}; install a C compiler (Debian, Ubuntu: gcc; Fedora: gcc; Alpine: build-base) or set {}",
                self.target, "RUSTC_LINKER"
            )));
        }
        Err(BuildError(format!("{name} does not compile:\n{messages}")))
    }
}

/// Compiles the program and ends the build script with one line when that fails.
pub fn compile_or_exit(program: &StaticProgram) {
    if let Err(error) = program.compile() {
        let error: Box<dyn std::error::Error> = Box::new(error);
        println!("cargo::error={}", error.to_string().replace('\n', "\\n "));
        std::process::exit(1);
    }
}
