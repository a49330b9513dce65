//! Specification and policy resolved against each other: what a backend is asked to build, and what must hold.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::denial;
use crate::policy::{CapabilityPolicy, NetworkPolicy, NetworkRule, Requirement};
use crate::{
    ByteSize, Capability, Cpus, Error, ErrorKind, ImagePattern, ImageReference, ImageRetention,
    PullPolicy, Result, SandboxSpec, Workspace,
};

/// Everything a backend needs to build a sandbox: every value decided, every demand listed. A detached sandbox keeps it beside
/// itself, so that it governs whoever comes later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// Name of the sandbox.
    pub name: String,
    /// Image, where the caller named one.
    pub image: Option<String>,
    /// Which images may be used; `None` is any. Backends check what they use where the caller named none.
    #[serde(default)]
    pub images: Option<Vec<ImagePattern>>,
    /// When the image is pulled, where the caller said so.
    #[serde(default)]
    pub pull: Option<PullPolicy>,
    /// What becomes of an image that was pulled or built for this sandbox.
    #[serde(default)]
    pub image_retention: ImageRetention,
    /// Whether the code may change the image's files, in a layer of the sandbox's own.
    #[serde(default)]
    pub writable_root: bool,
    /// The workspace at `/workspace`.
    pub workspace: Option<Workspace>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Working folder, where the caller named one.
    pub workdir: Option<String>,
    /// User and group, where the caller named them.
    pub user: Option<(u32, u32)>,
    /// Time to live; a detached sandbox always has one.
    pub lifetime: Option<Duration>,
    /// Whether the sandbox outlives its handle and its creator.
    pub detached: bool,
    /// Paths of the host that can be read, besides the platform's programs and libraries or the image.
    pub read_roots: Vec<PathBuf>,
    /// Write roots.
    pub write_roots: Vec<PathBuf>,
    /// Whether links that leave their folder are followed in the paths above. A link where the plan lets code write never is.
    #[serde(default)]
    pub follow_links: bool,
    /// The network.
    pub network: NetworkPolicy,
    /// Whether other processes and programs may be started.
    pub subprocess: bool,
    /// The longest an execution may take.
    pub timeout: Duration,
    /// How much standard output is kept.
    pub stdout_max: ByteSize,
    /// How much standard error is kept.
    pub stderr_max: ByteSize,
    /// What may be exported.
    pub export_paths: Vec<String>,
    /// Memory.
    pub memory: ByteSize,
    /// Processors.
    pub cpus: Cpus,
    /// Processes.
    pub pids: u32,
    /// Storage.
    pub disk: ByteSize,
    /// Open descriptors.
    pub open_files: u32,
    /// Packages that are there before code runs, sorted by name.
    pub packages: Vec<Requirement>,
    /// Folders of the host that a backend adds by itself, read-only: what it installed. [`Plan::resolve`] adds none.
    pub provided: Vec<Provided>,
    /// Secrets.
    pub secrets: Vec<String>,
    /// What must or should hold.
    pub demands: Vec<Demand>,
}

/// A folder of the host that a backend shows to the code beside the policy's roots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provided {
    /// Where it is on the host: absolute, without links.
    pub source: PathBuf,
    /// Where it appears in the sandbox, where that has a root of its own.
    pub target: PathBuf,
}

/// Whether a demand can stop a sandbox from being created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Without it no sandbox is created.
    Required,
    /// Applied as far as the host can, and reported.
    Wanted,
}

/// One thing that the plan demands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// Of which capability.
    pub capability: Capability,
    /// How strongly.
    pub level: Level,
    /// What is demanded, for a person ("512MiB", "none").
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

/// Defaults of what neither the specification nor the policy says.
pub mod defaults {
    use super::{ByteSize, Cpus, Duration};

    /// Time to live of a detached sandbox: long enough to work with, short enough that a forgotten one is no burden.
    pub const DETACHED_LIFETIME: Duration = Duration::from_secs(3600);
    /// Longest execution in a sandbox that is not detached. In a detached one it is the sandbox's time to live.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    /// Output kept of each stream.
    pub const OUTPUT: ByteSize = ByteSize::mib(64);
    /// Memory of a sandbox.
    pub const MEMORY: ByteSize = ByteSize::mib(512);
    /// Processors of a sandbox.
    pub const CPUS: Cpus = Cpus::whole(1);
    /// Processes of a sandbox.
    pub const PIDS: u32 = 256;
    /// Storage of a sandbox.
    pub const DISK: ByteSize = ByteSize::mib(256);
    /// Open descriptors of a process.
    pub const OPEN_FILES: u32 = 1024;
}

