//! The plan: a specification resolved against a policy. It says what a backend must build and what
//! must be enforced.

pub mod defaults;
mod mounts;
mod packages;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::denial;
use crate::policy::{CapabilityPolicy, NetworkPolicy, NetworkRule, Requirement};
use crate::trust;
use crate::user;
use crate::{
    ByteSize, Capability, Cpus, Error, ErrorKind, HostMount, ImagePattern, ImageReference,
    ImageRetention, PullPolicy, Result, SandboxSpec, StorageVolume, Workspace,
};

/// Everything that a backend needs to build a sandbox, with every value decided and every demand
/// listed. A detached sandbox stores it, so it also governs later clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// Name of the sandbox.
    pub name: String,
    /// The image, if the caller named one.
    pub image: Option<String>,
    /// The allowed images; `None` allows any. If the caller named none, the backend checks the one
    /// that it uses.
    #[serde(default)]
    pub images: Option<Vec<ImagePattern>>,
    /// When to pull the image, if the caller set it.
    #[serde(default)]
    pub pull: Option<PullPolicy>,
    /// What happens to an image that was pulled or built for this sandbox.
    #[serde(default)]
    pub image_retention: ImageRetention,
    /// Whether code may change the image's files, in a layer of the sandbox's own.
    #[serde(default)]
    pub writable_root: bool,
    /// The workspace at `/workspace`.
    pub workspace: Option<Workspace>,
    /// Folders and files of the host at paths of their own.
    #[serde(default)]
    pub mounts: Vec<HostMount>,
    /// Volumes of the engine and claims of the cluster.
    #[serde(default)]
    pub volumes: Vec<StorageVolume>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The working folder, if the caller named one.
    pub workdir: Option<String>,
    /// The user and group, if the caller named them.
    pub user: Option<(u32, u32)>,
    /// The time to live. A detached sandbox always has one.
    pub lifetime: Option<Duration>,
    /// Whether the sandbox outlives its handle and its creator.
    pub detached: bool,
    /// Host paths that code can read, besides the platform's programs and libraries or the image.
    pub read_roots: Vec<PathBuf>,
    /// Host paths that code can read and write.
    pub write_roots: Vec<PathBuf>,
    /// Whether links in the paths above may leave their folder. A link in a place that code can
    /// write is never followed.
    #[serde(default)]
    pub follow_links: bool,
    /// The network.
    pub network: NetworkPolicy,
    /// The policy's network: the most that the rules of `network` can become while the sandbox
    /// runs.
    #[serde(default = "no_network")]
    pub network_ceiling: NetworkPolicy,
    /// Whether code may start other processes and programs.
    pub subprocess: bool,
    /// The time limit of an execution.
    pub timeout: Duration,
    /// The time limit of one file operation.
    #[serde(default = "default_file_timeout")]
    pub file_timeout: Duration,
    /// The number of bytes of standard output that are kept.
    pub stdout_max: ByteSize,
    /// The number of bytes of standard error that are kept.
    pub stderr_max: ByteSize,
    /// The paths that may be exported.
    pub export_paths: Vec<String>,
    /// Memory.
    pub memory: ByteSize,
    /// Processors.
    pub cpus: Cpus,
    /// Processes.
    pub pids: u32,
    /// Storage in bytes.
    pub disk: ByteSize,
    /// Open descriptors.
    pub open_files: u32,
    /// The packages to install before code runs, sorted by name.
    pub packages: Vec<Requirement>,
    /// Host folders that the backend adds read-only, with what it installed. [`Plan::resolve`] adds
    /// none.
    #[serde(rename = "provided")]
    pub provided_folders: Vec<ProvidedFolder>,
    /// Secrets.
    pub secrets: Vec<String>,
    /// What must or should be enforced.
    pub demands: Vec<Demand>,
}

/// A host folder that a backend shows to code besides the policy's roots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvidedFolder {
    /// The absolute host path, without links.
    pub source: PathBuf,
    /// The path in the sandbox, if the sandbox has its own root.
    pub target: PathBuf,
}

/// Whether an unmet demand refuses the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// No sandbox is created if it is not met.
    Required,
    /// Applied as far as the host can, and reported.
    Wanted,
}

