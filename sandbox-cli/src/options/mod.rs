//! The options that make a policy and a specification, shared by `run` and `check`.

mod ceiling;
mod coding;
mod network;
mod paths;
mod policy_file;
mod scan;
mod secrets;
mod settings;
mod toolchains;
mod values;
mod variables;
mod volumes;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use sandbox::policy::{EgressRules, NetworkRule, Preset, Requirement};
use sandbox::registry::Settings;
use sandbox::spi::unique_name;
use sandbox::{
    ByteSize, Capability, CapabilityPolicy, Cpus, ImageRetention, PullPolicy, SandboxSpec,
    Workspace,
};

use crate::command_error::CommandError;
use ceiling::Ceiling;
use network::NetworkOption;
pub use paths::{PathMap, existing};
pub use policy_file::{PolicySource, in_file, writable};
pub use scan::{RunScanOptions, ScanOptions};
pub use secrets::{SecretOptions, Secrets};
use settings::SettingOptions;
use toolchains::Toolchains;
pub use values::{Published, bytes, duration, network_rule, published, pull_policy, text};
use values::{capability, cpus, label, package, preset};
pub use variables::variables;
use volumes::{Volumes, stored_workspace};

/// The tier whose sandboxes can run programs of the host.
pub const LOCAL: &str = "local";

/// The tier and the policy.
///
/// An option sets a field that the policy file leaves open, and narrows any other.
#[derive(Debug, Clone, Args)]
pub struct PolicyOptions {
    /// Tier to run on; `sandbox matrix` lists the available tiers
    #[arg(short, long, value_name = "TIER", default_value = "local")]
    pub backend: String,

    /// Policy file: JSON if its name ends in .json, otherwise TOML. Other options can only narrow
    /// it
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "preset",
        help_heading = "Policy"
    )]
    policy: Option<PathBuf>,

    /// Predefined policy: strict, workspace or coding; coding also mounts the current folder as the
    /// workspace and, on the tier local, this user's toolchains
    #[arg(long, value_name = "NAME", value_parser = preset, help_heading = "Policy")]
    preset: Option<Preset>,

    /// Host file or folder that the code can read, at the same path (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Policy")]
    read: Vec<PathBuf>,

    /// Host file or folder that the code can read and write, at the same path (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Policy")]
    write: Vec<PathBuf>,

    /// Host folder to mount at /workspace, where the code starts, or a name of the policy file's
    /// storage; read-only with :ro
    #[arg(long, value_name = "DIR[:ro]", help_heading = "Policy")]
    workspace: Option<OsString>,

    /// Mount the workspace read-only
    #[arg(long, help_heading = "Policy")]
    workspace_read_only: bool,

    /// Host file or folder, or a name of the policy file's storage, to mount at another path;
    /// read-only with :ro (repeatable)
    #[arg(short, long, value_name = "SRC:DST[:ro]", help_heading = "Policy")]
    volume: Vec<OsString>,

    /// Follow symbolic links that leave their folder, in the policy file's path and in the paths of
    /// --read, --write, --workspace and --volume
    #[arg(long, help_heading = "Policy")]
    follow: bool,

    /// Destination that the code may reach: HOST, *.SUFFIX, an address or a network, with :PORT;
    /// with a leading ! one that it may not reach; "HOST http GET /v1/*" checks each request
    /// (repeatable)
    #[arg(long, value_name = "HOST[:PORT]", value_parser = network_rule, help_heading = "Policy")]
    allow_host: Vec<NetworkRule>,

    /// No network, or the host's without any rule [default: none]
    #[arg(
        long,
        value_name = "NETWORK",
        value_enum,
        conflicts_with = "allow_host",
        help_heading = "Policy"
    )]
    network: Option<NetworkOption>,

    /// Environment variable (repeatable); the host's variables are not passed on
    #[arg(short, long, value_name = "NAME=VALUE", help_heading = "Policy")]
    env: Vec<OsString>,

    /// File with a NAME=VALUE in each line (repeatable); empty lines and lines with # are skipped,
    /// and --env takes precedence
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    env_file: Vec<PathBuf>,

    /// User in the sandbox, by number, or root [default: the tier's unprivileged user]
    #[arg(short, long, value_name = "UID[:GID]|root", help_heading = "Policy")]
    user: Option<String>,

    /// Label of the sandbox (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = label, help_heading = "Policy")]
    label: Vec<(String, String)>,

    /// Container image, on tiers that use images
    #[arg(long, value_name = "IMAGE", help_heading = "Policy")]
    image: Option<String>,

    /// When to pull the image: never, missing or always [default: never]
    #[arg(long, value_name = "WHEN", value_parser = pull_policy, help_heading = "Policy")]
    pull: Option<PullPolicy>,

    /// Remove the image afterwards, if it was pulled for this sandbox and is not in use
    #[arg(long, help_heading = "Policy")]
    rm_image: bool,

    /// Let the code change the image's files, in a private layer of the sandbox
    #[arg(long, help_heading = "Policy")]
    writable_root: bool,

    /// Package to install first, from the registry (repeatable): of pip, or with a prefix of
    /// another installer, as in npm:lodash@^4, gem:rack, go:example.org/greet, cargo:itoa@1 and
    /// cran:jsonlite
    #[arg(long, value_name = "NAME[==VERSION]", value_parser = package, help_heading = "Policy")]
    package: Vec<Requirement>,

    /// Lock file with packages of pip to install first: lines of NAME==VERSION --hash=sha256:HASH,
    /// which are checked
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    package_lock: Option<PathBuf>,

    /// Memory limit of the whole sandbox, such as 512m; units are powers of 1024, as in Docker
    #[arg(short, long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true, help_heading = "Limits")]
    memory: Option<ByteSize>,

    /// CPU limit of the whole sandbox, in processors, such as 1.5
    #[arg(long, value_name = "COUNT", value_parser = cpus, allow_negative_numbers = true, help_heading = "Limits")]
    cpus: Option<Cpus>,

    /// Process limit of the whole sandbox
    #[arg(
        long,
        value_name = "COUNT",
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    pids: Option<u32>,

    /// Storage limit of the sandbox's own folders, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true, help_heading = "Limits")]
    disk: Option<ByteSize>,

    /// Time limit, such as 30s, 1m30s or a number of seconds
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true, help_heading = "Limits")]
    timeout: Option<Duration>,

    /// Maximum size of standard output; further bytes are counted and discarded
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true, help_heading = "Limits")]
    stdout_max: Option<ByteSize>,

    /// Maximum size of standard error; further bytes are counted and discarded
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true, help_heading = "Limits")]
    stderr_max: Option<ByteSize>,

    /// Forbid child processes, and the execution of another program
    #[arg(long, help_heading = "Limits")]
    no_subprocess: bool,

    /// Path in the sandbox to copy to the host afterwards; may contain *, ?, [a-z] and **
    /// (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Artifacts")]
    artifact: Vec<OsString>,

    /// Working directory in the sandbox [default: /workspace]
    #[arg(short, long, value_name = "PATH", help_heading = "Policy")]
    workdir: Option<OsString>,

    /// Accept partial enforcement of this capability (repeatable)
    #[arg(long, value_name = "CAPABILITY", value_parser = capability, help_heading = "Policy")]
    allow_partial: Vec<Capability>,

    /// Accept that this capability is not enforced (repeatable)
    #[arg(long, value_name = "CAPABILITY", value_parser = capability, help_heading = "Policy")]
    allow_unenforced: Vec<Capability>,

    #[command(flatten)]
    pub secrets: SecretOptions,

    #[command(flatten)]
    settings: SettingOptions,
}

