//! Requests for sandboxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::mount::WORKSPACE;
use crate::policy::EgressRules;
use crate::unique_name::unique_name;
use crate::user;
use crate::{
    ByteSize, Cpus, Error, ErrorKind, HostMount, ImageReference, ImageRetention, PullPolicy,
    Result, StorageMount,
};

/// A request for a sandbox. The specification asks; the [`crate::CapabilityPolicy`] is the operator's ceiling.
///
/// ```
/// use sandbox_core::{ByteSize, SandboxSpec};
///
/// let spec = SandboxSpec::new("grader-7").memory(ByteSize::mib(256)).env("LANG", "C.UTF-8");
/// assert_eq!(spec.name, "grader-7");
/// ```
///
/// It can be stored. Fields that a text leaves out have their defaults, and unknown ones are errors:
///
/// ```
/// use sandbox_core::SandboxSpec;
///
/// let spec: SandboxSpec = serde_json::from_str(r#"{"name": "grader-7", "memory": "256MiB"}"#)?;
/// let text = serde_json::to_string(&spec)?;
/// assert_eq!(serde_json::from_str::<SandboxSpec>(&text)?, spec);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SandboxSpec {
    /// Name of the sandbox: 1 to 63 of `a-z`, `0-9`, `-`, `_`, `.`, starting with a letter or digit.
    pub name: String,
    /// Image; the backend's default for `None`. Backends without images refuse one.
    #[serde(default)]
    pub image: Option<String>,
    /// When the image is pulled; for `None` as the backend is configured, which is never by default.
    #[serde(default)]
    pub pull: Option<PullPolicy>,
    /// Whether an image that was pulled for this sandbox is kept.
    #[serde(default)]
    pub image_retention: ImageRetention,
    /// Whether the code may change the image's files, in a layer that ends with the sandbox.
    /// [`crate::SandboxHandle::commit`] needs it. Few engines can limit the layer's size: the
    /// enforcement report says whether `disk` still holds.
    #[serde(default)]
    pub writable_root: bool,
    /// Memory of the whole sandbox; for `None` the policy's, else 512 MiB.
    #[serde(default)]
    pub memory: Option<ByteSize>,
    /// Processors of the whole sandbox; for `None` the policy's, else 1.
    #[serde(default)]
    pub cpus: Option<Cpus>,
    /// A folder of the host that appears at `/workspace`.
    #[serde(default)]
    pub workspace: Option<Workspace>,
    /// More folders and files of the host, each at a path of its own: at most [`crate::MAX_MOUNTS`].
    /// Their targets do not overlap. The policy must allow each source: see
    /// [`crate::CapabilityPolicy::allows_mount`]. Pods have none.
    #[serde(default)]
    pub mounts: Vec<HostMount>,
    /// Storage that the policy's `storage` names, each at a path of its own.
    #[serde(default)]
    pub storage: Vec<StorageMount>,
    /// Packages to install before code runs, in addition to the policy's. The policy must
    /// name them too or have `package_installation = true`.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Names of secrets that executions may get: see [`crate::ExecRequest::secret`].
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Destinations that the code may reach, written as in the policy's `egress`, which must allow
    /// each of them. An empty list denies all; for `None`, the policy's network applies.
    #[serde(default)]
    pub egress: Option<Vec<String>>,
    /// Labels for audit and billing.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Environment variables. The host's are not added.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Working folder inside the sandbox; for `None` `/workspace` if the sandbox has a workspace,
    /// else the sandbox's work folder.
    #[serde(default)]
    pub workdir: Option<String>,
    /// User inside the sandbox as `uid`, `uid:gid` or `root`; for `None` the backend's unprivileged
    /// default.
    #[serde(default)]
    pub user: Option<String>,
    /// How long the sandbox may live; for `None` as long as its handle, or
    /// [`crate::plan::defaults::DETACHED_LIFETIME`] if it is detached.
    #[serde(default)]
    pub lifetime: Option<Duration>,
    /// Whether the sandbox outlives its handle and the process that created it, until its lifetime
    /// ends or a client ends it. [`crate::SandboxClient::get`] finds it by its name.
    #[serde(default)]
    pub detached: bool,
}

/// A folder of the host inside a sandbox, at `/workspace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Workspace {
    /// The host's folder.
    pub path: PathBuf,
    /// Whether the code may only read it.
    pub read_only: bool,
}

impl Workspace {
    /// A folder that the code may read and write.
    pub fn read_write(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            read_only: false,
        }
    }

    /// A folder that the code may only read.
    pub fn read_only(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            read_only: true,
        }
    }
}