/// One demand of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// The capability.
    pub capability: Capability,
    /// Whether it is required or wanted.
    pub level: Level,
    /// The demanded value, as text ("512MiB", "none").
    pub value: String,
}

/// A required demand that a backend does not meet on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmet {
    /// The demand.
    pub demand: Demand,
    /// What the backend enforces instead.
    pub enforcement: crate::Enforcement,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Demand {
            capability, value, ..
        } = &self.demand;
        let flag = match self.enforcement {
            crate::Enforcement::Partial { .. } => "allow_partial",
            _ => "allow_unenforced",
        };
        write!(
            f,
            "{capability} = {value} is {}; {flag} = [\"{capability}\"] accepts that",
            self.enforcement
        )
    }
}

/// The limit in plans that were recorded before there was a field for it.
fn default_file_timeout() -> Duration {
    defaults::FILE_TIMEOUT
}

/// The ceiling in plans that were recorded before rules could change.
fn no_network() -> NetworkPolicy {
    NetworkPolicy::None
}

impl Plan {
    /// Resolves a specification against the policy that bounds it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`], [`ErrorKind::InvalidPolicy`], and [`ErrorKind::PolicyExceeded`]
    /// with the requested and the allowed value.
    pub fn resolve(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Result<Self> {
        spec.validate()?;
        policy.validate()?;
        let memory = ceiling(Capability::Memory, spec.memory, policy.memory)?;
        let cpus = ceiling(Capability::Cpus, spec.cpus, policy.cpus)?;
        if policy.env_var_access == Some(false) && !spec.env.is_empty() {
            let names = spec.env.keys().cloned().collect::<Vec<_>>().join(", ");
            let context = format!("env: asked for {names}, the policy has env_var_access = false");
            return Err(exceeded(Capability::EnvVarAccess, &names, "false", context));
        }
        for secret in &spec.secrets {
            if !policy.secrets.contains(secret) {
                let allowed = format!("{:?}", policy.secrets);
                let context = format!("secrets: asked for {secret:?}, the policy allows {allowed}");
                return Err(exceeded(Capability::Secrets, secret, &allowed, context));
            }
        }
        let images = policy.image_patterns()?;
        if let Some(image) = &spec.image {
            check_image(images.as_deref(), &image.parse()?)?;
        }
        let mounted = mounts::mounted(spec, policy)?;
        let network = network(spec, policy)?;
        let lifetime = lifetime(spec, policy)?;
        let mut plan = Self {
            name: spec.name.clone(),
            image: spec.image.clone(),
            images,
            pull: spec.pull,
            image_retention: spec.image_retention,
            writable_root: spec.writable_root,
            workspace: mounted.workspace,
            mounts: mounted.mounts,
            volumes: mounted.volumes,
            labels: spec.labels.clone(),
            env: spec.env.clone(),
            workdir: spec.workdir.clone(),
            user: spec.user.as_deref().map(parse_user),
            lifetime,
            detached: spec.detached,
            read_roots: policy.filesystem_read_roots.clone().unwrap_or_default(),
            write_roots: policy.filesystem_write_roots.clone().unwrap_or_default(),
            follow_links: policy.follow_links.unwrap_or(false),
            network,
            network_ceiling: policy.network.clone().unwrap_or(NetworkPolicy::None),
            subprocess: policy.subprocess_execution.unwrap_or(true),
            timeout: policy.timeout.unwrap_or(match spec.detached {
                true => lifetime.unwrap_or(defaults::DETACHED_LIFETIME),
                // A caller waits for it and can end it only by dropping it.
                false => defaults::TIMEOUT,
            }),
            file_timeout: policy.file_timeout.unwrap_or(defaults::FILE_TIMEOUT),
            stdout_max: policy.stdout_max_bytes.unwrap_or(defaults::OUTPUT),
            stderr_max: policy.stderr_max_bytes.unwrap_or(defaults::OUTPUT),
            export_paths: policy.artifact_export_paths.clone(),
            memory: memory.unwrap_or(defaults::MEMORY),
            cpus: cpus.unwrap_or(defaults::CPUS),
            pids: policy.pids.unwrap_or(defaults::PIDS),
            disk: policy.disk.unwrap_or(defaults::DISK),
            open_files: policy.open_files.unwrap_or(defaults::OPEN_FILES),
            packages: packages::packages(spec, policy)?,
            provided_folders: Vec::new(),
            secrets: spec.secrets.clone(),
            demands: Vec::new(),
        };
        trust::prepare(&mut plan)?;
        plan.demands = demands(&plan, policy, memory.is_some(), cpus.is_some());
        Ok(plan)
    }

    /// The plan of a running sandbox for a client with this policy. A shorter time limit and lower
    /// output caps apply. Everything else was decided when the sandbox was created.
    #[must_use]
    pub fn tightened(mut self, policy: &CapabilityPolicy) -> Self {
        fn tighten<T: Ord + Copy>(value: &mut T, ceiling: Option<T>) {
            *value = ceiling.map_or(*value, |ceiling| ceiling.min(*value));
        }
        tighten(&mut self.timeout, policy.timeout);
        tighten(&mut self.stdout_max, policy.stdout_max_bytes);
        tighten(&mut self.stderr_max, policy.stderr_max_bytes);
        self
    }

    /// Checks that this image may be used.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PolicyExceeded`] with the image and the rule.
    pub fn check_image(&self, image: &ImageReference) -> Result<()> {
        check_image(self.images.as_deref(), image)
    }

    /// The host paths that code can write to: write roots, a writable workspace, and the sources
    /// of writable mounts.
    pub fn writable_sources(&self) -> impl Iterator<Item = &Path> {
        let workspace = self.workspace.iter().filter(|it| !it.read_only);
        let mounts = self.mounts.iter().filter(|it| !it.read_only);
        let sources = workspace.map(|it| &it.path).chain(&self.write_roots);
        sources
            .chain(mounts.map(|it| &it.source))
            .map(PathBuf::as_path)
    }

    /// The demand for a capability, if the plan has one.
    #[must_use]
    pub fn demand(&self, capability: Capability) -> Option<&Demand> {
        self.demands
            .iter()
            .find(|demand| demand.capability == capability)
    }
}

/// Whether one of these patterns allows an image.
pub(crate) fn check_image(allowed: Option<&[ImagePattern]>, image: &ImageReference) -> Result<()> {
    let Some(allowed) = allowed else {
        return Ok(());
    };
    if allowed.iter().any(|pattern| pattern.matches(image)) {
        return Ok(());
    }
    let rules = allowed.iter().map(ToString::to_string);
    let rules = rules.collect::<Vec<_>>().join(", ");
    let context = format!("image: {image} is none of the policy's images = [{rules}]");
    Err(Error::new(ErrorKind::PolicyExceeded, "use image", context)
        .with_fix("use an image that the policy names, or ask the operator to add this one"))
}

fn exceeded(capability: Capability, asked: &str, allowed: &str, context: String) -> Error {
    Error::new(ErrorKind::PolicyExceeded, "create sandbox", context)
        .with_fix(denial::SPECIFICATION_ADVICE)
        .with_denial(denial::of_specification(capability, asked, allowed))
}

fn ceiling<T: PartialOrd + Copy + fmt::Display>(
    capability: Capability,
    asked: Option<T>,
    allowed: Option<T>,
) -> Result<Option<T>> {
    match (asked, allowed) {
        (Some(asked), Some(allowed)) if asked > allowed => {
            let context = format!("{capability}: asked for {asked}, the policy allows {allowed}");
            let (asked, allowed) = (asked.to_string(), allowed.to_string());
            Err(exceeded(capability, &asked, &allowed, context))
        }
        (asked, allowed) => Ok(asked.or(allowed)),
    }
}

/// The lifetime of a sandbox. Without one in the specification, the policy's ceiling is used.
fn lifetime(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Result<Option<Duration>> {
    match (spec.lifetime, policy.lifetime) {
        (Some(asked), Some(allowed)) if asked > allowed => {
            let (asked, allowed) = (format!("{asked:?}"), format!("{allowed:?}"));
            let context = format!("lifetime: asked for {asked}, the policy allows {allowed}");
            Err(exceeded(Capability::Lifetime, &asked, &allowed, context))
        }
        (asked, allowed) => {
            let default = spec.detached.then_some(defaults::DETACHED_LIFETIME);
            Ok(asked.or(allowed).or(default))
        }
    }
}

fn network(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Result<NetworkPolicy> {
    let allowed = policy.network.clone().unwrap_or(NetworkPolicy::None);
    let Some(asked) = spec.egress_rules()? else {
        return Ok(allowed);
    };
    allowed.narrowed(&asked).map_err(|excess| {
        let asked = excess.asked.to_string();
        match &allowed {
            NetworkPolicy::Allow(rules) => exceeded(
                Capability::Egress,
                &asked,
                &joined(rules),
                format!("egress: asked for {excess}"),
            ),
            _ => exceeded(
                Capability::NetworkAccess,
                &asked,
                "none",
                format!("egress: asked for {asked}, the policy has no network"),
            ),
        }
    })
}

fn joined(rules: &[NetworkRule]) -> String {
    let rules = rules.iter().map(ToString::to_string);
    rules.collect::<Vec<_>>().join(", ")
}

fn parse_user(user: &str) -> (u32, u32) {
    let (uid, gid) = user::parse(user).expect("the specification was validated");
    (uid, gid.unwrap_or(uid))
}

fn demands(plan: &Plan, policy: &CapabilityPolicy, memory: bool, cpus: bool) -> Vec<Demand> {
    let mut demands = Vec::new();
    let mut push = |capability, required: bool, value: String| {
        let level = if required || policy.require_all {
            Level::Required
        } else {
            Level::Wanted
        };
        demands.push(Demand {
            capability,
            level,
            value,
        });
    };
    let read = mounts::with_mounts(plan, true, vec!["platform".to_owned()], &plan.read_roots);
    push(Capability::FilesystemReadRoots, true, read);
    let write = mounts::with_mounts(plan, false, Vec::new(), &plan.write_roots);
    push(Capability::FilesystemWriteRoots, true, write);
    match &plan.network {
        NetworkPolicy::None => push(Capability::NetworkAccess, true, "none".into()),
        NetworkPolicy::Allow(rules) => {
            let rules = joined(rules);
            push(Capability::NetworkAccess, true, rules.clone());
            push(Capability::Egress, true, rules);
        }
        NetworkPolicy::Full => {}
    }
    push(
        Capability::EnvVarAccess,
        true,
        "only what the specification names".into(),
    );
    push(Capability::Processes, true, "own".into());
    push(Capability::Privileges, true, "none".into());
    if !plan.subprocess {
        push(Capability::SubprocessExecution, true, "false".into());
    }
    push(
        Capability::Timeout,
        policy.timeout.is_some(),
        format!("{:?}", plan.timeout),
    );
    if let Some(lifetime) = plan.lifetime {
        // Without a ceiling, it only bounds what a forgotten sandbox costs.
        push(
            Capability::Lifetime,
            policy.lifetime.is_some(),
            format!("{lifetime:?}"),
        );
    }
    push(
        Capability::StdoutMaxBytes,
        policy.stdout_max_bytes.is_some(),
        plan.stdout_max.to_string(),
    );
    push(
        Capability::StderrMaxBytes,
        policy.stderr_max_bytes.is_some(),
        plan.stderr_max.to_string(),
    );
    push(Capability::Memory, memory, plan.memory.to_string());
    push(Capability::Cpus, cpus, plan.cpus.to_string());
    push(
        Capability::Pids,
        policy.pids.is_some(),
        plan.pids.to_string(),
    );
    push(
        Capability::Disk,
        policy.disk.is_some(),
        plan.disk.to_string(),
    );
    push(
        Capability::OpenFiles,
        policy.open_files.is_some(),
        plan.open_files.to_string(),
    );
    if !plan.export_paths.is_empty() {
        push(
            Capability::ArtifactExportPaths,
            true,
            plan.export_paths.join(", "),
        );
    }
    if !plan.packages.is_empty() {
        let packages = plan.packages.iter().map(ToString::to_string);
        push(
            Capability::Packages,
            true,
            packages.collect::<Vec<_>>().join(", "),
        );
        // No policy sets the isolation of an installation. It is a promise of this library.
        push(
            Capability::PackageInstallation,
            false,
            "only from the registry, before the code runs".into(),
        );
    } else if policy.package_installation == Some(false) {
        push(Capability::PackageInstallation, true, "false".into());
    }
    if !plan.secrets.is_empty() {
        push(Capability::Secrets, true, plan.secrets.join(", "));
    }
    demands
}
