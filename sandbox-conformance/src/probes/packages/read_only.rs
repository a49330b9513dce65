//! A package that code tries to change for the sandboxes after it.

use crate::probes::prelude::*;
use crate::wheel;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "packages::read_only",
    version: 1,
    subject: Subject::Capability(Capability::Packages),
    kind: Kind::Behavior,
    summary: "overwrites a module of a package that the policy names",
    setting: super::with_package,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let _cache = crate::grounds::with_packages().await;
    super::pip_finds_it(stage).await;
    let own = stage.inside("own");
    stage.allow_control(&Call::new(["create", &own])).await;
    let code = format!("import {0}; print({0}.__file__, end='')", wheel::NAME);
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = sandbox_core::ExecRequest::new("python3").args(["-c", &code]);
            let path = match sandbox.handle().exec(&request).await {
                Ok(result) if result.ok() => result.stdout_text(),
                Ok(result) => return Some(format!("{}: {}", result.outcome, result.stderr_text())),
                Err(error) => return Some(error.to_string()),
            };
            let write = Call::new(["write", &path, "token = 'changed'"]);
            match sandbox.run(&write).await.map(|run| run.attempt(None)) {
                Ok(Attempt::Blocked { .. }) => None,
                other => Some(format!("{path}: {other:?}")),
            }
        })
        .await;
    stage.attack_was(behavior("overwrite a module", told));
    stage.nothing_to_watch("what code could change, it would see changed");
    Ok(())
}
