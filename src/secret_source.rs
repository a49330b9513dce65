//! Where the values of secrets come from.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use sandbox_core::{Error, ErrorKind, Result, SecretValue};

/// The longest value that is read, in bytes. An execution takes as many.
const LONGEST_VALUE: u64 = 64 << 10;

/// Where the value of a secret is.
///
/// ```
/// use sandbox::SecretSource;
///
/// let token = SecretSource::Command("echo hunter2".into()).read("API_TOKEN")?;
/// assert_eq!(token.expose(), b"hunter2");
/// let request = sandbox::ExecRequest::new("./upload").secret("API_TOKEN", token);
/// # Ok::<(), sandbox::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretSource {
    /// In a variable of this process.
    Env(OsString),
    /// In a file. A newline at its end does not belong to the value.
    File(PathBuf),
    /// In what a command of `/bin/sh` prints, such as a password manager's. A newline at its end
    /// does not belong to the value. The command has no standard input, and as much time as it
    /// takes.
    Command(String),
}

impl SecretSource {
    /// Reads the value of the secret `name`, at most 64 KiB. It blocks.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if there is no value, it is empty or longer, or the command fails. No
    /// error shows a value.
    pub fn read(&self, name: &str) -> Result<SecretValue> {
        let failed = |why: String| {
            let context = format!("secret {name:?}: {why}");
            Err(Error::new(ErrorKind::Io, "read secret", context).with_fix(self.fix(name)))
        };
        let value = match self {
            Self::Env(variable) => match std::env::var_os(variable) {
                Some(value) => Ok(value.into_vec()),
                None => Err(format!("the variable {} is not set", variable.display())),
            },
            Self::File(path) => File::open(path)
                .and_then(bounded)
                .map_err(|error| format!("{}: {error}", path.display())),
            Self::Command(command) => output(command),
        };
        let mut value = match value {
            Ok(value) => value,
            Err(why) => return failed(why),
        };
        let is_text = !matches!(self, Self::Env(_));
        if is_text && value.last() == Some(&b'\n') {
            value.pop();
        }
        match value.len() as u64 {
            0 => failed("its value is empty".into()),
            1..=LONGEST_VALUE => Ok(SecretValue::new(value)),
            _ => failed(format!("its value is longer than {LONGEST_VALUE} bytes")),
        }
    }

    fn fix(&self, name: &str) -> String {
        match self {
            Self::Env(variable) => format!(
                "export {}, or name another source of {name}: a variable, a file or a command",
                variable.display()
            ),
            Self::File(_) => "check the path and its permissions".into(),
            Self::Command(_) => "run the command by hand".into(),
        }
    }
}

/// Reads a byte more than the longest value has, too.
fn bounded(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut value = Vec::new();
    source.take(LONGEST_VALUE + 2).read_to_end(&mut value)?;
    Ok(value)
}

/// What a command prints. Its errors go to this process's standard error.
fn output(command: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("the command {command:?}: {error}");
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let value = match child.stdout.take() {
        Some(stdout) => bounded(stdout),
        None => Ok(Vec::new()),
    };
    // The pipe is closed: a command that prints more than that ends.
    let status = child.wait().map_err(failed)?;
    let value = value.map_err(failed)?;
    match status.success() || value.len() as u64 > LONGEST_VALUE {
        true => Ok(value),
        false => Err(format!("the command {command:?} failed: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &SecretSource) -> Result<Vec<u8>> {
        source.read("TOKEN").map(|value| value.expose().to_vec())
    }

    #[test]
    fn value_comes_from_a_variable_a_file_or_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, b"a\0b\n\n").unwrap();
        assert_eq!(read(&SecretSource::File(file)).unwrap(), b"a\0b\n");
        let command = SecretSource::Command("echo one; echo two".into());
        assert_eq!(read(&command).unwrap(), b"one\ntwo");
        let path = std::env::var_os("PATH").unwrap().into_vec();
        assert_eq!(read(&SecretSource::Env("PATH".into())).unwrap(), path);
    }

    #[test]
    fn missing_empty_and_long_values_are_errors_that_show_none() {
        for (source, shown) in [
            (
                SecretSource::Env("SANDBOX_TEST_NONE".into()),
                "SANDBOX_TEST_NONE is not set",
            ),
            (
                SecretSource::File("/nonexistent/token".into()),
                "/nonexistent/token",
            ),
            (
                SecretSource::Command("echo canary; exit 3".into()),
                "exit status: 3",
            ),
            (SecretSource::Command("true".into()), "empty"),
            (
                SecretSource::Command("yes canary".into()),
                "longer than 65536",
            ),
        ] {
            let error = read(&source).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains(shown), "{error}");
            let shows_output = error
                .context()
                .replace("echo canary", "")
                .replace("yes canary", "");
            assert!(!shows_output.contains("canary"), "{error}");
        }
    }

    #[test]
    fn longest_value_is_read_whole() {
        let of = |length: u64| {
            SecretSource::Command(format!("head -c {length} /dev/zero | tr '\\0' x; echo"))
        };
        assert_eq!(
            read(&of(LONGEST_VALUE)).unwrap().len() as u64,
            LONGEST_VALUE
        );
        assert!(read(&of(LONGEST_VALUE + 1)).is_err());
    }
}
