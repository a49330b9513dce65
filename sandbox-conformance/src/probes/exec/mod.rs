//! Programs and their ends.

use sandbox_core::{ErrorKind, ExecRequest};

use crate::probes::prelude::*;

mod exit_codes;
mod forged_ends;
mod missing_program;
mod missing_workdir;
mod orders;
mod signals;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    exit_codes::PROBE,
    forged_ends::PROBE,
    missing_program::PROBE,
    missing_workdir::PROBE,
    orders::PROBE,
    signals::PROBE,
];

/// An execution that needs something that is not there.
struct Missing {
    /// That the host does not have it.
    what: &'static str,
    action: &'static str,
    /// The request, of a path that does not exist and the probe program's.
    request: fn(String, &str) -> ExecRequest,
    /// The error that says so.
    told: ErrorKind,
}

impl Missing {
    async fn run(&self, stage: &mut Stage) -> Result<(), Trouble> {
        let missing = format!("/nonexistent/{}", stage.token());
        let there = std::path::Path::new(&missing).exists();
        let failure = there.then(|| "it exists".to_owned());
        stage.host_control_was(control(self.what, failure));
        stage.allow_control(&Call::new(["alive"])).await;
        let told = stage
            .with_sandbox(async |sandbox| {
                let request = (self.request)(missing, sandbox.program());
                match sandbox.handle().exec(&request).await {
                    Err(error) if error.kind() == self.told => None,
                    Err(error) => Some(error.to_string()),
                    Ok(result) => Some(format!("it ran: {}", result.outcome)),
                }
            })
            .await;
        stage.attack_was(behavior(self.action, told));
        stage.nothing_to_watch("nothing runs");
        Ok(())
    }
}
