//! Adopts pods that another tool created, and leaves them as they were.
//!
//! Kubernetes can put a file into a container only by running a program of its image. So the
//! container needs a shell, `mkdir`, `chmod`, `head` and `rm`. They store the agent's program in a
//! folder of its own and start it there. Once the agent answers, the file is removed; the process
//! keeps running.

mod agent;
mod container;
mod extra_access;
mod program;
mod report;
mod script;

use sandbox_core::{EnforcementReport, Plan, Result};
use sandbox_host::adopted::{self, AdoptedIsolator, ClosableStream};
use sandbox_host::confinement::Kernel;
use sandbox_host::{AgentInstance, StderrTail};

use crate::cluster::Cluster;
use crate::stream;
use agent::ForeignPodAgent;
pub(crate) use container::ForeignPodContainer;
use program::{PodProgram, ProgramFolders};

/// A container to adopt.
#[derive(Debug)]
pub(crate) struct PodAdoption<'a> {
    pub cluster: &'a Cluster,
    pub plan: &'a Plan,
    pub container: ForeignPodContainer,
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
        let (installed, folders) =
            PodProgram::install(self.cluster, &self.container, program).await?;
        installed
            .start(async |program| self.start(program, &folders).await)
            .await
    }

    async fn start(&self, program: &PodProgram, folders: &ProgramFolders) -> Result<AgentInstance> {
        let confinement = adopted::confinement(self.plan, &self.kernel);
        let sandbox = adopted::sandbox(self.plan, confinement, self.report(), &folders.workdir)?;
        let (pods, container) = (self.cluster.pods(), &self.container);
        let path = folders.program();
        let command = [&*path, "serve", "--stdio"];
        let stderr_tail = StderrTail::default();
        let stream = stream::execute(&pods, container.names(), command, &stderr_tail).await?;
        let agent = ForeignPodAgent::new(self.cluster, container, program, stderr_tail);
        let (stream, cut) = ClosableStream::new(stream);
        let isolator = AdoptedIsolator::new(agent, cut, self.plan.lifetime);
        AgentInstance::connect(stream, sandbox, Box::new(isolator)).await
    }
}
