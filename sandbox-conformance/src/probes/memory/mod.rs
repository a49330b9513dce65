//! Limits of memory.

use sandbox_core::ExecRequest;

use crate::probes::measured::{MeasuredLimit, WITHIN, measure};
use crate::probes::prelude::*;

mod left_segments;
mod specified;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    // No memory limit counts huge pages. They are denied without one too.
    Probe::isolation(
        "memory::huge_pages",
        PRIVILEGES,
        "requests huge pages through mmap, memfd_create and shmget",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["huge-pages"])),
    ),
    // Segments left behind would reduce the memory of other sandboxes.
    Probe::isolation(
        "memory::left_segments",
        MEMORY,
        "leaves a System V segment of 24 MiB behind, and creates another one in the next \
         execution, with a limit of 32 MiB",
        left_segments::LIMITED,
        |context| Box::pin(left_segments::run(context)),
    )
    .setup(|fixture| small(fixture).fresh()),
    Probe::isolation(
        "memory::many_processes",
        MEMORY,
        "touches 32 MiB in each of 8 processes with a limit of 64 MiB",
        signs::MEMORY,
        |context| {
            limit(
                context,
                Call::new(["memory-of-children", "2", "8"]),
                Call::new(["memory-of-children", "8", "32"]),
            )
        },
    )
    .version(2)
    .setup(memory_of_64_mib),
    Probe::isolation(
        "memory::measured",
        MEMORY,
        "takes memory with limits of 32, 96 and 300 MiB, and measures how much it gets",
        WITHIN,
        |context| Box::pin(measure(context, &MEMORY_LIMIT)),
    )
    .version(2),
    Probe::isolation(
        "memory::one_process",
        MEMORY,
        "touches 128 MiB with a limit of 64 MiB",
        signs::MEMORY,
        |context| {
            limit(
                context,
                Call::new(["memory", "16"]),
                Call::new(["memory", "128"]),
            )
        },
    )
    .version(2)
    .setup(memory_of_64_mib),
    Probe::isolation(
        "memory::pipes",
        MEMORY,
        "holds 56 MiB in pipes with a limit of 32 MiB",
        HELD_BY_KERNEL,
        |context| {
            limit(
                context,
                Call::new(["pipes", "4"]),
                Call::new(["pipes", "56"]),
            )
        },
    )
    .version(2)
    .setup(small),
    // Otherwise a host that is short of memory ends the sandbox, and not the execution.
    Probe::behavior(
        "memory::preferred_victim",
        MEMORY,
        "reads with which preference the kernel ends its process where memory is short",
        |context| Box::pin(preferred_victim(context)),
    )
    .setup(memory_of_64_mib),
    Probe::behavior(
        "memory::reported",
        MEMORY,
        "uses twice its memory limit, itself and in a child that it outlives, and compares the outcomes",
        |context| Box::pin(reported(context)),
    )
    .version(2)
    .setup(memory_of_64_mib),
    Probe::isolation(
        "memory::sockets",
        MEMORY,
        "holds 56 MiB in pairs of unix sockets with a limit of 32 MiB",
        HELD_BY_KERNEL,
        |context| {
            limit(
                context,
                Call::new(["sockets", "4"]),
                Call::new(["sockets", "56"]),
            )
        },
    )
    .version(2)
    .setup(small),
    Probe::isolation(
        "memory::specified",
        MEMORY,
        "takes memory in two sandboxes of one client whose specifications ask for 192 and 64 MiB",
        WITHIN,
        |context| Box::pin(specified::run(context)),
    )
    .setup(|_| SandboxSetup::with(|policy| policy.memory = Some(ByteSize::mib(256)))),
    Probe::isolation(
        "memory::unmapped",
        MEMORY,
        "writes 128 MiB into an unmapped file in memory with a limit of 64 MiB",
        signs::MEMORY,
        |context| {
            limit(
                context,
                Call::new(["memory-unmapped", "16"]),
                Call::new(["memory-unmapped", "128"]),
            )
        },
    )
    .version(2)
    .setup(memory_of_64_mib),
];

/// In MiB.
const MEMORY_LIMIT: MeasuredLimit = MeasuredLimit {
    values: &[32, 96, 300],
    set: |policy, value| policy.memory = Some(ByteSize::mib(value)),
    call: |_, most| Call::new(["measure-memory", &most.to_string()]),
    accepted: |value| (value - value / 20 - 8, value + (value / 20).max(4)),
};

/// A limit below the 64 MiB that an ordinary user may hold in pipes.
fn small(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| policy.memory = Some(ByteSize::mib(32)))
}

/// The accepted denials of memory in buffers of the kernel.
const HELD_BY_KERNEL: &[ExpectedDenial] = &[
    denied("out_of_memory", "memory limit of the sandbox"),
    denied("ENOMEM", "memory limit of the sandbox"),
    denied("ENOBUFS", "memory limit of the sandbox"),
    denied("EMFILE", "limit of open files: each buffer is too small"),
    denied("EPERM", "seccomp: there are no such buffers"),
];

fn memory_of_64_mib(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| policy.memory = Some(ByteSize::mib(64)))
}

async fn preferred_victim(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = "/proc/self/oom_score_adj";
    let of_host = std::fs::read(path)?;
    // The highest value (OOM_SCORE_ADJ_MAX).
    let [of_host, highest] = [&of_host[..], b"1000\n"].map(crate::program::fingerprint);
    let read = Call::new(["read", path]);
    context.host_control(&read.clone().expect(of_host)).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let result = context.execute(&read).await.map(|result| {
        let wanted = format!("result=value:{highest}\n");
        (result.stdout_text() != wanted).then(|| format!("{}: {}", result.outcome, result.output()))
    });
    context.record_attack(behavior("read its value", result));
    context.no_host_effect("the value is the process's own");
    Ok(())
}

async fn reported(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |size| Call::new(["memory", size]);
    context.host_control(&call("128")).await?;
    context.allow_control(&call("16")).await;
    let result = context.execute(&call("128")).await.map(|result| {
        (result.outcome != Outcome::OutOfMemory).then(|| format!("reported: {}", result.outcome))
    });
    let result = match result {
        Ok(None) => outlived(context).await,
        other => other,
    };
    context.record_attack(behavior("use twice the memory limit", result));
    context.no_host_effect("the limit is the sandbox's own");
    Ok(())
}

/// Exits with a code of its own after the kernel has killed a child.
async fn outlived(context: &mut ProbeContext) -> Result<Option<String>, Attempt> {
    let script = "\"$0\" memory 128; echo after; exit 3";
    let ran = context.with_sandbox(async |sandbox| {
        let request = ExecRequest::shell(script).arg(sandbox.program());
        sandbox.handle().exec(&request).await
    });
    let result = ran
        .await?
        .map_err(|error| Attempt::unclear(error.to_string()))?;
    // A kernel may kill all processes of the sandbox at once.
    let went_on = result.stdout_text().contains("after");
    let is_own = result.outcome == (Outcome::Exited { code: 3 });
    Ok((went_on && !is_own).then(|| format!("exited with 3, and is told as: {}", result.outcome)))
}
