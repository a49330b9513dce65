//! Projects of build tools.

use sandbox_core::policy::Requirement;

use super::{Source, Step};
use crate::packages::program_manifest;

/// A project of a build tool, which compiles code in a sandbox that has libraries of the language.
/// Without libraries the compiler alone does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Project {
    /// A package of cargo, in the file `Cargo.toml`.
    Cargo,
}

impl Project {
    /// The step that compiles the code.
    #[must_use]
    pub fn compile(self) -> Step {
        Step::new(["cargo", "/usr/local/cargo/bin/cargo"])
            .args(["rustc", "--quiet", "--color=never", "--bin", "program"])
            .args(["--target-dir", "{folder}/target", "--", "{options}"])
            // The libraries are compiled once for all code of the sandbox, by a cargo that is new
            // enough to know this variable.
            .env("CARGO_BUILD_BUILD_DIR", "{cache}/cargo")
    }

    /// The step that runs the program.
    #[must_use]
    pub fn run(self) -> Step {
        Step::new(["{folder}/target/debug/program"])
    }

    /// The names beside the code that it needs.
    pub(crate) fn names(self) -> &'static [&'static str] {
        &["Cargo.toml", "Cargo.lock", "target"]
    }

    /// The file that describes the project.
    pub(crate) fn file(self, libraries: &[Requirement]) -> Source {
        Source {
            name: "Cargo.toml".to_owned(),
            content: program_manifest(libraries).into_bytes(),
        }
    }
}
