//! What is refused before anything runs: invalid and excessive policies, specifications and
//! requests.

use sandbox_core::{CapabilityPolicy, ErrorKind, SandboxSpec};

use crate::probes::prelude::*;

mod excessive;
mod explained;
mod invalid_policies;
mod invalid_requests;
mod invalid_specifications;
mod largest_values;
mod plans;
mod policy_files;
mod settings;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "admission::excessive",
        EXEC,
        "asks for more than the policy allows in each field of a specification",
        |context| Box::pin(run(context, excessive::CASES)),
    )
    .version(3),
    Probe::behavior(
        "admission::explained",
        EXEC,
        "asks policies about paths, connections and requests",
        |context| Box::pin(explained::run(context)),
    ),
    Probe::behavior(
        "admission::invalid_policies",
        EXEC,
        "creates sandboxes under policies with one invalid field each, and plans the smallest \
         valid values",
        |context| Box::pin(run(context, invalid_policies::CASES)),
    )
    .version(2),
    Probe::behavior(
        "admission::invalid_requests",
        EXEC,
        "executes requests with one invalid field each",
        |context| Box::pin(invalid_requests::run(context)),
    ),
    Probe::behavior(
        "admission::invalid_specifications",
        EXEC,
        "creates sandboxes from specifications with one invalid field each",
        |context| Box::pin(run(context, invalid_specifications::CASES)),
    )
    .version(2),
    Probe::behavior(
        "admission::largest_values",
        EXEC,
        "executes and writes under a policy and a request with the longest times and most output",
        |context| Box::pin(largest_values::run(context)),
    ),
    Probe::behavior(
        "admission::plans",
        EXEC,
        "compares values and demands of plans with the policy, the specification and the defaults",
        |context| Box::pin(plans::run(context)),
    ),
    Probe::behavior(
        "admission::policy_files",
        EXEC,
        "reads policy files that are valid and invalid, and compares the policies",
        |context| Box::pin(policy_files::run(context)),
    ),
    Probe::behavior(
        "admission::settings",
        EXEC,
        "opens the tier with settings that are unknown, empty, or name a runtime that is not there",
        |context| Box::pin(settings::run(context)),
    ),
];

/// A change of the default policy and specification.
type Change = fn(&mut CapabilityPolicy, &mut SandboxSpec);

/// What was changed, the change, and the error; `None` if the result must be valid.
type AdmissionCase = (&'static str, Change, Option<ErrorKind>);

/// Compares what needs no sandbox.
async fn compare(
    context: &mut ProbeContext,
    action: &str,
    deviation: impl AsyncFnOnce(&ProbeContext) -> Result<Option<String>, ProbeError>,
) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = deviation(context).await?;
    context.record_attack(behavior(action, Ok(deviation)));
    context.no_host_effect("nothing is created");
    Ok(())
}

/// Creates a sandbox from each invalid case. Plans each valid one, which creates nothing.
async fn run(context: &mut ProbeContext, cases: &[AdmissionCase]) -> Result<(), ProbeError> {
    compare(context, "ask for each", async |context| {
        for (what, change, expected) in cases {
            let is_valid = expected.is_none();
            let error = context.admit(change, is_valid).await.err();
            let found = error.as_ref().map(sandbox_core::Error::kind);
            if found != *expected {
                let told = error.map_or("accepted".to_owned(), |error| error.to_string());
                return Ok(Some(format!("{what}: {told}")));
            }
        }
        Ok(None)
    })
    .await
}
