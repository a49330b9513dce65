//! The tasks of a cluster, in every way.

use std::path::PathBuf;
#[cfg(feature = "k8s")]
use std::sync::Arc;
use std::time::Duration;

use sandbox::{ByteSize, Cpus};
#[cfg(feature = "k8s")]
use sandbox::{Capability, CapabilityPolicy, SandboxClient};
#[cfg(feature = "k8s")]
use sandbox_k8s::{KubernetesBackend, KubernetesConfig, PodProfile};

#[cfg(feature = "k8s")]
use self::pods::Pods;
use super::sandboxes::Tier;
use super::{BUSYBOX, PYTHON, Programs, plain};
use crate::case::{CROWD, Task, Way};
use crate::failure::{Failure, Result};
use crate::protocol::Sample;

#[cfg(feature = "k8s")]
mod pods;

const TIER: &str = "k8s";

/// What a pod asks for: two processors have room for the crowd beside those that stay.
#[derive(Debug, Clone, Copy)]
struct Size {
    memory: ByteSize,
    cpus: Cpus,
}

/// Runs `true` and `cat`.
const SMALL: Size = Size {
    memory: ByteSize::mib(64),
    cpus: Cpus::milli(100),
};
/// Runs Python, which takes 15 ms of a processor to start.
const LARGE: Size = Size {
    memory: ByteSize::mib(128),
    cpus: Cpus::milli(250),
};
/// One of the crowd.
const TINY: Size = Size {
    memory: ByteSize::mib(64),
    cpus: Cpus::milli(50),
};

/// What a cluster's operations keep between two calls.
#[derive(Debug)]
pub struct ClusterOperations {
    command: Option<PathBuf>,
    library: Tier,
    library_python: Tier,
    library_crowd: Tier,
    #[cfg(feature = "k8s")]
    restricted: Tier,
    #[cfg(feature = "k8s")]
    pods: Pods,
    moments: Moments,
}

impl ClusterOperations {
    /// Nothing is opened yet.
    pub fn new(programs: &Programs) -> Self {
        let tier = |image, size: Size| {
            let tier = Tier::new(TIER, cfg!(feature = "k8s"), Some(image));
            tier.sized(size.memory, size.cpus)
        };
        Self {
            command: programs.sandbox.clone(),
            library: tier(BUSYBOX, SMALL),
            library_python: tier(PYTHON, LARGE),
            library_crowd: tier(BUSYBOX, TINY),
            moments: Moments::default(),
            #[cfg(feature = "k8s")]
            restricted: tier(BUSYBOX, SMALL).on(restricted),
            #[cfg(feature = "k8s")]
            pods: Pods::default(),
        }
    }

    /// Does `task` once.
    ///
    /// # Errors
    /// When this machine lacks what is measured, or when it fails.
    pub async fn run(&mut self, way: Way, task: Task) -> Result<Sample> {
        if matches!(task, Task::OneShot | Task::Open) {
            self.moments.next().await;
        }
        match way {
            #[cfg(feature = "k8s")]
            Way::Restricted if task == Task::OneShot => self.restricted.one_shot().await,
            Way::Library => self.library(task).await,
            Way::Command => plain::command_on(self.command.as_deref(), TIER, BUSYBOX),
            #[cfg(feature = "k8s")]
            Way::Api => self.pods.run(task).await,
            #[cfg(not(feature = "k8s"))]
            Way::Api => Err(Failure::Missing(format!(
                "built without the feature {TIER}"
            ))),
            Way::Client | Way::PythonClient | Way::Restricted => Err(Failure::Missing(
                "of a cluster its API is measured, and of the other profile one task".to_owned(),
            )),
        }
    }

    async fn library(&mut self, task: Task) -> Result<Sample> {
        match task {
            Task::OneShot => self.library.one_shot().await,
            Task::Exec => self.library.warm_exec().await,
            Task::Echo => self.library.echo().await,
            Task::Open => self.library.open().await,
            Task::Close => self.library.close().await,
            Task::Python => self.library_python.python().await,
            Task::Crowd => self.library_crowd.crowd(CROWD, CROWD as usize).await,
        }
    }

    /// Ends what is still running.
    ///
    /// # Errors
    /// When something cannot be ended.
    pub async fn end(self) -> Result<()> {
        let ended = [
            self.library.end().await,
            self.library_python.end().await,
            self.library_crowd.end().await,
            #[cfg(feature = "k8s")]
            self.restricted.end().await,
            #[cfg(feature = "k8s")]
            self.pods.end().await,
        ];
        ended.into_iter().collect()
    }
}

/// The backend with the profile `restricted`. A cluster whose network knows of no policies leaves it to pods, which is accepted here.
#[cfg(feature = "k8s")]
fn restricted(mut policy: CapabilityPolicy) -> sandbox::Result<SandboxClient> {
    let config = KubernetesConfig::default().profile(PodProfile::Restricted);
    policy.allow_unenforced = vec![Capability::NetworkAccess];
    SandboxClient::with_backend(Arc::new(KubernetesBackend::new(config)), policy)
}

/// Moments that are spread evenly over a second.
#[derive(Debug, Default)]
struct Moments {
    begun: u32,
}

impl Moments {
    async fn next(&mut self) {
        // The fractional parts of the multiples of the golden ratio: however many there are, they lie evenly.
        self.begun += 1;
        let part = (f64::from(self.begun) * 0.618_033_988_75).fract();
        tokio::time::sleep(Duration::from_secs_f64(part)).await;
    }
}
