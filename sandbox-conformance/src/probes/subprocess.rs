//! A second process or program under a policy that allows none.

use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    // A seccomp filter cannot see the arguments of clone3(2).
    Probe::isolation(
        "subprocess::clone3",
        SUBPROCESS_EXECUTION,
        "makes a child with clone3(2)",
        signs::SINGLE,
        |context| {
            Box::pin(refused_twice(
                context,
                Call::new(["fork"]),
                Call::new(["clone3"]),
            ))
        },
    )
    .setup(no_subprocess)
    .version(2)
    .allow_setup(plain),
    // The 32-bit system calls have other numbers.
    Probe::isolation(
        "subprocess::compat_fork",
        SUBPROCESS_EXECUTION,
        "forks by interrupt 0x80",
        NO_SECOND,
        |context| {
            Box::pin(refused_twice(
                context,
                Call::new(["fork"]),
                Call::new(["compat-fork"]),
            ))
        },
    )
    .setup(no_subprocess)
    .version(2)
    .allow_setup(plain),
    Probe::isolation(
        "subprocess::execute",
        SUBPROCESS_EXECUTION,
        "executes another program",
        signs::SINGLE,
        |context| {
            let execute = Call::new(["execute", ITSELF, "alive"]);
            Box::pin(refused_twice(context, execute.clone(), execute))
        },
    )
    .setup(no_subprocess)
    .version(2)
    .allow_setup(plain),
    Probe::isolation(
        "subprocess::execute_memory",
        SUBPROCESS_EXECUTION,
        "executes a memory file by execveat(2) and through /proc",
        signs::SINGLE,
        |context| {
            let permitted = Call::new(["execute", ITSELF, "alive"]);
            let attack = Call::new(["execute-memory"]);
            Box::pin(refused_twice(context, permitted, attack))
        },
    )
    .setup(no_subprocess)
    .version(2)
    .allow_setup(plain),
    Probe::isolation(
        "subprocess::fork",
        SUBPROCESS_EXECUTION,
        "forks",
        signs::SINGLE,
        |context| {
            Box::pin(refused_twice(
                context,
                Call::new(["fork"]),
                Call::new(["fork"]),
            ))
        },
    )
    .setup(no_subprocess)
    .version(2)
    .allow_setup(plain),
    // A thread is not a process.
    Probe::behavior(
        "subprocess::threads",
        SUBPROCESS_EXECUTION,
        "starts a thread although no process may be started",
        |context| Box::pin(threads(context)),
    )
    .setup(no_subprocess)
    .allow_setup(plain),
    // posix_spawn(3) creates children this way.
    Probe::isolation(
        "subprocess::vfork",
        SUBPROCESS_EXECUTION,
        "makes a child with CLONE_VM and CLONE_VFORK",
        signs::SINGLE,
        |context| {
            Box::pin(refused_twice(
                context,
                Call::new(["vfork"]),
                Call::new(["vfork"]),
            ))
        },
    )
    .setup(no_subprocess)
    .version(2)
    .allow_setup(plain),
];

fn no_subprocess(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| policy.subprocess_execution = Some(false))
}

const NO_SECOND: &[ExpectedDenial] = &[
    denied("EPERM", "seccomp"),
    denied("EACCES", "seccomp"),
    denied("ENOSYS", "seccomp"),
    denied("signal:31", "seccomp, killing"),
];

/// The first execution of a sandbox is forked for its request, and each later one before it.
async fn refused_twice(
    context: &mut ProbeContext,
    permitted: Call,
    attack: Call,
) -> Result<(), ProbeError> {
    same_call(context, permitted, attack.clone()).await?;
    context.attack_leaves_a_sandbox().await;
    if context.attack_is_blocked() {
        context.attack(&attack).await;
    }
    Ok(())
}

async fn threads(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["thread"]);
    context.host_control(&call).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let result = context.execute(&call).await.map(|result| {
        let started = crate::program::Run::from(result).attempt(None).is_success();
        (!started).then(|| "no thread could be started".to_owned())
    });
    context.record_attack(behavior("start a thread", result));
    context.no_host_effect("a thread leaves no trace on the host");
    Ok(())
}