impl SandboxSpec {
    /// A specification with every default.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            image: None,
            pull: None,
            image_retention: ImageRetention::Keep,
            writable_root: false,
            memory: None,
            cpus: None,
            workspace: None,
            mounts: Vec::new(),
            storage: Vec::new(),
            packages: Vec::new(),
            secrets: Vec::new(),
            egress: None,
            labels: BTreeMap::new(),
            env: BTreeMap::new(),
            workdir: None,
            user: None,
            lifetime: None,
            detached: false,
        }
    }

    /// A specification with every default and a name that nothing else has.
    ///
    /// ```
    /// use sandbox_core::SandboxSpec;
    ///
    /// assert_ne!(SandboxSpec::unique().name, SandboxSpec::unique().name);
    /// ```
    #[must_use]
    pub fn unique() -> Self {
        Self::new(unique_name("sandbox"))
    }

    /// Sets the image.
    #[must_use]
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = Some(image.into());
        self
    }

    /// Sets when the image is pulled.
    #[must_use]
    pub fn pull(mut self, pull: PullPolicy) -> Self {
        self.pull = Some(pull);
        self
    }

    /// Sets whether an image that was pulled for this sandbox is kept.
    #[must_use]
    pub fn image_retention(mut self, retention: ImageRetention) -> Self {
        self.image_retention = retention;
        self
    }

    /// Sets whether the code may change the image's files.
    #[must_use]
    pub fn writable_root(mut self, writable: bool) -> Self {
        self.writable_root = writable;
        self
    }

    /// Sets the memory.
    #[must_use]
    pub fn memory(mut self, memory: ByteSize) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Sets the processors.
    #[must_use]
    pub fn cpus(mut self, cpus: Cpus) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the workspace.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Adds a folder or file of the host at a path of the sandbox.
    #[must_use]
    pub fn mount(mut self, mount: HostMount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Adds storage that the policy names.
    #[must_use]
    pub fn storage(mut self, storage: StorageMount) -> Self {
        self.storage.push(storage);
        self
    }

    /// Adds a package, as in the policy's `packages`.
    #[must_use]
    pub fn package(mut self, package: impl Into<String>) -> Self {
        self.packages.push(package.into());
        self
    }

    /// Adds the name of a secret.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>) -> Self {
        self.secrets.push(name.into());
        self
    }

    /// Adds a destination that the code may reach, like `example.org:443`.
    #[must_use]
    pub fn egress(mut self, rule: impl Into<String>) -> Self {
        self.egress.get_or_insert_default().push(rule.into());
        self
    }

    /// Leaves the code without a network, whatever the policy allows.
    #[must_use]
    pub fn no_egress(mut self) -> Self {
        self.egress = Some(Vec::new());
        self
    }

    /// The rules of `egress`; `None` if the policy's network applies.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`] for an entry that is not a [`crate::policy::NetworkRule`], and
    /// for rules that only deny.
    pub fn egress_rules(&self) -> Result<Option<EgressRules>> {
        let Some(egress) = &self.egress else {
            return Ok(None);
        };
        let rules = EgressRules::parse(egress).map_err(|error| {
            let context = format!("egress: {}", error.context().trim_start_matches("egress: "));
            let invalid = Error::new(ErrorKind::InvalidSpec, "read specification", context);
            match error.fix() {
                Some(fix) => invalid.with_fix(fix),
                None => invalid,
            }
        })?;
        Ok(Some(rules))
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn workdir(mut self, workdir: impl Into<String>) -> Self {
        self.workdir = Some(workdir.into());
        self
    }

    /// Sets the user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the time to live.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Sets whether the sandbox outlives its handle and the process that creates it.
    #[must_use]
    pub fn detached(mut self, detached: bool) -> Self {
        self.detached = detached;
        self
    }

    /// Checks for values that no backend accepts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`] with the field and the rule.
    pub fn validate(&self) -> Result<()> {
        let bad = |context: String| {
            Err(Error::new(
                ErrorKind::InvalidSpec,
                "read specification",
                context,
            ))
        };
        let name = self.name.as_bytes();
        let good_first = name
            .first()
            .is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let good_rest = name
            .iter()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_.".contains(c));
        if !(1..=63).contains(&name.len()) || !good_first || !good_rest {
            return bad(format!(
                "name {:?}: use 1 to 63 characters of a-z, 0-9, '-', '_', '.', starting with a letter or digit",
                self.name
            ));
        }
        for (key, value) in &self.env {
            if key.is_empty() || key.contains(['=', '\0']) {
                return bad(format!(
                    "environment variable {key:?}: a name is not empty and has no '=' and no NUL"
                ));
            }
            if value.contains('\0') {
                return bad(format!("environment variable {key:?}: its value has a NUL"));
            }
        }
        for name in &self.secrets {
            crate::secret::check_name(name).or_else(bad)?;
        }
        if let Some(workdir) = &self.workdir
            && (!workdir.starts_with('/') || workdir.contains('\0'))
        {
            return bad(format!(
                "working folder {workdir:?}: an absolute path inside the sandbox without NUL"
            ));
        }
        if let Some(Workspace { path, .. }) = &self.workspace
            && (!path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&0))
        {
            return bad(format!(
                "workspace {path:?}: an absolute path of the host without NUL"
            ));
        }
        crate::mount::check(&self.mounts, &self.storage).or_else(bad)?;
        let mut targets = self.storage.iter().map(|it| &it.target);
        if self.workspace.is_some() && targets.any(|it| it == Path::new(WORKSPACE)) {
            return bad("storage: the sandbox already has a workspace".into());
        }
        if let Some(image) = &self.image {
            image.parse::<ImageReference>().map_err(|error| {
                let invalid = Error::new(
                    ErrorKind::InvalidSpec,
                    "read specification",
                    format!("image: {}", error.context()),
                );
                invalid.with_fix(error.fix().unwrap_or_default())
            })?;
        }
        self.egress_rules()?;
        if let Some(user) = &self.user
            && user::parse(user).is_none()
        {
            return bad(format!("user {user:?}: {}", user::FORM));
        }
        if self.lifetime == Some(Duration::ZERO) {
            return bad("lifetime: must be more than 0".into());
        }
        if self.memory.is_some_and(|memory| memory < ByteSize::mib(1)) {
            return bad("memory: must be at least 1MiB".into());
        }
        Ok(())
    }
}
