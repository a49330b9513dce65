//! Policy files: TOML or JSON with `version = 1`. Unknown keys are refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CapabilityPolicy, NetworkPolicy, NetworkRule, Preset};
use crate::parse_error::{json_error, toml_error};
use crate::{ByteSize, Capability, Cpus, Error, ErrorKind, MountSource, Result, Storage};

/// The format version that this crate reads.
pub const VERSION: u32 = 1;

/// The content of a policy file. A field that the file leaves out has the value of the preset in
/// `extends`, or else its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Sandbox policy")]
#[non_exhaustive]
pub struct PolicyFile {
    /// Format of this file: 1.
    pub version: u32,
    /// Preset whose values apply to fields that this file leaves out: `strict`, `workspace` or
    /// `coding`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// Absolute paths of the host that can be read, in addition to the platform's programs and
    /// libraries (or the image).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_read_roots: Option<Vec<PathBuf>>,
    /// Absolute paths of the host that can be written. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_write_roots: Option<Vec<PathBuf>>,
    /// Paths of the host that a specification may mount elsewhere, besides the roots. Unset: what the
    /// roots allow, or any path if no root is set either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_sources: Option<Vec<MountSource>>,
    /// Storage that a specification may mount by name: `{ path = "/srv/lab" }`, `{ volume = "lab" }` or
    /// `{ claim = "lab" }`, with `read_only = true` to forbid writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<BTreeMap<String, Storage>>,
    /// Whether links that leave their folder are followed in the paths of roots and workspaces.
    /// Unset: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_links: Option<bool>,
    /// `"none"`, `"full"`, or `{ allow = ["example.org", "example.org:8443"] }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkField>,
    /// The same as a boolean: `false` is `network = "none"`, `true` is `network = "full"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_access: Option<bool>,
    /// The same as a list of rules: `network = { allow = [...] }`. An empty list is
    /// `network = "none"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<NetworkRule>>,
    /// Whether packages may be installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_installation: Option<bool>,
    /// Whether other processes and programs may be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subprocess_execution: Option<bool>,
    /// Whether the specification may set environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_var_access: Option<bool>,
    /// Time limit of an execution: seconds, or text like `"1m 30s"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationField>,
    /// Longest lifetime of a sandbox, and the lifetime if the specification has none: seconds, or
    /// text like `"8h"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<DurationField>,
    /// Time limit of one file operation, like a copy or an export: seconds, or text like `"20m"`.
    /// Unset: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_timeout: Option<DurationField>,
    /// How much standard output is kept, like `"64MiB"` or a number of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_max_bytes: Option<ByteSize>,
    /// How much standard error is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_max_bytes: Option<ByteSize>,
    /// Absolute paths inside of the sandbox that may be exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_export_paths: Option<Vec<String>>,
    /// Packages that are installed before code runs: `numpy`, `npm:lodash@^4`, `gem:rack`,
    /// `go:example.org/greet`, `cargo:serde[derive]@1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Vec<String>>,
    /// Memory of a sandbox, like `"512MiB"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Processors of a sandbox, like `1.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Cpus>,
    /// Processes of a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Storage of a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<ByteSize>,
    /// Open descriptors of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u32>,
    /// Images that may be used, pulled, built and committed to: `python:3.*`,
    /// `registry.example.org/team/**:*` or `image@sha256:…`. `*` and `?` match within a part of the
    /// name, and `**` matches several parts. Unset: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<String>>,
    /// Names of secrets that a specification may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Vec<String>>,
    /// Whether every demand is required, including those from defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_all: Option<bool>,
    /// Capabilities whose partial enforcement is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_partial: Option<Vec<Capability>>,
    /// Capabilities that may go unenforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_unenforced: Option<Vec<Capability>>,
}

/// The network in a policy file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkField {
    /// Only the sandbox's own loopback.
    None,
    /// The network of the host.
    Full,
    /// Only connections to these hosts.
    Allow(Vec<NetworkRule>),
}

/// A duration in a policy file: seconds, or text like `"1m 30s"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DurationField {
    /// Seconds.
    Seconds(f64),
    /// Text with units.
    Text(String),
}

