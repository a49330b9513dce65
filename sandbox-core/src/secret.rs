//! Secrets: values that single executions get.

mod placeholder;
mod request;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::spi::{Instance, Source};
use crate::unique_name::unique_name;
use crate::{Error, ErrorKind, ExecRequest, Plan, Result};

pub use placeholder::PlaceholderSecret;

/// The longest value in bytes. The kernel takes 128 KiB for a variable with its name.
const LONGEST_VALUE: usize = 64 << 10;

/// The folder in memory that every sandbox has, unless the policy shows it the host's.
pub(crate) const MEMORY_FOLDER: &str = "/dev/shm";

/// The longest name in bytes.
const LONGEST_NAME: usize = 128;

/// A secret's value. Its `Debug` output hides it, and it cannot be serialized.
///
/// ```
/// use sandbox_core::SecretValue;
///
/// let value = SecretValue::new("hunter2");
/// assert_eq!(format!("{value:?}"), "SecretValue(7 bytes)");
/// assert_eq!(value.expose(), b"hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Arc<[u8]>);

impl SecretValue {
    /// This value.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(value.into().into())
    }

    /// The value itself.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretValue({} bytes)", self.0.len())
    }
}

impl<T: Into<Vec<u8>>> From<T> for SecretValue {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

const AS_VARIABLE: &str = "pass the secret as a variable";

/// How an execution gets a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretForm {
    /// As an environment variable with the secret's name.
    Variable,
    /// As a file in memory, whose path is in the variable `NAME_FILE`.
    File,
    /// Not at all: the environment variable with its name holds another text. The host puts the
    /// value in its place, in requests to these hosts.
    Placeholder {
        /// Where the value may go, as egress rules without a level: `api.example.org`,
        /// `*.example.org:8443`. A rule at level `http` must allow each of them.
        hosts: Vec<String>,
    },
}

/// A secret of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its value.
    pub value: SecretValue,
    /// How the execution gets it.
    pub form: SecretForm,
}

impl Secret {
    /// One that is an environment variable.
    #[must_use]
    pub fn variable(value: impl Into<SecretValue>) -> Self {
        Self {
            value: value.into(),
            form: SecretForm::Variable,
        }
    }

    /// One that is a file in memory.
    #[must_use]
    pub fn file(value: impl Into<SecretValue>) -> Self {
        Self {
            value: value.into(),
            form: SecretForm::File,
        }
    }

    /// One that the host puts into requests to these hosts.
    #[must_use]
    pub fn for_hosts(
        value: impl Into<SecretValue>,
        hosts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let hosts = hosts.into_iter().map(Into::into).collect();
        Self {
            value: value.into(),
            form: SecretForm::Placeholder { hosts },
        }
    }
}

/// Checks a name: a variable and a file can have it.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let rest = |c: u8| c.is_ascii_alphanumeric() || b"_-.".contains(&c);
    let first = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    if name.len() <= LONGEST_NAME
        && name.as_bytes().first().is_some_and(first)
        && name.bytes().all(rest)
    {
        return Ok(());
    }
    Err(format!(
        "secret {name:?}: use 1 to {LONGEST_NAME} characters of a-z, A-Z, 0-9, '_', '-', '.', starting with a letter, digit or '_'"
    ))
}

/// Checks what needs no sandbox. Errors name a secret, and never show its value.
pub(crate) fn check(request: &ExecRequest) -> Result<(), String> {
    for (name, secret) in &request.secrets {
        check_name(name)?;
        let value = secret.value.expose();
        if value.len() > LONGEST_VALUE {
            return Err(format!(
                "secret {name:?}: {} bytes; {LONGEST_VALUE} are possible",
                value.len()
            ));
        }
        let is_text = std::str::from_utf8(value).is_ok_and(|text| !text.contains('\0'));
        if secret.form == SecretForm::Variable && !is_text {
            return Err(format!(
                "secret {name:?}: a variable holds UTF-8 without NUL; pass it as a file"
            ));
        }
        if let SecretForm::Placeholder { hosts } = &secret.form {
            placeholder::check(name, value, hosts)?;
        }
        let variable = secret.form.variable(name);
        if request.env.contains_key(&variable) {
            return Err(format!(
                "secret {name:?}: the request also sets the variable {variable}"
            ));
        }
    }
    Ok(())
}

/// Refuses files for a program that is not the code's user, to whom they belong.
pub(crate) fn check_for_other_user(request: &ExecRequest) -> Result<()> {
    let mut secrets = request.secrets.iter();
    let Some((name, _)) = secrets.find(|(_, secret)| secret.form == SecretForm::File) else {
        return Ok(());
    };
    let context = format!("secret {name:?}: its file would belong to the sandbox's own user");
    Err(Error::new(ErrorKind::Unsupported, "execute", context).with_fix(AS_VARIABLE))
}

impl SecretForm {
    /// The variable by which the program finds it.
    fn variable(&self, name: &str) -> String {
        match self {
            Self::Variable | Self::Placeholder { .. } => name.to_owned(),
            Self::File => format!("{name}_FILE"),
        }
    }
}

