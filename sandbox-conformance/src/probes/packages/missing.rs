//! A package that no registry has.

use sandbox_core::ErrorKind;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "packages::missing",
    version: 1,
    subject: Subject::Capability(Capability::Packages),
    kind: Kind::Behavior,
    summary: "names a package that does not exist, and wants a typed error instead of a sandbox without it",
    setting: super::with_package,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let _cache = crate::grounds::with_packages().await;
    super::pip_finds_it(stage).await;
    stage.allow_control(&Call::new(["alive"])).await;
    let missing = stage.token().to_owned();
    let told = match stage.with_sandbox(async |_| ()).await {
        Err(declined) => Err(declined),
        Ok(()) => match stage.create(|policy| policy.packages = vec![missing]).await {
            Err(error) if error.kind() == ErrorKind::PackageNotFound => Ok(None),
            Err(error) => Ok(Some(error.to_string())),
            Ok(()) => Ok(Some("a sandbox without the package".to_owned())),
        },
    };
    stage.attack_was(behavior("name a package that does not exist", told));
    stage.nothing_to_watch("nothing is made");
    Ok(())
}
