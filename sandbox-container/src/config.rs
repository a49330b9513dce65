//! What a user may set of the backend.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::PullPolicy;
use sandbox_lang::packages::PackageSettings;

use crate::engine::{Endpoint, GivenClient};
use crate::options::EngineOptions;

/// The image of a sandbox whose specification names none.
pub const DEFAULT_IMAGE: &str = "python:3.11-slim";

/// How long pulling or building an image may take unless the configuration says otherwise: some are gigabytes.
pub const IMAGE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// What a user may set of the backend. The default finds the engine as its own client does.
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
    /// The engine as `unix:///path` or `tcp://host:port`; `None` looks where the family's engine usually is.
    pub host: Option<String>,
    /// A client that the caller made; `None` connects to the engine.
    pub(crate) client: Option<GivenClient>,
    /// The image of a specification that names none.
    pub default_image: String,
    /// When images are pulled where the specification does not say.
    pub pull: PullPolicy,
    /// How long pulling or building an image may take.
    pub image_timeout: Duration,
    /// Whether the credentials that `docker login` or `podman login` have filed are used for pulling. They are read when they are
    /// needed, sent to the engine, and neither kept nor shown.
    pub registry_credentials: bool,
    /// The OCI runtime by its name in the engine's configuration; `None` is the engine's default.
    pub runtime: Option<String>,
    /// Folder for the keys of detached sandboxes. Unset: `/run/sandbox` for root, else `$XDG_RUNTIME_DIR/sandbox`, else
    /// `/tmp/sandbox-UID`. It is made with mode 0700, and refused where it belongs to somebody else or others may enter.
    /// No sandbox sees it.
    pub state_folder: Option<PathBuf>,
    /// Where packages come from, where they are kept, and what their installation may take. They are kept on this host.
    pub packages: PackageSettings,
    /// The engine's network that packages are installed over, by its name; `None` is the engine's default. `"host"` is the host's own,
    /// with its loopback: for a registry or a proxy that listens there alone.
    pub package_network: Option<String>,
    /// Engine options beside the policy, which tighten sandboxes of the tier that applies one.
    pub options: EngineOptions,
    /// The agent's program, for an engine of another architecture than this program; `None` is the one built in.
    pub agent: Option<Arc<[u8]>>,
    /// Leave an option out, and claim it all the same. For suites that prove themselves.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutation: Option<crate::Mutation>,
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
            .field("state_folder", &self.state_folder)
            .field("packages", &self.packages)
            .field("package_network", &self.package_network)
            .field("options", &self.options)
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
            state_folder: None,
            packages: PackageSettings::default(),
            package_network: None,
            options: EngineOptions::default(),
            agent: None,
            #[cfg(feature = "mutants")]
            mutation: None,
        }
    }
}

impl ContainerConfig {
    /// Uses this engine and no other.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Uses this client and looks for no engine. The version of the API is negotiated anew.
    ///
    /// [`ContainerConfig::host`] then says where the client leads: where it names a unix socket, the engine is taken to run on this
    /// host, so that folders of it can be mounted and the kernel's own counts be read. Podman's backend needs it, since it asks
    /// Podman's own API as well, over a connection of its own.
    #[must_use]
    pub fn client(mut self, client: bollard::Docker) -> Self {
        self.client = Some(GivenClient::new(client));
        self
    }

    /// The engine's address, where the configuration has one.
    pub(crate) fn address(&self) -> Result<Option<Endpoint>, String> {
        let parse = |host: &String| Endpoint::parse(host).map_err(|why| format!("{host:?}: {why}"));
        self.host.as_ref().map(parse).transpose()
    }

    /// Leaves an option out, and claims it all the same.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    #[must_use]
    pub fn mutated(mut self, mutation: crate::Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }

    /// Uses this image where a specification names none.
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

    /// Pulls images like this where the specification does not say.
    #[must_use]
    pub fn pull(mut self, pull: PullPolicy) -> Self {
        self.pull = pull;
        self
    }

    /// Gives a pull or a build of an image this long.
    #[must_use]
    pub fn image_timeout(mut self, timeout: Duration) -> Self {
        self.image_timeout = timeout;
        self
    }

    /// Sets whether the credentials that the engines' own clients have filed are used for pulling.
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

    /// Keeps the keys of detached sandboxes in this folder.
    #[must_use]
    pub fn state_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_folder = Some(folder.into());
        self
    }

    /// Sets where packages come from, where they are kept, and what their installation may take.
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

    /// Uses this build of the agent: it must be of this version of the workspace and of the engine's architecture.
    #[must_use]
    pub fn agent(mut self, program: impl Into<Arc<[u8]>>) -> Self {
        self.agent = Some(program.into());
        self
    }
}