/// The policy and the sandbox that the options request.
#[derive(Debug)]
pub struct ResolvedOptions {
    /// The policy.
    pub policy: CapabilityPolicy,
    /// The sandbox.
    pub spec: SandboxSpec,
    /// The host paths that the sandbox sees.
    pub mounts: PathMap,
    /// Neither an option nor the policy file says what may be exported.
    pub exports_are_open: bool,
    /// Whether an option or the policy file, with what it extends, states a time limit.
    pub timeout_is_stated: bool,
    /// Settings of the tier.
    pub settings: Settings,
    /// The toolchains of this user that the sandbox sees.
    pub toolchains: Vec<&'static str>,
}

impl PolicyOptions {
    /// Whether neither a file nor a preset limits what the options may request.
    pub fn is_open(&self) -> bool {
        self.policy.is_none() && self.preset.is_none()
    }

    /// Resolves the policy and the specification.
    pub fn resolve(&self) -> Result<ResolvedOptions, CommandError> {
        self.resolve_with(None)
    }

    /// As [`Self::resolve`]. The code may also read `folder`, unless it sees it anyway.
    pub fn resolve_with(&self, folder: Option<&Path>) -> Result<ResolvedOptions, CommandError> {
        let source = self.policy.as_ref();
        let source = source.map(|path| PolicySource::read(path, self.follow));
        let source = source.transpose()?;
        let mut ceiling = match (&source, self.preset) {
            (Some(source), _) => Ceiling::of(source)?,
            (None, Some(preset)) => Ceiling::open(preset.policy()),
            (None, None) => Ceiling::open(CapabilityPolicy::new()),
        };
        let names = ceiling.storage();
        let stored = self.workspace.as_deref();
        let stored = stored.and_then(|it| stored_workspace(it, names));
        let mut workspace = match stored {
            Some(_) => None,
            None => self.workspace()?,
        };
        let Volumes {
            mut mounts,
            mut storage,
        } = volumes::volumes(&self.volume, &mut workspace, names)?;
        storage.extend(stored);
        let is_coding = self.preset == Some(Preset::Coding);
        let is_stored = storage
            .iter()
            .any(|it| it.target == Path::new("/workspace"));
        if is_coding && workspace.is_none() && !is_stored {
            workspace = Some(coding::workspace()?);
        }
        if self.workspace_read_only {
            let stored = storage.iter_mut().map(|it| (&it.target, &mut it.read_only));
            let stored = stored.filter(|(target, _)| *target == Path::new("/workspace"));
            let mut found = workspace
                .iter_mut()
                .map(|it| &mut it.read_only)
                .collect::<Vec<_>>();
            found.extend(stored.map(|(_, read_only)| read_only));
            if found.is_empty() {
                let why = "--workspace-read-only: the sandbox has no workspace";
                return Err(
                    CommandError::argument(why).with_fix("name its folder with --workspace")
                );
            }
            found.into_iter().for_each(|read_only| *read_only = true);
        }
        if let Some(workspace) = &workspace {
            ceiling.workspace(workspace)?;
        }
        let mut read = paths::roots("--read", &self.read)?;
        if let Some(folder) = folder {
            let folder = existing("FILE", folder)?;
            let workspace = workspace.iter().map(|workspace| &workspace.path);
            let seen = workspace.chain(mounts.iter().map(|mount| &mount.source));
            let mut seen = seen.chain(&read).chain(&self.write);
            if !seen.any(|root| paths::beneath(&folder, root).is_some()) {
                read.push(folder);
            }
        }
        let write = paths::roots("--write", &self.write)?;
        let toolchains = match is_coding && self.backend == LOCAL {
            true => Toolchains::of_user(),
            false => Toolchains::default(),
        };
        let roots = read.iter().chain(&write).collect::<Vec<_>>();
        mounts.extend(coding::mounts(&toolchains, &mounts, &roots));
        ceiling.mounts(&mounts)?;
        ceiling.read_roots(read)?;
        ceiling.write_roots(write)?;
        ceiling.follow_links(self.follow)?;
        ceiling.export_paths(
            self.artifact
                .iter()
                .map(|path| text("--artifact", path))
                .collect::<Result<_, _>>()?,
        )?;
        ceiling.packages(&self.packages()?)?;
        ceiling.secrets(&self.secrets.names()?)?;
        let egress = match self.network {
            Some(network) => ceiling.network(network)?,
            None => ceiling.allow_hosts(&EgressRules::new(self.allow_host.clone()))?,
        };
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
        let mut spec = self.spec(workspace, egress)?;
        spec.mounts = mounts;
        spec.storage = storage;
        if is_coding {
            coding::set_variables(&mut spec, &toolchains);
        }
        spec.validate()?;
        if let Some(source) = &source {
            source.check(&policy, &spec)?;
        }
        let timeout_is_stated =
            self.timeout.is_some() || (source.is_some() && policy.timeout.is_some());
        let mounts = PathMap::new(&policy, &spec);
        Ok(ResolvedOptions {
            spec,
            policy,
            mounts,
            exports_are_open,
            timeout_is_stated,
            settings: self.settings.to_settings(),
            toolchains: toolchains.names,
        })
    }

