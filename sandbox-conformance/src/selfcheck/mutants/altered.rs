//! A backend whose results are changed on their way.

use std::sync::Arc;

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Finding, Found, Instance};
use sandbox_core::{EnforcementReport, ExecEnd, ExecRequest, Plan, Result, SandboxInfo};

use super::instance::AlteredInstance;

/// What becomes of an execution, beside its request and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// As it is.
    Straight,
    /// What the receiver of output says is not heard: it goes on when that has enough.
    Unstoppable,
    /// Standard error comes as standard output.
    OneStream,
    /// Only the first 4 KiB of each stream come.
    CutShort,
    /// Given up or out of time, it goes on.
    GoesOn,
    /// At its limit of time only the process group of its program is killed.
    GroupKilled,
    /// Standard input stays empty.
    NoInput,
}

/// What becomes of exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exports {
    /// As they are.
    Straight,
    /// The first one comes again and again.
    Stale,
}

/// What is changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alteration {
    /// In what is asked to be built.
    pub(super) plan: fn(&mut Plan),
    /// In what is asked to be executed.
    pub(super) request: fn(&mut ExecRequest),
    /// In how it ended.
    pub(super) end: fn(&mut ExecEnd),
    /// In between.
    pub(super) course: Course,
    /// In what comes out.
    pub(super) exports: Exports,
    /// Whether the end of a sandbox is only said.
    pub(super) immortal: bool,
}

impl Alteration {
    /// Nothing.
    pub(super) const NONE: Self = Self {
        plan: |_| (),
        request: |_| (),
        end: |_| (),
        course: Course::Straight,
        exports: Exports::Straight,
        immortal: false,
    };
}

/// A backend that builds something else than it was asked for, and claims what the backend behind it claims of the request.
pub(super) struct AlteredBackend<B> {
    backend: B,
    alteration: Alteration,
}

impl<B> AlteredBackend<B> {
    pub(super) fn new(backend: B, alteration: Alteration) -> Self {
        Self {
            backend,
            alteration,
        }
    }
}

#[async_trait]
impl<B: Backend> Backend for AlteredBackend<B> {
    fn name(&self) -> &str {
        self.backend.name()
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.backend.assess(plan).await
    }

    async fn measure(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.backend.measure(plan).await
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let claims = self.backend.assess(plan).await?;
        let mut altered = plan.clone();
        (self.alteration.plan)(&mut altered);
        let instance = self.backend.create(&altered).await?;
        Ok(Box::new(AlteredInstance::new(
            Arc::from(instance),
            self.alteration,
            claims,
        )))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        self.backend.diagnose().await
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        self.backend.profile().await
    }

    fn keeps_detached(&self) -> bool {
        self.backend.keeps_detached()
    }

    async fn get(&self, name: &str) -> Result<Found> {
        self.backend.get(name).await
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.backend.list().await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.backend.remove(name).await
    }

    async fn prune(&self) -> Result<Vec<String>> {
        self.backend.prune().await
    }
}
