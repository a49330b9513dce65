//! What was denied is told, with its rule; what was not denied is not.

use sandbox_core::{DenialKind, ExecResult};

use crate::probe::Probe;
use crate::probes::prelude::*;

mod artifact;
mod file;
mod memory;
mod network;
mod none;
mod output;
mod process;
mod process_limit;
mod program;
mod timeout;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    artifact::PROBE,
    file::PROBE,
    memory::PROBE,
    network::PROBE,
    none::PROBE,
    output::PROBE,
    process::PROBE,
    process_limit::PROBE,
    program::PROBE,
    timeout::PROBE,
];

/// How a denial may come to the caller.
const TOLD: &[Denial] = &[
    Denial {
        sign: "told",
        means: "a denial with its rule",
    },
    Denial {
        sign: "untold",
        means: "nobody counts what this mechanism refuses",
    },
];

/// The attack: something that `call` is denied, so that a denial of this kind and rule is told. `went_through` says whether it was
/// not denied at all.
async fn denied(
    stage: &mut Stage,
    call: &Call,
    kind: DenialKind,
    rule: &str,
    went_through: fn(&ExecResult) -> bool,
) {
    let attempt = match stage.execute(call).await {
        Err(attempt) => attempt,
        Ok(result) if went_through(&result) && stage.is_waived(rule) => {
            stage.not_offered(format!("nothing enforces {rule}, so nothing is denied"));
            Attempt::unclear("it was not denied")
        }
        Ok(result) if went_through(&result) => Attempt::Succeeded {
            value: "it was not denied".into(),
        },
        Ok(result) => {
            let of_kind = result.denials.iter().filter(|denial| denial.kind == kind);
            match of_kind.clone().find(|denial| denial.rule == rule) {
                Some(_) => Attempt::blocked(["told"]),
                None if of_kind.count() > 0 => {
                    Attempt::unclear(format!("another rule: {:?}", result.denials))
                }
                None => Attempt::blocked(["untold"]),
            }
        }
    };
    stage.attack_was(Step::new(call.text(), attempt));
    stage.nothing_to_watch("what is told is no matter of the host");
}

/// Whether the probe program says that what it tried was done.
fn says_ok(result: &ExecResult) -> bool {
    result.stdout_text().contains("result=ok") || result.stdout_text().contains("result=value")
}