    /// The packages of both options.
    fn packages(&self) -> Result<Vec<Requirement>, CommandError> {
        let mut packages = self.package.clone();
        if let Some(file) = &self.package_lock {
            let text = std::fs::read_to_string(file)
                .map_err(|cause| CommandError::io(file.display().to_string(), &cause))?;
            packages.extend(Requirement::read_lock_file(&text)?);
        }
        Ok(packages)
    }

    fn workspace(&self) -> Result<Option<Workspace>, CommandError> {
        let Some(text) = &self.workspace else {
            return Ok(None);
        };
        let (path, read_only) = paths::workspace(text);
        let path = paths::folder("--workspace", &path)?;
        Ok(Some(if read_only {
            Workspace::read_only(path)
        } else {
            Workspace::read_write(path)
        }))
    }

    fn spec(
        &self,
        workspace: Option<Workspace>,
        egress: Option<Vec<String>>,
    ) -> Result<SandboxSpec, CommandError> {
        let mut spec = SandboxSpec::new(unique_name("run"));
        spec.workspace = workspace;
        spec.egress = egress;
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
        spec.env = variables(&self.env_file, &self.env)?;
        spec.secrets = self.secrets.names()?;
        spec.user.clone_from(&self.user);
        spec.labels = self.label.iter().cloned().collect();
        Ok(spec)
    }
}
