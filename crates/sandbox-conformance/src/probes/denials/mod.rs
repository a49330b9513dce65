//! What was denied is told in the result, by kind and capability; where nothing was, nothing is.

use sandbox_core::{Denial, DenialKind, ExecResult};

use crate::probe::Probe;
use crate::probes::prelude::{Attempt, Call, Capability, Outcome, Stage, Step, Trouble, behavior};
use crate::program::Run;

mod memory;
mod output;
mod process_limit;
mod second_process;
mod second_program;
mod time;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    memory::PROBE,
    output::PROBE,
    process_limit::PROBE,
    second_process::PROBE,
    second_program::PROBE,
    time::PROBE,
];

/// `beyond` must be told as denied, once and truly; an execution beside it that hits nothing must be told nothing. A limit
/// that the backend does not hold, and a denial of which it does not know, are what it does not offer.
async fn told(
    stage: &mut Stage,
    beyond: Call,
    kind: DenialKind,
    capability: Capability,
) -> Result<(), Trouble> {
    stage.host_control(&beyond).await?;
    let calm = Call::new(["alive"]);
    let attempt = match stage.execute(&calm).await {
        Err(attempt) => attempt,
        Ok(result) if result.denials.is_empty() => Run::from(result).attempt(None),
        Ok(result) => Attempt::unclear(format!("denied: {}", listed(&result))),
    };
    stage.allow_control_was(Step::new("alive, and denied nothing", attempt));
    let result = stage.execute(&beyond).await;
    let told = result.and_then(|result| {
        let found = result.denials.iter().find(|denial| denial.kind == kind);
        match found {
            Some(_) if result.denials.as_slice().len() > 1 => {
                Ok(Some(format!("told of more: {}", listed(&result))))
            }
            Some(denial) => Ok(wrong(denial, capability)),
            None if !result.denials.is_empty() => {
                Ok(Some(format!("told of something else: {}", listed(&result))))
            }
            None => {
                let outcome = result.outcome.clone();
                // What idles says nothing, and is no backend that lacks a feature.
                let ran = outcome != (Outcome::Exited { code: 0 })
                    || !matches!(Run::from(result).attempt(None), Attempt::Unclear { .. });
                match ran {
                    true => {
                        stage.not_offered(format!("not told; the program {outcome}"));
                        Ok(None)
                    }
                    false => Err(Attempt::unclear("the program did not run")),
                }
            }
        }
    });
    stage.attack_was(behavior(&beyond.text(), told));
    stage.nothing_to_watch("a result is no matter of the host");
    Ok(())
}

fn wrong(denial: &Denial, capability: Capability) -> Option<String> {
    let right = denial.capability == capability
        && denial.times >= 1
        && !denial.retry_helps
        && !denial.what.is_empty()
        && denial.rule.contains(capability.as_str());
    (!right).then(|| format!("{:?}: {denial}", denial.capability))
}

fn listed(result: &ExecResult) -> String {
    let denials: Vec<String> = result.denials.iter().map(ToString::to_string).collect();
    denials.join("; ")
}
