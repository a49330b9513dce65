//! The configuration of the backend.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::PullPolicy;
use sandbox_host::DEFAULT_IMAGE;
use sandbox_host::egress::EgressConfig;
use sandbox_lang::packages::PackageSettings;

use crate::engine::{Endpoint, GivenClient};
use crate::options::EngineOptions;

/// Default time limit for pulling or building an image: some are gigabytes.
pub const IMAGE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The configuration of the backend. The default finds the engine as the engine's own client does.
///
/// ```
/// use sandbox_container::ContainerConfig;
///
/// let config = ContainerConfig::default().host("unix:///run/user/1000/docker.sock");
/// assert_eq!(config.default_image, sandbox_container::DEFAULT_IMAGE);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerConfig {
    /// The engine as `unix:///path` or `tcp://host:port`; `None` tries the family's usual
    /// addresses.
    pub host: Option<String>,
    /// A client that the caller created; `None` connects to the engine.
    pub(crate) client: Option<GivenClient>,
    /// The image for specifications that name none.
    pub default_image: String,
    /// When to pull images if the specification does not say.
    pub pull: PullPolicy,
    /// Time limit for pulling or building an image.
    pub image_timeout: Duration,
    /// Whether pulls use the credentials stored by `docker login` or `podman login`. They are read
    /// on demand, sent to the engine, and neither stored nor shown.
    pub registry_credentials: bool,
    /// Name of the OCI runtime in the engine's configuration; `None` is the engine's default.
    pub runtime: Option<String>,
    /// The conda environment that programs run in, such as `base`; `None` runs them as they are. The
    /// image has the environment and micromamba (`mambaorg/micromamba`), and each program is run by
    /// `micromamba run -n NAME`. `MAMBA_ROOT_PREFIX` is `/opt/conda` unless the specification's
    /// variables say otherwise.
    pub conda: Option<String>,
    /// Folder for the keys of detached sandboxes. Default: `/run/sandbox` for root, else
    /// `$XDG_RUNTIME_DIR/sandbox`, else `/tmp/sandbox-UID`. It is created with mode 0700, and
    /// refused if it belongs to another user or other users may enter. No sandbox sees it.
    pub state_folder: Option<PathBuf>,
    /// Package source, cache and installation limits. Packages are cached on this host.
    pub packages: PackageSettings,
    /// Name of the engine's network for installing packages; `None` is the engine's default.
    /// `"host"` is the host's network with its loopback, for a registry or proxy that listens only
    /// there.
    pub package_network: Option<String>,
    /// Engine options that tighten sandboxes of the tier with a policy.
    pub options: EngineOptions,
    /// Addresses of names that egress rules allow, before this host's resolver is asked.
    pub hosts: BTreeMap<String, IpAddr>,
    /// A file in PEM format with authorities that this host trusts beside its own, for servers of
    /// egress rules at level `http`.
    pub certificates: Option<PathBuf>,
    /// The agent's program, for an engine of another architecture; `None` is the built-in one.
    pub agent: Option<Arc<[u8]>>,
    /// Omits one option but still reports it as enforced. Used by the conformance suite's mutants.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutation: Option<crate::ContainerMutation>,
}

impl fmt::Debug for ContainerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = self
            .agent
            .as_ref()
            .map(|program| format!("{} bytes", program.len()));
        f.debug_struct("ContainerConfig")
            .field("host", &self.host)
            .field("client", &self.client)
            .field("default_image", &self.default_image)
            .field("pull", &self.pull)
            .field("image_timeout", &self.image_timeout)
            .field("registry_credentials", &self.registry_credentials)
            .field("runtime", &self.runtime)
            .field("conda", &self.conda)
            .field("state_folder", &self.state_folder)
            .field("packages", &self.packages)
            .field("package_network", &self.package_network)
            .field("options", &self.options)
            .field("hosts", &self.hosts)
            .field("certificates", &self.certificates)
            .field("agent", &agent)
            .finish()
    }
}

