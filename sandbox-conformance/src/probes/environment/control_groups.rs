//! What code sees of its own control groups.

use std::ops::RangeInclusive;

use sandbox_core::{Capability, ExecRequest, Mechanism};

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// A limit: its capability, its files in cgroup v1 and v2, and its value in them.
struct ShownLimit {
    capability: Capability,
    first: &'static str,
    second: &'static str,
    /// Thousandths of a processor, or the number itself.
    value: RangeInclusive<u64>,
}

const MEMORY_SIZE: ByteSize = ByteSize::mib(64);
const PROCESSORS: u32 = 250;
const PROCESSES: u32 = 40;

const LIMITS: [ShownLimit; 3] = [
    ShownLimit {
        capability: Capability::Memory,
        first: "memory/memory.limit_in_bytes",
        second: "memory.max",
        // The kernel rounds.
        value: 64 << 20..=65 << 20,
    },
    ShownLimit {
        capability: Capability::Cpus,
        first: "cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us",
        second: "cpu.max",
        value: PROCESSORS as u64..=PROCESSORS as u64,
    },
    ShownLimit {
        capability: Capability::Pids,
        first: "pids/pids.max",
        second: "pids.max",
        // The agent and its supervisors have room of their own.
        value: PROCESSES as u64..=PROCESSES as u64 + 16,
    },
];

/// Where control groups are mounted.
const FOLDER: &str = "/sys/fs/cgroup/";

pub(super) fn limited(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| {
        policy.memory = Some(MEMORY_SIZE);
        policy.cpus = Some(Cpus::milli(PROCESSORS));
        policy.pids = Some(PROCESSES);
    })
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, "read the limits", async |sandbox| {
        let grouped = LIMITS.iter();
        let grouped = grouped.filter(|limit| is_grouped(sandbox, limit.capability));
        let grouped: Vec<_> = grouped.collect();
        for limit in &grouped {
            if let Some(wrong) = shown(sandbox, limit).await? {
                return Ok(Some(format!("{}: {wrong}", limit.capability)));
            }
        }
        // Without a control group of its own there is nothing to see.
        if grouped.is_empty() {
            return Ok(None);
        }
        let writable = async |folders: &[String]| {
            let call = folders
                .iter()
                .fold(Call::new(["writable-mount"]), Call::and);
            Ok::<_, sandbox_core::Error>(sandbox.run(&call).await?.attempt(None))
        };
        // The folder above those of cgroup v1 is no control group.
        let first =
            writable(&["memory", "cpu", "pids"].map(|name| FOLDER.to_owned() + name)).await?;
        let answer = match first == Attempt::blocked(["ENOENT"]) {
            true => writable(&[FOLDER.to_owned()]).await?,
            false => first,
        };
        Ok(match answer {
            Attempt::Succeeded { value } => Some(format!("{value} is writable")),
            _ => None,
        })
    })
    .await;
    context.no_host_effect("the attack only reads");
    Ok(())
}

fn is_grouped(sandbox: &ProbeSandbox, capability: Capability) -> bool {
    let declared = sandbox.declared(capability);
    let mut mechanisms = declared.iter().flat_map(|declared| declared.mechanisms());
    mechanisms.any(|mechanism| matches!(mechanism, Mechanism::Cgroup(_)))
}

async fn shown(sandbox: &ProbeSandbox, limit: &ShownLimit) -> Deviation {
    let ShownLimit { first, second, .. } = limit;
    let script =
        format!("cd {FOLDER} && if [ -e {second} ]; then cat {second}; else cat {first}; fi");
    let result = sandbox.handle().exec(&ExecRequest::shell(script)).await?;
    let text = result.output();
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let value = match (numbers.next(), numbers.next()) {
        (Some(Ok(number)), None) => Some(number),
        (Some(Ok(quota)), Some(Ok(period))) => (quota * 1000).checked_div(period),
        _ => None,
    };
    let is_right = value.is_some_and(|value| limit.value.contains(&value));
    Ok((!is_right).then_some(text))
}
