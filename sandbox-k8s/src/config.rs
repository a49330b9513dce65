//! The configuration of the backend.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::{PullPolicy, Result};
use sandbox_host::DEFAULT_IMAGE;
use sandbox_host::egress::EgressConfig;
use sandbox_lang::packages::PackageSettings;

use crate::environment;
use crate::pool::WarmPool;
use crate::requests::REQUESTS_AT_ONCE;
use crate::template::PodTemplate;

/// The default time for a pod to start running. A node may have to pull the image.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The default time to wait for a node with room. Another pod may be about to end.
pub const SCHEDULING_TIMEOUT: Duration = Duration::from_secs(5);

/// The environment variable with the path of the pod template, used if the backend is opened by
/// name. Empty counts as unset.
pub const POD_TEMPLATE_VARIABLE: &str = "SANDBOX_K8S_POD_TEMPLATE";

/// The default time that a sandbox survives without contact to its owner. API servers and kubelets
/// between the two may be away for a while.
pub const LEASE: Duration = Duration::from_secs(60);

/// The shortest lease: an owner sends a ping about every 10 s.
pub const SHORTEST_LEASE: Duration = Duration::from_secs(20);

/// The privileges that pods need from their namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PodProfile {
    /// The agent takes the pod's network down with `NET_ADMIN` and gives the capability up before
    /// it serves a client, or with egress rules before code runs. It is another user than the code. The namespace's pod security
    /// level must be `privileged` or unset.
    #[default]
    Hardened,
    /// Passes the pod security level `restricted`. The network stays up, and code runs as the
    /// agent's user. The report states the gaps, and a policy that requires enforcement refuses
    /// them.
    Restricted,
}

impl PodProfile {
    /// Every profile.
    pub const ALL: [Self; 2] = [Self::Hardened, Self::Restricted];

    /// The name in reports and in [`POD_PROFILE_VARIABLE`](crate::POD_PROFILE_VARIABLE).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hardened => "hardened",
            Self::Restricted => "restricted",
        }
    }
}

/// The configuration of a [`crate::KubernetesBackend`]. Without a named cluster, the backend tries
/// `KUBECONFIG`, then `~/.kube/config`, then the service account of the pod that it runs in.
#[derive(Clone)]
#[non_exhaustive]
pub struct KubernetesConfig {
    /// The kubeconfig file, instead of the default ones.
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig file, instead of its current one.
    pub context: Option<String>,
    /// The namespace of all pods, instead of the context's.
    pub namespace: Option<String>,
    /// A client that the caller made. If set, no kubeconfig is read.
    pub client: Option<kube::Client>,
    /// The image of sandboxes whose specification names none.
    pub default_image: String,
    /// When nodes pull images, if the specification does not say. The default is
    /// [`PullPolicy::Never`].
    pub pull: PullPolicy,
    /// The profile of pods.
    pub profile: PodProfile,
    /// How long a pod may take to start running.
    pub start_timeout: Duration,
    /// How long to wait for a node with room.
    pub scheduling_timeout: Duration,
    /// Additional pod settings.
    pub pod_template: Option<PodTemplate>,
    /// Reachable addresses that a pod without network must not reach. If the network is left to a
    /// NetworkPolicy, the canary tries them besides the API server, the node, name servers and
    /// another pod.
    pub canary_targets: Vec<SocketAddr>,
    /// How long a sandbox survives after its owner was killed or became unreachable.
    pub lease: Duration,
    /// The most requests to the API server that wait for an answer at once; at least 1.
    pub requests_at_once: usize,
    /// Pods to start ahead; `None` disables the warm pool.
    pub warm: Option<WarmPool>,
    /// Addresses of names that egress rules allow, before this host's resolver is asked.
    pub hosts: BTreeMap<String, IpAddr>,
    /// A file in PEM format with authorities that this host trusts beside its own, for servers of
    /// egress rules at level `http`.
    pub certificates: Option<PathBuf>,
    /// The cache of packages on this host, and the limits of their installation.
    pub packages: PackageSettings,
    /// A build of the agent, instead of the embedded one.
    pub agent: Option<Arc<[u8]>>,
    /// A protection to leave out although it is reported.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutation: Option<crate::PodMutation>,
}

