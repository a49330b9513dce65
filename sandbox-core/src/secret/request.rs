//! Secrets of a request.

use super::{Secret, SecretValue};
use crate::ExecRequest;

impl ExecRequest {
    /// Gives this execution a secret, as an environment variable with the secret's name. The
    /// sandbox's specification must name it, which the policy must allow.
    ///
    /// The value goes to the agent alone, and only for this execution. It is in no configuration
    /// of a container, label, record or report. Code that has a secret can keep it, print it, and
    /// give it to other executions in the same sandbox, which can also read it from `/proc`.
    ///
    /// ```
    /// use sandbox_core::{ExecRequest, SandboxSpec};
    ///
    /// let spec = SandboxSpec::new("uploader").secret("API_TOKEN");
    /// let request = ExecRequest::new("./upload").secret("API_TOKEN", "hunter2");
    /// assert!(!format!("{request:?}").contains("hunter2"));
    /// ```
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<SecretValue>) -> Self {
        self.secrets.insert(name.into(), Secret::variable(value));
        self
    }

    /// Lets this execution use a secret in requests to these hosts, without reading it. The
    /// environment variable with the secret's name holds another text, and the host puts the value
    /// in its place.
    ///
    /// A host is written as an egress rule without a level: `api.example.org`,
    /// `*.example.org:8443`. A rule at level `http` must allow each of them. The text is replaced in
    /// headers, also in those of basic authentication, in queries, and in bodies of at most 1 MiB
    /// that are forms or JSON, with TLS alone. A request with it to another host is denied.
    ///
    /// Code can make any request with the secret that the rules allow, and sees the answer: a
    /// server that sends the value back gives it to the code.
    ///
    /// ```
    /// use sandbox_core::ExecRequest;
    ///
    /// let request = ExecRequest::new("./upload")
    ///     .secret_for("API_TOKEN", "hunter2", ["api.example.org"]);
    /// request.validate()?;
    /// # Ok::<(), sandbox_core::Error>(())
    /// ```
    #[must_use]
    pub fn secret_for(
        mut self,
        name: impl Into<String>,
        value: impl Into<SecretValue>,
        hosts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.secrets
            .insert(name.into(), Secret::for_hosts(value, hosts));
        self
    }

    /// Gives this execution a secret, as [`ExecRequest::secret`] does, but in a file in memory. The
    /// variable `NAME_FILE` holds its path. The file is removed when the execution ends, or with
    /// the sandbox if the call is canceled.
    #[must_use]
    pub fn secret_file(mut self, name: impl Into<String>, value: impl Into<SecretValue>) -> Self {
        self.secrets.insert(name.into(), Secret::file(value));
        self
    }
}
