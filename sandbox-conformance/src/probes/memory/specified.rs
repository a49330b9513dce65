//! Sandboxes of one client whose specifications ask for different memory.

use sandbox_core::Stdin;

use super::MEMORY_LIMIT;
use crate::probes::measured::granted;
use crate::probes::prelude::*;
use crate::program::{PROGRAM, Run};

/// In MiB: less than the policy allows, and then less than that.
const SIZES: [u64; 2] = [192, 64];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |size: u64| (MEMORY_LIMIT.call)("", 2 * size);
    context.host_control(&call(SIZES[0])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let program = context.inside("probe");
    let (client, mut spec) = match context.client_and_spec().await {
        Ok(both) => both,
        Err(declined) => {
            context.record_attack(Step::new(call(SIZES[0]).text(), declined));
            return Ok(());
        }
    };
    let mut attempt = Attempt::blocked(["within"]);
    for size in SIZES {
        spec.name = sandbox_core::spi::unique_name("conformance-memory");
        spec.memory = Some(ByteSize::mib(size));
        let sandbox = match client.create(&spec).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                attempt = context.record_create_error(error);
                break;
            }
        };
        let request = crate::pool::request(&program, &call(size));
        let run = async {
            sandbox.upload(&program, 0o755, PROGRAM).await?;
            sandbox.exec_with(&request, Stdin::Null, |_, _| {}).await
        };
        let run = run.await.map(Run::from);
        sandbox.kill().await?;
        let (least, most) = (MEMORY_LIMIT.accepted)(size);
        attempt = match run.as_ref().map(granted) {
            Ok(Some(granted)) if granted > most => Attempt::Succeeded {
                value: format!("{granted} with {size} in the specification"),
            },
            Ok(Some(granted)) if granted >= least => attempt,
            found => Attempt::unclear(format!("{found:?} with {size} in the specification")),
        };
        if !matches!(attempt, Attempt::Blocked { .. }) {
            break;
        }
    }
    context.record_attack(Step::new(call(SIZES[1]).text(), attempt));
    context.no_host_effect("the limit is the sandbox's own");
    Ok(())
}
