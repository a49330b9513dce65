//! A backend that isolates nothing yet and says so.

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Finding, Instance, unsupported};
use sandbox_core::{Capability, Enforcement, EnforcementReport, Plan, Result};

use crate::instance::ToyInstance;

/// Programs of this machine, with an environment and a time limit of their own.
pub struct ToyBackend;

/// What holds, and what does not. Everything that the suite can refute is better said here.
fn enforcement(capability: Capability) -> Enforcement {
    match capability {
        Capability::Timeout => Enforcement::partial(
            "kill of the process group, and of whoever carries its mark",
            "processes that give both up go on",
        ),
        Capability::StdoutMaxBytes | Capability::StderrMaxBytes => {
            Enforcement::enforced("the reader stops, and the process group is killed")
        }
        _ => Enforcement::unenforced("this backend is a toy"),
    }
}

#[async_trait]
impl Backend for ToyBackend {
    fn name(&self) -> &str {
        "toy"
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        // What cannot be built at all is refused with a typed error, not reported as a gap.
        let cannot = plan.image.is_some()
            || plan.workspace.is_some()
            || !plan.export_paths.is_empty()
            || !plan.packages.is_empty();
        if cannot {
            return Err(unsupported("create sandbox", self.name()));
        }
        let mut report = EnforcementReport::new();
        for demand in &plan.demands {
            report.set(demand.capability, enforcement(demand.capability));
        }
        Ok(report)
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let report = self.assess(plan).await?;
        Ok(Box::new(ToyInstance::new(report, plan.env.clone())))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(vec![("backend".into(), "toy".into())])
    }
}
