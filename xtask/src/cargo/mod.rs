//! Calling cargo from within a program that cargo itself runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{Context, Failure};

mod artifacts;

use artifacts::build;
pub use artifacts::{Executable, ExecutableKind};

/// The backends that are tested and measured, as features of the workspace's packages.
pub const BACKENDS: &str = "local,docker,podman,k8s";

/// The packages and features that every task builds. They are the same, so that no task builds them
/// again.
pub const SCOPE: [&str; 3] = ["--workspace", "--features", BACKENDS];

/// The variables that cargo sets for this package. They are removed, because a nested cargo sets
/// its own, and a program under test must not find these.
const OWN_VARIABLES: [&str; 5] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_CRATE_NAME",
    "CARGO_BIN_NAME",
    "CARGO_PRIMARY_PACKAGE",
];

/// The file of a built program.
///
/// # Errors
///
/// If cargo has built none of this name.
pub fn program<'a>(built: &'a [Executable], name: &str) -> Result<&'a Path, Failure> {
    built
        .iter()
        .find(|built| built.kind == ExecutableKind::Program && built.name == name)
        .map(|built| built.path.as_path())
        .ok_or_else(|| Failure::new(format!("cargo has built no program {name}")))
}

/// The workspace that this task was built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The folder of the root manifest.
    pub root: PathBuf,
    /// The folder of everything that is built.
    pub target: PathBuf,
}

impl Workspace {
    /// Asks cargo for the workspace that contains this package.
    ///
    /// # Errors
    ///
    /// If cargo cannot be run or does not know the workspace.
    pub fn find() -> Result<Self, Failure> {
        let arguments = ["metadata", "--no-deps", "--format-version", "1"];
        // The workspace that cargo runs in now. A program in a shared target folder may have been
        // built from another checkout.
        let package = std::env::var_os("CARGO_MANIFEST_DIR");
        let package = package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let output = cargo(&package)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context(|| "cannot run cargo metadata".to_owned())?;
        if !output.status.success() {
            return Err(Failure::new(format!(
                "cargo metadata failed with {}",
                output.status
            )));
        }
        let description: Value = serde_json::from_slice(&output.stdout)
            .context(|| "cannot read the answer of cargo metadata".to_owned())?;
        let folder = |key: &str| {
            description[key]
                .as_str()
                .map(PathBuf::from)
                .ok_or_else(|| Failure::new(format!("cargo metadata says no {key}")))
        };
        Ok(Self {
            root: folder("workspace_root")?,
            target: folder("target_directory")?,
        })
    }

    /// A cargo command for this workspace, without the variables that the outer cargo set.
    pub fn cargo(&self) -> Command {
        cargo(&self.root)
    }

    /// Builds every program of the workspace with every backend.
    ///
    /// # Errors
    ///
    /// If cargo fails.
    pub fn build_programs(&self) -> Result<Vec<Executable>, Failure> {
        build(self.cargo().arg("build").args(SCOPE).arg("--bins"))
    }

    /// Builds every test of the workspace with every backend.
    ///
    /// # Errors
    ///
    /// If cargo fails.
    pub fn build_tests(&self) -> Result<Vec<Executable>, Failure> {
        build(self.cargo().arg("test").args(SCOPE).arg("--no-run"))
    }

    /// Builds the unit tests, the local backend's tests and the conformance suite, with the same
    /// features as all tests.
    ///
    /// # Errors
    ///
    /// If cargo fails.
    pub fn build_quick_tests(&self) -> Result<Vec<Executable>, Failure> {
        let mut command = self.cargo();
        command.arg("test").args(SCOPE).arg("--no-run");
        // Cargo builds the suite's program for the tests in `command`.
        build(command.args(["--lib", "--bins", "--test", "local", "--test", "command"]))
    }
}

fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if OWN_VARIABLES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_contains_this_package() {
        let workspace = Workspace::find().expect("cargo metadata");
        assert_eq!(
            workspace.root.join("xtask"),
            // A kept target folder may have been filled by a checkout at another path.
            env::current_dir().expect("the package's folder")
        );
        let removed: Vec<_> = workspace
            .cargo()
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.to_owned())
            .collect();
        // Set here because cargo runs this test.
        assert!(
            removed.iter().any(|name| name == "CARGO_MANIFEST_DIR"),
            "{removed:?}"
        );
    }
}