impl Default for ContainerConfig {
    fn default() -> Self {
        Self {
            host: None,
            client: None,
            default_image: DEFAULT_IMAGE.to_owned(),
            pull: PullPolicy::Never,
            image_timeout: IMAGE_TIMEOUT,
            registry_credentials: true,
            runtime: None,
            conda: None,
            state_folder: None,
            packages: PackageSettings::default(),
            package_network: None,
            options: EngineOptions::default(),
            hosts: BTreeMap::new(),
            certificates: None,
            agent: None,
            #[cfg(feature = "mutants")]
            mutation: None,
        }
    }
}

impl ContainerConfig {
    /// What it says about servers of egress rules.
    pub(crate) fn egress(&self) -> EgressConfig<'_> {
        EgressConfig {
            hosts: &self.hosts,
            certificates: self.certificates.as_deref(),
        }
    }

    /// Uses this engine and no other.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Uses this client instead of searching for an engine. The API version is negotiated again.
    ///
    /// [`ContainerConfig::host`] then tells where the client connects to. If it names a unix
    /// socket, the engine is assumed to run on this host: its folders can be mounted and the
    /// kernel's counters read. Podman's backend requires it, because it also uses Podman's own API
    /// over a separate connection.
    #[must_use]
    pub fn client(mut self, client: bollard::Docker) -> Self {
        self.client = Some(GivenClient::new(client));
        self
    }

    /// The configured address of the engine, if any.
    pub(crate) fn address(&self) -> Result<Option<Endpoint>, String> {
        let parse = |host: &String| Endpoint::parse(host).map_err(|why| format!("{host:?}: {why}"));
        self.host.as_ref().map(parse).transpose()
    }

    /// Omits one option but still reports it as enforced.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    #[must_use]
    pub fn mutated(mut self, mutation: crate::ContainerMutation) -> Self {
        self.mutation = Some(mutation);
        self
    }

    /// Uses this image if a specification names none.
    #[must_use]
    pub fn default_image(mut self, image: impl Into<String>) -> Self {
        self.default_image = image.into();
        self
    }

    /// Adds engine options that tighten every sandbox.
    #[must_use]
    pub fn options(mut self, options: EngineOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets when images are pulled if the specification does not say.
    #[must_use]
    pub fn pull(mut self, pull: PullPolicy) -> Self {
        self.pull = pull;
        self
    }

    /// Sets the time limit for pulling or building an image.
    #[must_use]
    pub fn image_timeout(mut self, timeout: Duration) -> Self {
        self.image_timeout = timeout;
        self
    }

    /// Sets whether pulls use the stored credentials of the engines' own clients.
    #[must_use]
    pub fn registry_credentials(mut self, used: bool) -> Self {
        self.registry_credentials = used;
        self
    }

    /// Uses this OCI runtime.
    #[must_use]
    pub fn runtime(mut self, runtime: impl Into<String>) -> Self {
        self.runtime = Some(runtime.into());
        self
    }

    /// Runs programs in this conda environment: see [`ContainerConfig::conda`].
    #[must_use]
    pub fn conda(mut self, environment: impl Into<String>) -> Self {
        self.conda = Some(environment.into());
        self
    }

    /// Stores the keys of detached sandboxes in this folder.
    #[must_use]
    pub fn state_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_folder = Some(folder.into());
        self
    }

    /// Sets the package source, cache and installation limits.
    #[must_use]
    pub fn packages(mut self, settings: PackageSettings) -> Self {
        self.packages = settings;
        self
    }

    /// Installs packages over this network of the engine.
    #[must_use]
    pub fn package_network(mut self, network: impl Into<String>) -> Self {
        self.package_network = Some(network.into());
        self
    }

    /// Gives a name that egress rules allow this address, instead of what this host's resolver
    /// finds. The rules must still allow the address.
    #[must_use]
    pub fn host_address(mut self, name: impl Into<String>, address: IpAddr) -> Self {
        self.hosts.insert(name.into(), address);
        self
    }

    /// Sets a file in PEM format with authorities that this host trusts beside its own, for servers
    /// of egress rules at level `http`.
    #[must_use]
    pub fn certificates(mut self, file: impl Into<PathBuf>) -> Self {
        self.certificates = Some(file.into());
        self
    }

    /// Uses this build of the agent. It must be of this workspace's version and the engine's
    /// architecture.
    #[must_use]
    pub fn agent(mut self, program: impl Into<Arc<[u8]>>) -> Self {
        self.agent = Some(program.into());
        self
    }
}