impl DurationField {
    fn resolve(&self, field: &str) -> Result<Duration> {
        let bad = |text: &str| {
            invalid(format!(
                "{field}: {text:?} is not a length of time; write 30 or \"1m 30s\""
            ))
        };
        match self {
            Self::Seconds(seconds) => {
                Duration::try_from_secs_f64(*seconds).map_err(|_| bad(&seconds.to_string()))
            }
            Self::Text(text) => humantime::parse_duration(text).map_err(|_| bad(text)),
        }
    }
}

fn invalid(context: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPolicy, "read policy", context)
}

impl PolicyFile {
    /// Reads TOML.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] with line and key.
    pub fn from_toml(text: &str) -> Result<Self> {
        Self::checked(toml::from_str(text).map_err(|error| invalid(toml_error(&error)))?)
    }

    /// Reads JSON.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] with line and key.
    pub fn from_json(text: &str) -> Result<Self> {
        Self::checked(serde_json::from_str(text).map_err(|error| invalid(json_error(&error)))?)
    }

    /// Reads a file: JSON if its name ends in `.json`, otherwise TOML.
    ///
    /// Follows links. `sandbox run --policy` does not: earlier code may have placed them.
    ///
    /// ```no_run
    /// use sandbox_core::policy::PolicyFile;
    ///
    /// let policy = PolicyFile::load("policy.toml")?.resolve()?;
    /// # Ok::<(), sandbox_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] and [`ErrorKind::InvalidPolicy`], with the name of the file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|cause| {
            let context = path.display().to_string();
            Error::new(ErrorKind::Io, "read policy", context).with_source(cause)
        })?;
        let extension = path.extension();
        let read = match extension.is_some_and(|name| name.eq_ignore_ascii_case("json")) {
            true => Self::from_json(&text),
            false => Self::from_toml(&text),
        };
        read.map_err(|error| invalid(format!("{}: {}", path.display(), error.context())))
    }

    fn checked(file: Self) -> Result<Self> {
        if file.version == VERSION {
            return Ok(file);
        }
        Err(invalid(format!(
            "version = {}: this program reads version {VERSION}",
            file.version
        )))
    }

    /// Resolves the file, with its preset and the defaults, to a policy.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] for an unknown preset, and for fields that are invalid or
    /// contradict each other.
    pub fn resolve(&self) -> Result<CapabilityPolicy> {
        let base = match &self.extends {
            Some(preset) => preset.parse::<Preset>()?.policy(),
            None => CapabilityPolicy::default(),
        };
        let duration = |name: &str, field: Option<&DurationField>, base| match field {
            Some(field) => field.resolve(name).map(Some),
            None => Ok(base),
        };
        let policy = CapabilityPolicy {
            filesystem_read_roots: self
                .filesystem_read_roots
                .clone()
                .or(base.filesystem_read_roots),
            filesystem_write_roots: self
                .filesystem_write_roots
                .clone()
                .or(base.filesystem_write_roots),
            mount_sources: self.mount_sources.clone().or(base.mount_sources),
            storage: self.storage.clone().unwrap_or(base.storage),
            follow_links: self.follow_links.or(base.follow_links),
            network: self.network()?.or(base.network),
            package_installation: self.package_installation.or(base.package_installation),
            subprocess_execution: self.subprocess_execution.or(base.subprocess_execution),
            env_var_access: self.env_var_access.or(base.env_var_access),
            timeout: duration("timeout", self.timeout.as_ref(), base.timeout)?,
            lifetime: duration("lifetime", self.lifetime.as_ref(), base.lifetime)?,
            file_timeout: duration(
                "file_timeout",
                self.file_timeout.as_ref(),
                base.file_timeout,
            )?,
            stdout_max_bytes: self.stdout_max_bytes.or(base.stdout_max_bytes),
            stderr_max_bytes: self.stderr_max_bytes.or(base.stderr_max_bytes),
            artifact_export_paths: self
                .artifact_export_paths
                .clone()
                .unwrap_or(base.artifact_export_paths),
            packages: self.packages.clone().unwrap_or(base.packages),
            memory: self.memory.or(base.memory),
            cpus: self.cpus.or(base.cpus),
            pids: self.pids.or(base.pids),
            disk: self.disk.or(base.disk),
            open_files: self.open_files.or(base.open_files),
            images: self.images.clone().or(base.images),
            secrets: self.secrets.clone().unwrap_or(base.secrets),
            require_all: self.require_all.unwrap_or(base.require_all),
            allow_partial: self.allow_partial.clone().unwrap_or(base.allow_partial),
            allow_unenforced: self
                .allow_unenforced
                .clone()
                .unwrap_or(base.allow_unenforced),
        };
        policy.validate()?;
        Ok(policy)
    }

    fn network(&self) -> Result<Option<NetworkPolicy>> {
        let spellings = [
            ("network", self.network.is_some()),
            ("network_access", self.network_access.is_some()),
            ("egress", self.egress.is_some()),
        ];
        let used = spellings
            .iter()
            .filter(|(_, used)| *used)
            .map(|(name, _)| *name)
            .collect::<Vec<_>>();
        if used.len() > 1 {
            return Err(invalid(format!(
                "{} say the same thing: keep one of them",
                used.join(" and ")
            )));
        }
        let network = match (&self.network, self.network_access, &self.egress) {
            (Some(NetworkField::None), ..) | (_, Some(false), _) => NetworkPolicy::None,
            (Some(NetworkField::Full), ..) | (_, Some(true), _) => NetworkPolicy::Full,
            (Some(NetworkField::Allow(rules)), ..) | (.., Some(rules)) if rules.is_empty() => {
                NetworkPolicy::None
            }
            (Some(NetworkField::Allow(rules)), ..) | (.., Some(rules)) => {
                NetworkPolicy::Allow(rules.clone())
            }
            (None, None, None) => return Ok(None),
        };
        Ok(Some(network))
    }
}

