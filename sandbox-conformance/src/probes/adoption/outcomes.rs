//! How programs end.

use sandbox_core::{ErrorKind, ExecRequest, ExecResult, TerminalSize};

use crate::foreign::Foreign;
use crate::probes::prelude::*;

/// Programs, and their ends.
const ENDS: &[(&[&str], Outcome)] = &[
    (&["exit", "0"], Outcome::Exited { code: 0 }),
    (&["exit", "7"], Outcome::Exited { code: 7 }),
    (&["exit", "137"], Outcome::Exited { code: 137 }),
    (&["exit", "255"], Outcome::Exited { code: 255 }),
    (&["raise", "6"], Outcome::Signaled { signal: 6 }),
    (&["raise", "9"], Outcome::Signaled { signal: 9 }),
    (&["raise", "15"], Outcome::Signaled { signal: 15 }),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let mut failure = None;
    for (words, end) in ENDS {
        let run = host::run(&context.fixture().program(), &Call::new(words.iter())).await?;
        if run.outcome != *end {
            failure = Some(format!("{}: {}", words.join(" "), run.outcome));
        }
    }
    context.record_host_control(control("end programs on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .adopting(Foreign::default(), async |adopter| {
            let sandbox = adopter.adopt(|_| ()).await?;
            for (words, end) in ENDS {
                let request = sandbox.request(&Call::new(words.iter()));
                let terminal = request.clone().terminal(TerminalSize::new(24, 80));
                for request in [request, terminal] {
                    let told = sandbox.handle().exec(&request).await?;
                    if told.outcome != *end {
                        return Ok(Some(format!("{}: {}", words.join(" "), told.outcome)));
                    }
                }
            }
            let missing = ExecRequest::new("/nonexistent/program");
            let missing = sandbox.handle().exec(&missing).await;
            let missing = missing.map(|ExecResult { outcome, .. }| outcome);
            let is_told = missing
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::ProgramNotFound);
            Ok((!is_told).then(|| format!("a missing program: {missing:?}")))
        })
        .await?;
    context.record_attack(behavior("end programs in a foreign container", deviation));
    context.no_host_effect("how programs end does not affect the host");
    Ok(())
}
