//! Limits that hold in any container: the agent and the client keep them.

use std::time::Duration;

use sandbox_core::{Capability, CapabilityPolicy, Enforcement, ExecResult};

use crate::foreign::Foreign;
use crate::probes::prelude::*;
use crate::program::Run;

/// A limit, and a program that exceeds it.
struct Limit {
    capability: Capability,
    set: fn(&mut CapabilityPolicy),
    exceeds: &'static [&'static str],
    held: fn(&ExecResult) -> bool,
}

/// The kept bytes of a stream.
const CAP: usize = 64 << 10;

const LIMITS: &[Limit] = &[
    Limit {
        capability: Capability::Timeout,
        set: |policy| policy.timeout = Some(Duration::from_secs(1)),
        exceeds: &["sleep", "", "3000"],
        held: |result| {
            result.outcome == Outcome::TimedOut && result.duration < Duration::from_millis(2500)
        },
    },
    Limit {
        capability: Capability::StdoutMaxBytes,
        set: |policy| policy.stdout_max_bytes = Some(ByteSize::bytes(CAP as u64)),
        exceeds: &["emit", "100000", "0"],
        held: |result| result.stdout.bytes.len() == CAP && result.stdout.total == 100_000,
    },
    Limit {
        capability: Capability::StderrMaxBytes,
        set: |policy| policy.stderr_max_bytes = Some(ByteSize::bytes(CAP as u64)),
        exceeds: &["emit", "0", "100000"],
        held: |result| result.stderr.bytes.len() == CAP && result.stderr.total == 100_000,
    },
    Limit {
        capability: Capability::StdoutMaxBytes,
        set: |policy| policy.stdout_max_bytes = Some(ByteSize::bytes(CAP as u64)),
        exceeds: &["emit", "134217728", "0"],
        held: |result| result.outcome == Outcome::OutputLimit,
    },
    Limit {
        capability: Capability::OpenFiles,
        set: |policy| policy.open_files = Some(64),
        exceeds: &["open-many", "200"],
        held: |result| is_blocked(result, "EMFILE"),
    },
    Limit {
        capability: Capability::SubprocessExecution,
        set: |policy| policy.subprocess_execution = Some(false),
        exceeds: &["fork"],
        held: |result| is_blocked(result, "EPERM"),
    },
    // The container's own program has this variable.
    Limit {
        capability: Capability::EnvVarAccess,
        set: |_| {},
        exceeds: &["variable", "FOREIGN"],
        held: |result| is_blocked(result, "absent"),
    },
];

fn is_blocked(result: &ExecResult, sign: &str) -> bool {
    Run::from(result.clone()).attempt(None) == Attempt::blocked([sign])
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context
        .host_control(&Call::new(LIMITS[4].exceeds.iter()))
        .await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .adopting(Foreign::default(), async |adopter| {
            for limit in LIMITS {
                let sandbox = adopter.adopt(limit.set).await?;
                let declared = sandbox.declared(limit.capability);
                let result = sandbox.execute(&Call::new(limit.exceeds.iter())).await?;
                sandbox.handle().kill().await?;
                // Each holds in any container, so a report that denies one is not true either.
                let is_declared = !matches!(declared, None | Some(Enforcement::Unenforced { .. }));
                if !is_declared || !(limit.held)(&result) {
                    let told = declared.map_or("nothing".to_owned(), |it| it.to_string());
                    let (words, end) = (limit.exceeds.join(" "), result.outcome);
                    let after = result.duration;
                    return Ok(Some(format!(
                        "{words}: {end} after {after:?}; declared: {told}"
                    )));
                }
            }
            Ok(None)
        })
        .await?;
    context.record_attack(behavior("exceed limits", deviation));
    context.no_host_effect("the limits are the sandbox's own");
    Ok(())
}