impl From<&CapabilityPolicy> for PolicyFile {
    /// The file that resolves to this policy, without a preset and without empty lists.
    fn from(policy: &CapabilityPolicy) -> Self {
        let duration =
            |duration| DurationField::Text(humantime::format_duration(duration).to_string());
        let list = |values: &[String]| (!values.is_empty()).then(|| values.to_vec());
        let capabilities = |values: &[Capability]| (!values.is_empty()).then(|| values.to_vec());
        Self {
            version: VERSION,
            extends: None,
            filesystem_read_roots: policy.filesystem_read_roots.clone(),
            filesystem_write_roots: policy.filesystem_write_roots.clone(),
            mount_sources: policy.mount_sources.clone(),
            storage: (!policy.storage.is_empty()).then(|| policy.storage.clone()),
            follow_links: policy.follow_links,
            network: policy.network.as_ref().map(|network| match network {
                NetworkPolicy::None => NetworkField::None,
                NetworkPolicy::Allow(rules) => NetworkField::Allow(rules.clone()),
                NetworkPolicy::Full => NetworkField::Full,
            }),
            network_access: None,
            egress: None,
            package_installation: policy.package_installation,
            subprocess_execution: policy.subprocess_execution,
            env_var_access: policy.env_var_access,
            timeout: policy.timeout.map(duration),
            lifetime: policy.lifetime.map(duration),
            file_timeout: policy.file_timeout.map(duration),
            stdout_max_bytes: policy.stdout_max_bytes,
            stderr_max_bytes: policy.stderr_max_bytes,
            artifact_export_paths: list(&policy.artifact_export_paths),
            packages: list(&policy.packages),
            memory: policy.memory,
            cpus: policy.cpus,
            pids: policy.pids,
            disk: policy.disk,
            open_files: policy.open_files,
            images: policy.images.clone(),
            secrets: list(&policy.secrets),
            require_all: policy.require_all.then_some(true),
            allow_partial: capabilities(&policy.allow_partial),
            allow_unenforced: capabilities(&policy.allow_unenforced),
        }
    }
}

/// The JSON schema of [`PolicyFile`], as published.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(PolicyFile);
    schema.insert("$id".into(), "policy.schema.json".into());
    schema.to_value()
}
