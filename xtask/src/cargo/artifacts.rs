//! The executables that cargo reports to have built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{Context, Failure};

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

/// Runs a `cargo build` or `cargo test --no-run` and returns the executables that it reports.
///
/// # Errors
///
/// If it fails, or its messages cannot be read.
pub fn build(command: &mut Command) -> Result<Vec<Executable>, Failure> {
    let output = command
        .args(["--message-format", "json-render-diagnostics"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context(|| "cannot run cargo".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new(format!("cargo failed with {}", output.status)));
    }
    parse(&output.stdout)
}

fn parse(messages: &[u8]) -> Result<Vec<Executable>, Failure> {
    serde_json::Deserializer::from_slice(messages)
        .into_iter::<Value>()
        .filter_map(|message| match message {
            Ok(message) => executable(&message).map(Ok),
            Err(error) => Some(Err(error).context(|| "cannot read cargo's messages".to_owned())),
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
