//! What cargo says that it has built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{Context, Failure, Result};

/// An executable file of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The folder of the package's manifest.
    pub package: PathBuf,
    /// The target's name: the library's, the program's or the test file's.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// A test binary; otherwise the program itself.
    pub test: bool,
}

/// Runs a `cargo build` or `cargo test --no-run` and returns what it has built or found built.
///
/// # Errors
/// When it fails, or its messages cannot be read.
pub fn build(command: &mut Command) -> Result<Vec<Executable>> {
    let output = command
        .args(["--message-format", "json-render-diagnostics"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context(|| "cannot run cargo".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "cargo failed to build with {}",
            output.status
        )));
    }
    parse(&output.stdout)
}

fn parse(messages: &[u8]) -> Result<Vec<Executable>> {
    let mut found = Vec::new();
    for message in serde_json::Deserializer::from_slice(messages).into_iter::<Value>() {
        let message = message.context(|| "cannot read cargo's messages".to_owned())?;
        if let Some(executable) = executable(&message) {
            found.push(executable);
        }
    }
    Ok(found)
}

fn executable(message: &Value) -> Option<Executable> {
    let path = message["executable"].as_str()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some(Executable {
        package: manifest.parent()?.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        path: path.into(),
        test: message["profile"]["test"].as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executables_are_kept() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":true},"executable":"/t/deps/a-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/b/Cargo.toml","target":{"name":"b"},"profile":{"test":false},"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n"
        );
        let found = parse(messages.as_bytes()).expect("messages");
        let expected = Executable {
            package: "/w/a".into(),
            name: "a".into(),
            path: "/t/deps/a-1".into(),
            test: true,
        };
        assert_eq!(found, [expected]);
        assert!(parse(b"{\"reason\":").is_err());
    }
}