impl fmt::Debug for KubernetesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesConfig")
            .field("kubeconfig", &self.kubeconfig)
            .field("context", &self.context)
            .field("namespace", &self.namespace)
            .field("client", &self.client.is_some())
            .field("default_image", &self.default_image)
            .field("pull", &self.pull)
            .field("profile", &self.profile)
            .field("start_timeout", &self.start_timeout)
            .field("scheduling_timeout", &self.scheduling_timeout)
            .field("pod_template", &self.pod_template)
            .field("canary_targets", &self.canary_targets)
            .field("lease", &self.lease)
            .field("requests_at_once", &self.requests_at_once)
            .field("warm", &self.warm)
            .field("hosts", &self.hosts)
            .field("certificates", &self.certificates)
            .field("packages", &self.packages)
            .field("agent", &self.agent.as_ref().map(|program| program.len()))
            .finish()
    }
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            namespace: None,
            client: None,
            default_image: DEFAULT_IMAGE.to_owned(),
            pull: PullPolicy::Never,
            profile: PodProfile::default(),
            start_timeout: START_TIMEOUT,
            scheduling_timeout: SCHEDULING_TIMEOUT,
            pod_template: None,
            canary_targets: Vec::new(),
            lease: LEASE,
            requests_at_once: REQUESTS_AT_ONCE,
            warm: None,
            hosts: BTreeMap::new(),
            certificates: None,
            packages: PackageSettings::default(),
            agent: None,
            #[cfg(feature = "mutants")]
            mutation: None,
        }
    }
}

impl KubernetesConfig {
    /// What it says about servers of egress rules.
    pub(crate) fn egress(&self) -> EgressConfig<'_> {
        EgressConfig {
            hosts: &self.hosts,
            certificates: self.certificates.as_deref(),
        }
    }

    /// The defaults, with the pod template named by [`POD_TEMPLATE_VARIABLE`] and the profile named
    /// by [`POD_PROFILE_VARIABLE`](crate::POD_PROFILE_VARIABLE).
    ///
    /// # Errors
    ///
    /// As [`PodTemplate::read`]; `InvalidSpec` for an unknown profile.
    pub fn from_environment() -> Result<Self> {
        let file = std::env::var_os(POD_TEMPLATE_VARIABLE).filter(|file| !file.is_empty());
        let pod_template = file.map(PodTemplate::read).transpose()?;
        Ok(Self {
            pod_template,
            profile: environment::profile()?,
            ..Self::default()
        })
    }

    /// Applies this template to all pods.
    #[must_use]
    pub fn pod_template(mut self, template: PodTemplate) -> Self {
        self.pod_template = Some(template);
        self
    }

    /// Adds an address that the canary must not reach.
    #[must_use]
    pub fn canary_target(mut self, address: SocketAddr) -> Self {
        self.canary_targets.push(address);
        self
    }

    /// Uses this kubeconfig file only.
    #[must_use]
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(path.into());
        self
    }

    /// Uses this context.
    #[must_use]
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.context = Some(name.into());
        self
    }

    /// Makes all pods in this namespace.
    #[must_use]
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// Uses this client. Its runtime must live as long as the backend and its sandboxes.
    #[must_use]
    pub fn client(mut self, client: kube::Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets the image of sandboxes whose specification names none.
    #[must_use]
    pub fn default_image(mut self, image: impl Into<String>) -> Self {
        self.default_image = image.into();
        self
    }

    /// Sets when nodes pull images, if the specification does not say.
    #[must_use]
    pub fn pull(mut self, pull: PullPolicy) -> Self {
        self.pull = pull;
        self
    }

    /// Sets the profile of pods.
    #[must_use]
    pub fn profile(mut self, profile: PodProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets how long a pod may take to start running.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Sets how long to wait for a node with room.
    #[must_use]
    pub fn scheduling_timeout(mut self, timeout: Duration) -> Self {
        self.scheduling_timeout = timeout;
        self
    }

    /// Ends a sandbox that had no contact to its owner for this long, at least [`SHORTEST_LEASE`].
    /// The pod ends; a later client removes what is left of it.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(SHORTEST_LEASE);
        self
    }

    /// Sets how many requests to the API server may wait for an answer at once.
    #[must_use]
    pub fn requests_at_once(mut self, count: usize) -> Self {
        self.requests_at_once = count;
        self
    }

    /// Starts pods ahead and keeps this many ready.
    #[must_use]
    pub fn warm(mut self, pool: WarmPool) -> Self {
        self.warm = Some(pool);
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

    /// Sets the cache of packages on this host, and the limits of their installation.
    #[must_use]
    pub fn packages(mut self, settings: PackageSettings) -> Self {
        self.packages = settings;
        self
    }

    /// Uses this build of the agent. It must have this workspace's version and this process's
    /// architecture.
    #[must_use]
    pub fn agent(mut self, program: impl Into<Arc<[u8]>>) -> Self {
        self.agent = Some(program.into());
        self
    }

    /// Leaves a protection out but reports it.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    #[must_use]
    pub fn mutated(mut self, mutation: crate::PodMutation) -> Self {
        self.mutation = Some(mutation);
        self
    }
}
