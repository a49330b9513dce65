//! What a user may set of the backend.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::{PullPolicy, Result};

use crate::environment;
use crate::pool::WarmPool;
use crate::requests::REQUESTS_AT_ONCE;
use crate::template::PodTemplate;

/// The image of a sandbox whose specification names none.
pub const DEFAULT_IMAGE: &str = "python:3.11-slim";

/// How long a pod may take to run, unless the configuration says otherwise: a node may have to pull its image.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How long no node may have room for a pod, unless the configuration says otherwise: another pod may be about to end.
pub const SCHEDULING_TIMEOUT: Duration = Duration::from_secs(5);

/// The variable that names the file with the pod template, for those who open the backend by its name. An empty one counts as one that
/// is not set.
pub const POD_TEMPLATE_VARIABLE: &str = "SANDBOX_K8S_POD_TEMPLATE";

/// How long a sandbox may hear nothing of its owner, unless the configuration says otherwise: between the two are an API server and a
/// kubelet, which may be away for a while.
pub const LEASE: Duration = Duration::from_secs(60);

/// The shortest such time: an owner says a word every ten seconds, or a little later.
pub const SHORTEST_LEASE: Duration = Duration::from_secs(20);

/// What a pod may ask its namespace for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PodProfile {
    /// The pod's first process, the agent, takes the network down with `NET_ADMIN`, which it gives up before it serves anybody; and it is
    /// another user than the code. The namespace must allow that: its pod security level is `privileged`, or it has none.
    #[default]
    Hardened,
    /// Passes the pod security level `restricted`. The network stays, and code is the agent's own user: what that leaves open is
    /// reported, and refused where it is required.
    Restricted,
}

impl PodProfile {
    /// Every profile.
    pub const ALL: [Self; 2] = [Self::Hardened, Self::Restricted];

    /// The name, as it stands in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hardened => "hardened",
            Self::Restricted => "restricted",
        }
    }
}

/// What a user may set of the backend. Where it names no cluster, the backend looks at `KUBECONFIG`, `~/.kube/config`, and the account
/// of the pod that it runs in, in this order.
#[derive(Clone)]
#[non_exhaustive]
pub struct KubernetesConfig {
    /// The file that says where the cluster is, instead of the usual ones.
    pub kubeconfig: Option<PathBuf>,
    /// The context of that file, instead of its current one.
    pub context: Option<String>,
    /// The namespace of all pods, instead of the context's.
    pub namespace: Option<String>,
    /// A client that the caller has made: no cluster is looked for.
    pub client: Option<kube::Client>,
    /// The image where a specification names none.
    pub default_image: String,
    /// When nodes pull an image, where the specification does not say. [`PullPolicy::Never`] unless set.
    pub pull: PullPolicy,
    /// What pods ask their namespace for.
    pub profile: PodProfile,
    /// How long a pod may take to run.
    pub start_timeout: Duration,
    /// How long no node may have room for a pod.
    pub scheduling_timeout: Duration,
    /// What pods have beside what a sandbox needs.
    pub pod_template: Option<PodTemplate>,
    /// Addresses that a pod without network must not reach, and that answer others: where the network is left to a NetworkPolicy, these
    /// are tried beside the API server, the node, name servers and another pod.
    pub canary_targets: Vec<SocketAddr>,
    /// How long the sandbox of an owner who was killed, or cannot be reached, lives on.
    pub lease: Duration,
    /// How many requests to the API server wait for an answer at once, 1 or more.
    pub requests_at_once: usize,
    /// Pods that are started ahead; `None` is none.
    pub warm: Option<WarmPool>,
    /// A build of the agent, instead of the one that is built in.
    pub agent: Option<Arc<[u8]>>,
    /// What is left out although it is claimed.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutation: Option<crate::Mutation>,
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
            agent: None,
            #[cfg(feature = "mutants")]
            mutation: None,
        }
    }
}

impl KubernetesConfig {
    /// The defaults with the template that [`POD_TEMPLATE_VARIABLE`] names, and the profile that [`POD_PROFILE_VARIABLE`](crate::POD_PROFILE_VARIABLE) does.
    ///
    /// # Errors
    ///
    /// As [`PodTemplate::read`]; `InvalidSpec` for a profile that nobody knows.
    pub fn from_environment() -> Result<Self> {
        let file = std::env::var_os(POD_TEMPLATE_VARIABLE).filter(|file| !file.is_empty());
        let pod_template = file.map(PodTemplate::read).transpose()?;
        Ok(Self {
            pod_template,
            profile: environment::profile()?,
            ..Self::default()
        })
    }

    /// Makes pods with what this template says.
    #[must_use]
    pub fn pod_template(mut self, template: PodTemplate) -> Self {
        self.pod_template = Some(template);
        self
    }

    /// Tries this address, too, before it is said that a NetworkPolicy is enforced.
    #[must_use]
    pub fn canary_target(mut self, address: SocketAddr) -> Self {
        self.canary_targets.push(address);
        self
    }

    /// Reads this file and no other.
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

    /// Uses this client. It must belong to a runtime that lives as long as the backend and its sandboxes.
    #[must_use]
    pub fn client(mut self, client: kube::Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Uses this image where a specification names none.
    #[must_use]
    pub fn default_image(mut self, image: impl Into<String>) -> Self {
        self.default_image = image.into();
        self
    }

    /// Lets nodes pull images like this where the specification does not say.
    #[must_use]
    pub fn pull(mut self, pull: PullPolicy) -> Self {
        self.pull = pull;
        self
    }

    /// Makes pods of this profile.
    #[must_use]
    pub fn profile(mut self, profile: PodProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Gives a pod this long to run.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Waits this long for a node with room.
    #[must_use]
    pub fn scheduling_timeout(mut self, timeout: Duration) -> Self {
        self.scheduling_timeout = timeout;
        self
    }

    /// Ends a sandbox that has heard nothing of its owner for this long: at least [`SHORTEST_LEASE`]. Its pod ends; what is left of it goes
    /// with the next client.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(SHORTEST_LEASE);
        self
    }

    /// Lets this many requests wait for an answer of the API server at once.
    #[must_use]
    pub fn requests_at_once(mut self, count: usize) -> Self {
        self.requests_at_once = count;
        self
    }

    /// Starts pods ahead, and keeps this many ready.
    #[must_use]
    pub fn warm(mut self, pool: WarmPool) -> Self {
        self.warm = Some(pool);
        self
    }

    /// Uses this build of the agent: it must be of this version of the workspace and of this process' architecture.
    #[must_use]
    pub fn agent(mut self, program: impl Into<Arc<[u8]>>) -> Self {
        self.agent = Some(program.into());
        self
    }

    /// Leaves something out and claims it all the same.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    #[must_use]
    pub fn mutated(mut self, mutation: crate::Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }
}