impl Plan {
    /// Resolves a specification against the policy that bounds it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`], [`ErrorKind::InvalidPolicy`], and [`ErrorKind::PolicyExceeded`] naming what was asked and
    /// what is allowed.
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
        let network = network(spec, policy)?;
        let lifetime = spec
            .lifetime
            .or(spec.detached.then_some(defaults::DETACHED_LIFETIME));
        let mut plan = Self {
            name: spec.name.clone(),
            image: spec.image.clone(),
            images,
            pull: spec.pull,
            image_retention: spec.image_retention,
            writable_root: spec.writable_root,
            workspace: spec.workspace.clone(),
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
            subprocess: policy.subprocess_execution.unwrap_or(true),
            timeout: policy.timeout.unwrap_or(match spec.detached {
                true => lifetime.unwrap_or(defaults::DETACHED_LIFETIME),
                // Somebody waits for it, and has no other way to end it than to go away.
                false => defaults::TIMEOUT,
            }),
            stdout_max: policy.stdout_max_bytes.unwrap_or(defaults::OUTPUT),
            stderr_max: policy.stderr_max_bytes.unwrap_or(defaults::OUTPUT),
            export_paths: policy.artifact_export_paths.clone(),
            memory: memory.unwrap_or(defaults::MEMORY),
            cpus: cpus.unwrap_or(defaults::CPUS),
            pids: policy.pids.unwrap_or(defaults::PIDS),
            disk: policy.disk.unwrap_or(defaults::DISK),
            open_files: policy.open_files.unwrap_or(defaults::OPEN_FILES),
            packages: policy.requirements()?,
            provided: Vec::new(),
            secrets: spec.secrets.clone(),
            demands: Vec::new(),
        };
        plan.demands = demands(&plan, policy, memory.is_some(), cpus.is_some());
        Ok(plan)
    }

    /// The plan of a sandbox that runs, as a client under this policy may use it: a shorter time limit and lower output caps
    /// count, everything else was decided when the sandbox was created.
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

    /// Whether this image may be used.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PolicyExceeded`] naming the image and the rule.
    pub fn check_image(&self, image: &ImageReference) -> Result<()> {
        check_image(self.images.as_deref(), image)
    }

    /// The demand of a capability, where the plan has one.
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

fn network(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Result<NetworkPolicy> {
    let allowed = policy.network.clone().unwrap_or(NetworkPolicy::None);
    if spec.egress.is_empty() {
        return Ok(allowed);
    }
    let asked = spec
        .egress
        .iter()
        .map(|rule| rule.parse())
        .collect::<Result<Vec<_>>>()?;
    match allowed {
        NetworkPolicy::None => Err(exceeded(
            Capability::NetworkAccess,
            &spec.egress.join(", "),
            "none",
            format!(
                "egress: asked for {:?}, the policy has no network",
                spec.egress
            ),
        )),
        NetworkPolicy::Allow(rules) => match asked.iter().find(|rule| !rules.contains(rule)) {
            Some(rule) => Err(exceeded(
                Capability::Egress,
                &rule.to_string(),
                &shown(&rules),
                format!("egress: asked for {rule}, which no rule of the policy names"),
            )),
            None => Ok(NetworkPolicy::Allow(asked)),
        },
        NetworkPolicy::Full => Ok(NetworkPolicy::Allow(asked)),
    }
}

fn shown(rules: &[NetworkRule]) -> String {
    let rules = rules.iter().map(ToString::to_string);
    rules.collect::<Vec<_>>().join(", ")
}

fn parse_user(user: &str) -> (u32, u32) {
    let mut parts = user.splitn(2, ':').map(|part| part.parse::<u32>());
    let number = |part: Option<Result<u32, _>>| part.and_then(Result::ok);
    let uid = number(parts.next()).expect("the specification was validated");
    (uid, number(parts.next()).unwrap_or(uid))
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
    let paths = |roots: &[PathBuf]| {
        if roots.is_empty() {
            "none".to_owned()
        } else {
            roots
                .iter()
                .map(|root| root.display().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        }
    };
    let read = match plan.read_roots.as_slice() {
        [] => "platform".to_owned(),
        roots => format!("platform, {}", paths(roots)),
    };
    push(Capability::FilesystemReadRoots, true, read);
    push(
        Capability::FilesystemWriteRoots,
        true,
        paths(&plan.write_roots),
    );
    match &plan.network {
        NetworkPolicy::None => push(Capability::NetworkAccess, true, "none".into()),
        NetworkPolicy::Allow(rules) => {
            let rules = shown(rules);
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
        // It bounds what a forgotten sandbox costs, and nothing that code in it may do.
        push(Capability::Lifetime, false, format!("{lifetime:?}"));
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
        // Nobody wrote how far the installation is held in: that is our own promise.
        push(
            Capability::PackageInstallation,
            false,
            "from the registry alone, before the code runs".into(),
        );
    } else if policy.package_installation == Some(false) {
        push(Capability::PackageInstallation, true, "false".into());
    }
    if !plan.secrets.is_empty() {
        push(Capability::Secrets, true, plan.secrets.join(", "));
    }
    demands
}
