//! Adopts pods that another tool created, and leaves them as they were.
//!
//! Kubernetes can put a file into a container only by running a program of its image. So the
//! container needs a shell, `mkdir`, `chmod`, `head` and `rm`. They store the agent's program in a
//! folder of its own and start it there. Once the agent answers, the file is removed; the process
//! keeps running.

mod agent;
mod container;
mod extra_access;
mod installed;
mod report;
mod script;

use sandbox_core::{EnforcementReport, Plan, Result};
use sandbox_host::adopted::{AdoptedIsolator, CutStream};
use sandbox_host::confinement::{self, Isolation, Kernel, Mode, Paths, Profile};
use sandbox_host::{AgentInstance, LastWords, Sandbox};

use crate::cluster::Cluster;
use crate::stream;
use agent::ForeignPodAgent;
pub(crate) use container::ForeignContainer;
use installed::InstalledAgent;

/// A container to adopt.
#[derive(Debug)]
pub(crate) struct PodAdoption<'a> {
    pub cluster: &'a Cluster,
    pub plan: &'a Plan,
    pub container: ForeignContainer,
    pub kernel: Kernel,
}

impl PodAdoption<'_> {
    /// The enforcement report for the container.
    pub(crate) fn report(&self) -> EnforcementReport {
        report::report(self.plan, &self.container, &self.kernel)
    }

    /// Starts the agent in the container.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a container without the required programs; errors of the cluster or the
    /// agent. The container is then left unchanged.
    pub(crate) async fn enter(self, program: &[u8]) -> Result<AgentInstance> {
        let installed = InstalledAgent::install(self.cluster, &self.container, program).await?;
        let entered = self.start(&installed).await;
        let removed = installed.remove().await;
        let instance = entered?;
        removed?;
        Ok(instance)
    }

    async fn start(&self, installed: &InstalledAgent) -> Result<AgentInstance> {
        let sandbox = self.sandbox(installed)?;
        let (pods, container) = (self.cluster.pods(), &self.container);
        let program = installed.program();
        let command = [&*program, "serve", "--stdio"];
        let last_words = LastWords::default();
        let stream = stream::execute(&pods, container.names(), command, &last_words).await?;
        let agent = ForeignPodAgent::new(self.cluster, container, installed, last_words);
        let (stream, cut) = CutStream::new(stream);
        let isolator = AdoptedIsolator::new(agent, cut, self.plan.lifetime);
        AgentInstance::connect(stream, sandbox, Box::new(isolator)).await
    }

    fn sandbox(&self, installed: &InstalledAgent) -> Result<Sandbox> {
        let paths = Paths::of(self.plan, Isolation::Container);
        let profile = Profile::new(Isolation::Container, paths);
        let confinement = confinement::confinement(self.plan, &self.kernel, Mode::Shared, &profile);
        let mut sandbox = Sandbox::new(self.plan, confinement, self.report())?;
        // A foreign container gets no new folders.
        sandbox.settings.make_dirs = Vec::new();
        if self.plan.workdir.is_none() {
            sandbox.settings.workdir = installed.workdir().as_bytes().to_vec();
        }
        Ok(sandbox)
    }
}
