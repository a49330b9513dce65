//! A backend that isolates nothing and reports that.

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Finding, Instance, unsupported};
use sandbox_core::{Capability, Enforcement, EnforcementReport, Plan, Result};

use crate::instance::ToyInstance;

/// Runs programs of this machine, each with its own environment and time limit.
pub struct ToyBackend;

/// How each capability is enforced. The suite refutes a claim that does not hold.
fn enforcement(capability: Capability) -> Enforcement {
    match capability {
        Capability::Timeout => Enforcement::partial(
            "kill of the process group, and of all processes with its mark",
            "processes that leave both continue",
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
        // Unsupported requests are typed errors, not reported gaps.
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
