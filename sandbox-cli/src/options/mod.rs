//! The options that make a policy and a specification, shared by `run` and `check`.

mod ceiling;
mod paths;
mod policy_file;
mod settings;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sandbox::policy::{Preset, Requirement};
use sandbox::registry::Settings;
use sandbox::{
    ByteSize, Capability, CapabilityPolicy, Cpus, ImageRetention, PullPolicy, SandboxSpec,
    Workspace, unique_name,
};

use crate::failure::Failure;
use ceiling::Ceiling;
pub use paths::{Mounts, existing};
pub use policy_file::{PolicySource, in_file, writable};
use settings::SettingOptions;
pub use values::{bytes, duration, pull_policy, text, variable};
use values::{capability, cpus, package, preset};

/// Which tier, and what the code may do there.
///
/// An option that has no value in the policy file sets it; one that has a value there can only narrow it.
#[derive(Debug, Clone, Args)]
pub struct PolicyOptions {
    /// Tier to run on; `sandbox matrix` lists those that are linked
    #[arg(short, long, value_name = "TIER", default_value = "local")]
    pub backend: String,

    /// Policy file: TOML, or JSON where it ends in .json. Other options can only narrow what it sets
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "preset",
        help_heading = "Policy"
    )]
    policy: Option<PathBuf>,

    /// Ready-made policy to start from: strict, workspace or dangerously_unrestricted
    #[arg(long, value_name = "NAME", value_parser = preset, help_heading = "Policy")]
    preset: Option<Preset>,

    /// File or folder of the host that the code can read, at the same path (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Policy")]
    read: Vec<PathBuf>,

    /// File or folder of the host that the code can read and write, at the same path (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Policy")]
    write: Vec<PathBuf>,

    /// Folder of the host that appears at /workspace, where the code starts; DIR:ro is read-only
    #[arg(long, value_name = "DIR[:ro]", help_heading = "Policy")]
    workspace: Option<OsString>,

    /// Make the workspace read-only
    #[arg(long, requires = "workspace", help_heading = "Policy")]
    workspace_read_only: bool,

    /// Follow links that leave their folder in the paths of --read, --write and --workspace, and of the policy file
    #[arg(long, help_heading = "Policy")]
    follow: bool,

    /// Environment variable (repeatable); the host's are never seen
    #[arg(short, long, value_name = "NAME=VALUE", help_heading = "Policy")]
    env: Vec<OsString>,

    /// Image, on tiers that have images
    #[arg(long, value_name = "IMAGE", help_heading = "Policy")]
    image: Option<String>,

    /// When the image is pulled: never, missing or always [default: never]
    #[arg(long, value_name = "WHEN", value_parser = pull_policy, help_heading = "Policy")]
    pull: Option<PullPolicy>,

    /// Remove the image with the sandbox, if it was pulled for it and nothing else uses it
    #[arg(long, help_heading = "Policy")]
    rm_image: bool,

    /// Let the code change the image's files, in a layer that belongs to the sandbox
    #[arg(long, help_heading = "Policy")]
    writable_root: bool,

    /// Install a Python package from the registry before the code runs; wheels only (repeatable)
    #[arg(long, value_name = "NAME[==VERSION]", value_parser = package, help_heading = "Policy")]
    package: Vec<Requirement>,

    /// Memory of the whole sandbox, like 512MiB
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true, help_heading = "Limits")]
    memory: Option<ByteSize>,

    /// Processors of the whole sandbox, like 1.5
    #[arg(long, value_name = "COUNT", value_parser = cpus, allow_negative_numbers = true, help_heading = "Limits")]
    cpus: Option<Cpus>,

    /// Processes of the whole sandbox
    #[arg(
        long,
        value_name = "COUNT",
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    pids: Option<u32>,

    /// Storage of the sandbox's own folders, like 64MiB
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true, help_heading = "Limits")]
    disk: Option<ByteSize>,

    /// Time limit, like 30s, 1m30s or a number of seconds
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, help_heading = "Limits")]
    timeout: Option<Duration>,

    /// How much standard output is passed on; the rest is counted and dropped
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true, help_heading = "Limits")]
    stdout_max: Option<ByteSize>,

    /// How much standard error is passed on
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true, help_heading = "Limits")]
    stderr_max: Option<ByteSize>,

    /// No child processes and no second program
    #[arg(long, help_heading = "Limits")]
    no_subprocess: bool,

    /// Path inside of the sandbox that is copied out afterwards; *, ?, [a-z] and ** match names (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Artifacts")]
    artifact: Vec<OsString>,

    /// Folder inside of the sandbox where the code starts [default: /workspace]
    #[arg(long, value_name = "PATH", help_heading = "Policy")]
    workdir: Option<OsString>,

    /// Capability whose partial enforcement is accepted (repeatable)
    #[arg(long, value_name = "CAPABILITY", value_parser = capability, help_heading = "Policy")]
    allow_partial: Vec<Capability>,

    /// Capability that may go unenforced (repeatable)
    #[arg(long, value_name = "CAPABILITY", value_parser = capability, help_heading = "Policy")]
    allow_unenforced: Vec<Capability>,

    #[command(flatten)]
    settings: SettingOptions,
}

