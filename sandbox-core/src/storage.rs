//! Storage that the operator names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest name of storage.
const MAX_NAME: usize = 63;

/// What a name of the policy's `storage` stands for.
///
/// ```
/// use sandbox_core::{CapabilityPolicy, SandboxSpec, Storage, StorageMount};
///
/// let policy = CapabilityPolicy::new().storage("lab", Storage::path("/srv/lab"));
/// let spec = SandboxSpec::new("sb").storage(StorageMount::read_only("lab", "/lab"));
/// # let plan = sandbox_core::Plan::resolve(&spec, &policy)?;
/// # assert_eq!(plan.mounts.len(), 1);
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "StorageFields", into = "StorageFields")]
#[schemars(with = "StorageFields")]
#[non_exhaustive]
pub struct Storage {
    /// Where it is.
    pub place: StoragePlace,
    /// Whether it may only be mounted read-only.
    pub read_only: bool,
}

/// Where storage is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoragePlace {
    /// An absolute path of the host, on the local tier, Docker and Podman.
    Path(PathBuf),
    /// A volume of the engine, on Docker and Podman. It must exist.
    Volume(String),
    /// A PersistentVolumeClaim in the sandboxes' namespace, on Kubernetes. It must exist.
    Claim(String),
}

/// Displays as `volume lab`, `claim lab` or the path.
impl std::fmt::Display for StoragePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Volume(name) => write!(f, "volume {name}"),
            Self::Claim(name) => write!(f, "claim {name}"),
        }
    }
}

/// Storage in a policy file.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Storage",
    description = "What a name stands for: one of `path`, `volume` and `claim`."
)]
struct StorageFields {
    /// An absolute path of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    /// A volume of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    /// A PersistentVolumeClaim in the sandboxes' namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// Whether it may only be mounted read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
}

impl TryFrom<StorageFields> for Storage {
    type Error = &'static str;

    fn try_from(fields: StorageFields) -> Result<Self, Self::Error> {
        let place = match (fields.path, fields.volume, fields.claim) {
            (Some(path), None, None) => StoragePlace::Path(path),
            (None, Some(volume), None) => StoragePlace::Volume(volume),
            (None, None, Some(claim)) => StoragePlace::Claim(claim),
            _ => return Err("storage has exactly one of path, volume and claim"),
        };
        let read_only = fields.read_only;
        Ok(Self { place, read_only })
    }
}

impl From<Storage> for StorageFields {
    fn from(storage: Storage) -> Self {
        let mut fields = Self {
            path: None,
            volume: None,
            claim: None,
            read_only: storage.read_only,
        };
        match storage.place {
            StoragePlace::Path(path) => fields.path = Some(path),
            StoragePlace::Volume(volume) => fields.volume = Some(volume),
            StoragePlace::Claim(claim) => fields.claim = Some(claim),
        }
        fields
    }
}

impl Storage {
    /// A path of the host.
    pub fn path(path: impl AsRef<Path>) -> Self {
        Self::at(StoragePlace::Path(path.as_ref().to_owned()))
    }

    /// A volume of the engine.
    pub fn volume(name: impl Into<String>) -> Self {
        Self::at(StoragePlace::Volume(name.into()))
    }

    /// A PersistentVolumeClaim.
    pub fn claim(name: impl Into<String>) -> Self {
        Self::at(StoragePlace::Claim(name.into()))
    }

    /// The same, to be mounted read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    fn at(place: StoragePlace) -> Self {
        let read_only = false;
        Self { place, read_only }
    }
}

/// A request to mount storage that the policy names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StorageMount {
    /// The name in the policy's `storage`.
    pub name: String,
    /// The absolute path in the sandbox, under the rules of [`crate::HostMount`]. At `/workspace` it
    /// is the workspace.
    pub target: PathBuf,
    /// Whether the code may only read it.
    pub read_only: bool,
}

impl StorageMount {
    /// Storage that the code may read and write.
    pub fn read_write(name: impl Into<String>, target: impl AsRef<Path>) -> Self {
        Self {
            name: name.into(),
            target: target.as_ref().to_owned(),
            read_only: false,
        }
    }

    /// Storage that the code may only read.
    pub fn read_only(name: impl Into<String>, target: impl AsRef<Path>) -> Self {
        Self {
            read_only: true,
            ..Self::read_write(name, target)
        }
    }
}

/// A volume or claim of a plan. Host paths become mounts or the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StorageVolume {
    /// Where it is: never a path.
    pub place: StoragePlace,
    /// The absolute path in the sandbox.
    pub target: PathBuf,
    /// Whether the code may only read it.
    pub read_only: bool,
}

/// Checks the storage of a policy.
pub(crate) fn check(storage: &BTreeMap<String, Storage>) -> Result<(), String> {
    for (name, storage) in storage {
        check_name(name)?;
        match &storage.place {
            StoragePlace::Path(path) if !crate::mount::is_plain(path) => {
                return Err(format!(
                    "storage {name}: {} is not an absolute path without '..' and NUL",
                    path.display()
                ));
            }
            StoragePlace::Path(_) => {}
            StoragePlace::Volume(volume) => is_object(name, "volume", volume, 255)?,
            StoragePlace::Claim(claim) => is_object(name, "claim", claim, 253)?,
        }
    }
    Ok(())
}

/// A name is one word of a command line, and never a path.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts && name.len() <= MAX_NAME && name.chars().all(is_word) {
        return Ok(());
    }
    Err(format!(
        "storage {name:?}: a name has 1 to {MAX_NAME} letters, digits, '-', '_' and '.', starting with a letter or digit"
    ))
}

/// What engines and Kubernetes accept; neither an option nor a path.
fn is_object(name: &str, kind: &str, object: &str, longest: usize) -> Result<(), String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let starts = object.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts && object.len() <= longest && object.chars().all(is_part) {
        return Ok(());
    }
    Err(format!(
        "storage {name}: {object:?} is not the name of a {kind}"
    ))
}
