//! Backends that run nothing.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Finding, Input, Instance, OutputSink, Source, unsupported};
use sandbox_core::{
    ArtifactLimits, Enforcement, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export,
    Outcome, Plan, Result,
};

use crate::probes::layers;

/// The behavior of a [`ScriptedBackend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Every operation in a sandbox fails.
    Fail,
    /// Every operation succeeds and does nothing.
    Idle,
    /// Every creation is refused.
    Refuse,
}

/// A backend that claims to enforce everything and runs nothing.
#[derive(Debug, Clone, Copy)]
pub struct ScriptedBackend {
    script: Script,
}

impl ScriptedBackend {
    /// A backend with this behavior.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self { script }
    }
}

/// Claims that every layer enforces every demand.
pub(super) fn claims(plan: &Plan) -> EnforcementReport {
    let mut report = EnforcementReport::new();
    let all = layers::LAYERS.iter().map(|layer| layer.mechanism.clone());
    let all = all.collect::<Vec<_>>();
    for demand in &plan.demands {
        report.set(demand.capability, Enforcement::enforced(all.clone()));
    }
    report
}

#[async_trait]
impl Backend for ScriptedBackend {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        Ok(claims(plan))
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        if self.script == Script::Refuse {
            return Err(unsupported("create sandbox", self.name()));
        }
        Ok(Box::new(ScriptedInstance {
            script: self.script,
            claims: claims(plan),
        }))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(vec![("backend".into(), "scripted".into())])
    }
}

struct ScriptedInstance {
    script: Script,
    claims: EnforcementReport,
}

impl ScriptedInstance {
    fn answer<T>(&self, idle: T) -> Result<T> {
        match self.script {
            Script::Idle => Ok(idle),
            Script::Fail | Script::Refuse => {
                Err(Error::new(ErrorKind::Io, "do anything", "the script says so").on("scripted"))
            }
        }
    }
}

#[async_trait]
impl Instance for ScriptedInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.claims
    }

    async fn exec(&self, _: &ExecRequest, _: Input, _: &mut dyn OutputSink) -> Result<ExecEnd> {
        self.answer(ExecEnd::new(Outcome::Exited { code: 0 }))
    }

    async fn put(&self, _: &str, _: u32, _: Source) -> Result<()> {
        // Without this, only the creation of the sandbox would be tested.
        Ok(())
    }

    async fn fetch(&self, _: &str, _: &mut dyn OutputSink) -> Result<()> {
        self.answer(())
    }

    async fn export(&self, _: &[String], _: &Path, _: ArtifactLimits) -> Result<Export> {
        self.answer(Export::default())
    }

    async fn logs(&self, _: Option<u32>) -> Result<Vec<u8>> {
        self.answer(Vec::new())
    }

    async fn stop(&self, _: Duration) -> Result<()> {
        Ok(())
    }

    async fn kill(&self) -> Result<()> {
        Ok(())
    }
}