/// What the options ask for.
#[derive(Debug)]
pub struct Request {
    /// The policy.
    pub policy: CapabilityPolicy,
    /// The sandbox.
    pub spec: SandboxSpec,
    /// What of the host the sandbox sees, and where.
    pub mounts: Mounts,
    /// Neither an option nor the policy file says what may be exported.
    pub exports_are_open: bool,
    /// What is set of the tier itself.
    pub settings: Settings,
}

impl PolicyOptions {
    /// The policy and the specification that the options stand for.
    pub fn resolve(&self) -> Result<Request, Failure> {
        let source = self.policy.as_ref();
        let source = source.map(|path| PolicySource::read(path, self.follow));
        let source = source.transpose()?;
        let mut ceiling = match (&source, self.preset) {
            (Some(source), _) => Ceiling::of(source)?,
            (None, Some(preset)) => Ceiling::open(preset.policy()),
            (None, None) => Ceiling::open(CapabilityPolicy::new()),
        };
        let workspace = self.workspace()?;
        if let Some(workspace) = &workspace {
            ceiling.workspace(workspace)?;
        }
        ceiling.read_roots(paths::roots("--read", &self.read)?)?;
        ceiling.write_roots(paths::roots("--write", &self.write)?)?;
        ceiling.follow_links(self.follow)?;
        ceiling.export_paths(
            self.artifact
                .iter()
                .map(|path| text("--artifact", path))
                .collect::<Result<_, _>>()?,
        )?;
        ceiling.packages(&self.package)?;
        ceiling.limit("--memory", self.memory, |policy| &mut policy.memory)?;
        ceiling.limit("--cpus", self.cpus, |policy| &mut policy.cpus)?;
        ceiling.limit("--pids", self.pids, |policy| &mut policy.pids)?;
        ceiling.limit("--disk", self.disk, |policy| &mut policy.disk)?;
        ceiling.limit("--timeout", self.timeout, |policy| &mut policy.timeout)?;
        ceiling.limit("--stdout-max", self.stdout_max, |policy| {
            &mut policy.stdout_max_bytes
        })?;
        ceiling.limit("--stderr-max", self.stderr_max, |policy| {
            &mut policy.stderr_max_bytes
        })?;
        ceiling.accept("--allow-partial", &self.allow_partial, |policy| {
            &mut policy.allow_partial
        })?;
        ceiling.accept("--allow-unenforced", &self.allow_unenforced, |policy| {
            &mut policy.allow_unenforced
        })?;
        let exports_are_open = ceiling.exports_are_open();
        let mut policy = ceiling.into_policy();
        if self.no_subprocess {
            policy.subprocess_execution = Some(false);
        }
        policy.validate()?;
        if let Some(source) = &source {
            source.check(&policy, workspace.as_ref())?;
        }
        let mounts = Mounts::new(&policy, workspace.as_ref(), self.workdir.is_some());
        Ok(Request {
            spec: self.spec(workspace)?,
            policy,
            mounts,
            exports_are_open,
            settings: self.settings.to_settings(),
        })
    }

    fn workspace(&self) -> Result<Option<Workspace>, Failure> {
        let Some(text) = &self.workspace else {
            return Ok(None);
        };
        let (path, read_only) = paths::workspace(text);
        let path = paths::folder("--workspace", &path)?;
        Ok(Some(if read_only || self.workspace_read_only {
            Workspace::read_only(path)
        } else {
            Workspace::read_write(path)
        }))
    }

    fn spec(&self, workspace: Option<Workspace>) -> Result<SandboxSpec, Failure> {
        let mut spec = SandboxSpec::new(unique_name("run"));
        spec.workspace = workspace;
        spec.image = self.image.clone();
        spec.pull = self.pull;
        spec.writable_root = self.writable_root;
        if self.rm_image {
            spec.image_retention = ImageRetention::Remove;
        }
        spec.workdir = self
            .workdir
            .as_deref()
            .map(|path| text("--workdir", path))
            .transpose()?;
        for pair in &self.env {
            let (name, value) = variable(pair)?;
            spec.env.insert(name, value);
        }
        spec.validate()?;
        Ok(spec)
    }
}