/// Whether code sees the host's folder in memory, where the file would be the host's.
pub(crate) fn shows_hosts_memory_folder(plan: &Plan) -> bool {
    let mut roots = plan.write_roots.iter().chain(&plan.read_roots);
    roots.any(|root| Path::new(MEMORY_FOLDER).starts_with(root) || root.starts_with(MEMORY_FOLDER))
}

/// What an execution's secrets need until it ends. Dropping it forgets the placeholders, so that a
/// canceled execution leaves none that counts.
pub(crate) struct PlacedSecrets<'a> {
    instance: &'a dyn Instance,
    /// The folder with the secrets that are files.
    folder: Option<String>,
    /// The texts that stand for secrets.
    placeholders: Vec<String>,
}

/// Moves the secrets of a request to its variables and to files of the sandbox.
pub(crate) async fn place<'a>(
    request: &mut ExecRequest,
    plan: &Plan,
    instance: &'a dyn Instance,
    tier: &str,
) -> Result<PlacedSecrets<'a>> {
    let secrets: BTreeMap<_, _> = std::mem::take(&mut request.secrets);
    let mut placed = PlacedSecrets {
        instance,
        folder: None,
        placeholders: Vec::new(),
    };
    for name in secrets.keys() {
        if !plan.secrets.contains(name) {
            let context = format!("secret {name:?}: the sandbox was created without it");
            let error = Error::new(ErrorKind::InvalidRequest, "execute", context);
            return Err(error.on(tier).with_fix(
                "name it when the sandbox is created (SandboxSpec::secret, --secret), under a policy that allows it",
            ));
        }
    }
    for (name, secret) in &secrets {
        let value = match &secret.form {
            // It was checked.
            SecretForm::Variable => String::from_utf8_lossy(secret.value.expose()).into_owned(),
            SecretForm::File if shows_hosts_memory_folder(plan) => {
                let context = format!("secret {name:?}: {MEMORY_FOLDER} is the host's");
                let error = Error::new(ErrorKind::Unsupported, "execute", context);
                return Err(error.on(tier).with_fix(AS_VARIABLE));
            }
            SecretForm::File => match placed.write(name, secret).await {
                Ok(path) => path,
                Err(error) => {
                    // The first error says more than one of the clean-up.
                    let _ = placed.remove().await;
                    return Err(error.on(tier).with_fix(AS_VARIABLE));
                }
            },
            SecretForm::Placeholder { hosts } => {
                let added = match placeholder::of(name, secret, hosts) {
                    Ok(secret) => instance.add_placeholder(secret).await,
                    Err(error) => Err(error),
                };
                match added {
                    Ok(text) => {
                        placed.placeholders.push(text.clone());
                        text
                    }
                    Err(error) => {
                        let _ = placed.remove().await;
                        return Err(error.on(tier));
                    }
                }
            }
        };
        request.env.insert(secret.form.variable(name), value);
    }
    Ok(placed)
}

impl PlacedSecrets<'_> {
    /// Writes a file, and returns its path.
    async fn write(&mut self, name: &str, secret: &Secret) -> Result<String> {
        let folder = match &self.folder {
            Some(folder) => folder,
            None => {
                let folder = format!("{MEMORY_FOLDER}/{}", unique_name("secrets"));
                self.instance.make_dir(&folder, 0o700).await?;
                self.folder.insert(folder)
            }
        };
        let path = format!("{folder}/{name}");
        let content: Source = Box::new(std::io::Cursor::new(secret.value.expose().to_vec()));
        self.instance.put(&path, 0o400, content).await?;
        Ok(path)
    }

    /// Removes the files and forgets the placeholders. Files are gone already if the sandbox has
    /// ended.
    pub(crate) async fn remove(mut self) -> Result<()> {
        let (instance, folder) = (self.instance, self.folder.take());
        drop(self);
        match folder {
            Some(folder) => instance.remove(&folder).await,
            None => Ok(()),
        }
    }
}

impl Drop for PlacedSecrets<'_> {
    fn drop(&mut self) {
        for text in &self.placeholders {
            self.instance.remove_placeholder(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_in_no_debug_output_and_no_error() {
        let request = ExecRequest::new("true").secret("TOKEN", "canary-1\0");
        assert!(!format!("{request:?}").contains("canary"));
        let error = request.validate().unwrap_err();
        assert!(error.to_string().contains("TOKEN"), "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }

    #[test]
    fn name_fits_a_variable_and_a_file() {
        for good in ["TOKEN", "_x", "registry.example.org", "a-b", "9"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "-x",
            "a/b",
            "a=b",
            "a b",
            "a\0",
            &"x".repeat(129),
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn request_cannot_set_the_same_variable_twice() {
        for request in [
            ExecRequest::new("true").env("A", "x").secret("A", "y"),
            ExecRequest::new("true")
                .env("A_FILE", "x")
                .secret_file("A", "y"),
        ] {
            assert!(request.validate().is_err(), "{request:?}");
        }
        let apart = ExecRequest::new("true").env("A", "x").secret_file("A", "y");
        apart.validate().unwrap();
    }

    #[test]
    fn value_of_any_bytes_fits_a_file_up_to_the_limit() {
        let of = |length| ExecRequest::new("true").secret_file("A", vec![0; length]);
        of(LONGEST_VALUE).validate().unwrap();
        assert!(of(LONGEST_VALUE + 1).validate().is_err());
    }
}
