//! Calling cargo from within a program that cargo itself runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{Context, Failure};

/// The packages, and the backends as their features, that every task builds. They are the same, so
/// that no task builds them again.
pub const SCOPE: [&str; 3] = ["--workspace", "--features", "local,docker,podman,k8s"];

/// What [`Workspace::build`] builds: every program.
pub const PROGRAMS: &[&str] = &["build", "--bins"];

/// Every test, and the programs that they run.
pub const TESTS: &[&str] = &["test", "--no-run"];

/// The unit tests, the local backend's tests and the conformance suite. Cargo builds the suite's
/// program for the tests in `command`.
pub const QUICK_TESTS: &[&str] = &[
    "test", "--no-run", "--lib", "--bins", "--test", "local", "--test", "command",
];

/// The variables that cargo sets for this package. They are removed, because a nested cargo sets
/// its own, and a program under test must not find these.
const OWN_VARIABLES: [&str; 5] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_CRATE_NAME",
    "CARGO_BIN_NAME",
    "CARGO_PRIMARY_PACKAGE",
];

/// An executable of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The folder of the package's manifest.
    pub package: PathBuf,
    /// The target's name: the library's, the program's or the test file's.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What kind of target it is.
    pub kind: ExecutableKind,
}

/// The kinds of executables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutableKind {
    /// A program itself.
    Program,
    /// The unit tests of a library or a program.
    UnitTests,
    /// A file of integration tests.
    IntegrationTests,
}

/// The programs among what was built.
pub fn programs(built: &[Executable]) -> impl Iterator<Item = &Executable> {
    let programs = built.iter();
    programs.filter(|built| built.kind == ExecutableKind::Program)
}

/// The file of a built program.
///
/// # Errors
///
/// If cargo has built none of this name.
pub fn program<'a>(built: &'a [Executable], name: &str) -> Result<&'a Path, Failure> {
    programs(built)
        .find(|built| built.name == name)
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
        let answer = output(cargo(&package).args(arguments), "cargo metadata")?;
        let description: Value = serde_json::from_slice(&answer)
            .context(|| "cannot read the answer of cargo metadata")?;
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

    /// Builds [`PROGRAMS`], [`TESTS`] or [`QUICK_TESTS`] of the workspace with every backend.
    ///
    /// # Errors
    ///
    /// If cargo fails, or its messages cannot be read.
    pub fn build(&self, what: &[&str]) -> Result<Vec<Executable>, Failure> {
        let mut command = self.cargo();
        command.args(what).args(SCOPE);
        command.args(["--message-format", "json-render-diagnostics"]);
        parse(&output(&mut command, "cargo")?)
    }
}

/// What a cargo command writes on standard output.
fn output(command: &mut Command, name: &str) -> Result<Vec<u8>, Failure> {
    let command = command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let status = output.status;
        return Err(Failure::new(format!("{name} failed with {status}")));
    }
    Ok(output.stdout)
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

/// The executables in the messages of a `cargo build` or `cargo test --no-run`.
fn parse(messages: &[u8]) -> Result<Vec<Executable>, Failure> {
    serde_json::Deserializer::from_slice(messages)
        .into_iter::<Value>()
        .filter_map(|message| match message {
            Ok(message) => executable(&message).map(Ok),
            Err(error) => Some(Err(error).context(|| "cannot read cargo's messages")),
        })
        .collect()
}

fn executable(message: &Value) -> Option<Executable> {
    let path = message["executable"].as_str()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let is_integration = message["target"]["kind"][0].as_str() == Some("test");
    let kind = match (message["profile"]["test"].as_bool()?, is_integration) {
        (false, _) => ExecutableKind::Program,
        (true, false) => ExecutableKind::UnitTests,
        (true, true) => ExecutableKind::IntegrationTests,
    };
    Some(Executable {
        package: manifest.parent()?.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        path: path.into(),
        kind,
    })
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

    #[test]
    fn libraries_without_an_executable_are_left_out() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a","kind":["test"]},"profile":{"test":true},"executable":"/t/deps/a-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/b/Cargo.toml","target":{"name":"b"},"profile":{"test":false},"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n"
        );
        let expected = Executable {
            package: "/w/a".into(),
            name: "a".into(),
            path: "/t/deps/a-1".into(),
            kind: ExecutableKind::IntegrationTests,
        };
        assert_eq!(parse(messages.as_bytes()), Ok(vec![expected]));
        assert!(parse(b"{\"reason\":").is_err());
    }
}
