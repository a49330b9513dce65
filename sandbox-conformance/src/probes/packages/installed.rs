//! A package that is there before code runs.

use crate::probes::prelude::*;
use crate::wheel;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "packages::installed",
    version: 1,
    subject: Subject::Capability(Capability::Packages),
    kind: Kind::Behavior,
    summary: "imports a package that the policy names",
    setting: super::with_package,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let _cache = crate::grounds::with_packages().await;
    super::pip_finds_it(stage).await;
    stage.allow_control(&Call::new(["alive"])).await;
    let code = format!("import {0}; print({0}.token)", wheel::NAME);
    let wanted = format!("{}\n", crate::grounds::package_token());
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = sandbox_core::ExecRequest::new("python3").args(["-c", &code]);
            match sandbox.handle().exec(&request).await {
                Ok(result) if result.stdout_text() == wanted => None,
                Ok(result) => Some(format!("{}: {}", result.outcome, result.stderr_text())),
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    stage.attack_was(behavior("import the package", told));
    stage.nothing_to_watch("an import is no matter of the host");
    Ok(())
}
