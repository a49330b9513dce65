//! Processes outside the sandbox, and processes left behind.

use sandbox_core::ExecRequest;

use crate::probes::prelude::*;
use crate::program::Run;

mod communication;
mod dropped_execution;
mod end_of_sandbox;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "processes::communication",
        PROCESSES,
        "passes a byte between two processes by a pipe, a socket, shared memory, and System V \
         objects",
        |context| Box::pin(communication::run(context)),
    ),
    Probe::isolation(
        "processes::dropped_execution",
        PROCESSES,
        "continues in new sessions after the caller drops or kills the execution, also on a terminal, \
         or drops the future of one",
        dropped_execution::GONE_WITH_IT,
        |context| Box::pin(dropped_execution::run(context)),
    )
    .version(2),
    Probe::isolation(
        "processes::end_of_sandbox",
        PROCESSES,
        "runs a process in a sandbox, and looks for it after the sandbox was killed",
        end_of_sandbox::GONE_WITH_IT,
        |context| Box::pin(end_of_sandbox::run(context)),
    )
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::isolation(
        "processes::host_invisible",
        PROCESSES,
        "looks for a process of the host in /proc",
        signs::ABSENT,
        |context| Box::pin(host_invisible(context)),
    ),
    Probe::isolation(
        "processes::orphan",
        PROCESSES,
        "leaves a process behind that forked twice and is in a new session, by a program that exits \
         and by one that a signal ends",
        GONE_WITH_IT,
        |context| Box::pin(orphan(context)),
    )
    .version(2),
    Probe::behavior(
        "processes::own_child",
        EXEC,
        "ends a child by a descriptor of it",
        |context| Box::pin(own_child(context)),
    ),
    Probe::isolation(
        "processes::parent_memory",
        PROCESSES,
        "opens its parent's memory for writing",
        signs::NO_SUCH_PROCESS,
        |context| {
            same_call(
                context,
                Call::new(["signal-child"]),
                Call::new(["parent-memory"]),
            )
        },
    ),
    Probe::isolation(
        "processes::signal_host",
        PROCESSES,
        "sends SIGTERM to a process of the host",
        signs::NO_SUCH_PROCESS,
        |context| Box::pin(signal_host(context)),
    ),
    // The parent is the agent, or a process of the host.
    Probe::isolation(
        "processes::trace_parent",
        PROCESSES,
        "attaches to its parent with ptrace(2)",
        signs::NO_SUCH_PROCESS,
        |context| {
            same_call(
                context,
                Call::new(["signal-child"]),
                Call::new(["trace-parent"]),
            )
        },
    ),
];

async fn host_invisible(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let sleep = Call::new(["sleep", context.token(), "20000"]);
    let _victim = host::spawn(&context.fixture().program(), &sleep).await?;
    let find = Call::new(["find", context.token()]);
    context.host_control(&find).await?;
    context
        .allow_control(&Call::new(["find-child", "find-child"]))
        .await;
    context.attack(&find).await;
    context.no_host_effect("looking leaves no trace");
    Ok(())
}

const GONE_WITH_IT: &[ExpectedDenial] = &[denied("gone", "the whole tree ends with the program")];

async fn orphan(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |token: &str| Call::new(["orphan", token, "2500"]);
    let control = format!("{}-control", context.token());
    let outlives = {
        let run = host::run(&context.fixture().program(), &call(&control)).await?;
        run.attempt(None).is_success() && !host::processes_with(&control)?.is_empty()
    };
    host::kill_all_with(&control)?;
    let failure = (!outlives).then(|| "no process was left behind".to_owned());
    context.record_host_control(control_step(failure));
    context.allow_control(&Call::new(["fork"])).await;
    let attack = format!("{}-attack", context.token());
    let mut started = context.execute(&call(&attack)).await.map(drop);
    let mut left = host::wait_until_gone(&attack, GONE).await?;
    if started.is_ok() && left.is_empty() {
        started = orphan_of_killed(context, &attack).await;
        left = host::wait_until_gone(&attack, GONE).await?;
    }
    host::kill_all_with(&attack)?;
    context.record_attack(Step::new(
        call(&attack).text(),
        match started {
            Ok(()) => Attempt::leak_if(!left.is_empty(), "gone"),
            Err(attempt) => attempt,
        },
    ));
    context.check_host(
        "processes of the host after the program's end",
        left.is_empty(),
    );
    Ok(())
}

/// Leaves a process behind by a shell that kills itself.
async fn orphan_of_killed(context: &mut ProbeContext, token: &str) -> Result<(), Attempt> {
    let ended = context.with_sandbox(async |sandbox| {
        let script = ExecRequest::shell("\"$0\" orphan \"$1\" 2500 && kill -9 $$");
        let request = script.args([sandbox.program(), token]);
        Ok(sandbox.handle().exec(&request).await?.outcome)
    });
    match flat(ended.await)? {
        Outcome::Signaled { signal: 9, .. } => Ok(()),
        other => Err(Attempt::unclear(format!("the shell: {other}"))),
    }
}

async fn own_child(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["signal-child-by-descriptor"]);
    context.host_control(&call).await?;
    context.allow_control(&Call::new(["signal-child"])).await;
    let deviation = match context.execute(&call).await {
        Ok(result) => match Run::from(result).attempt(None) {
            Attempt::Succeeded { .. } => Ok(None),
            // Code that has the agent's user could signal the agent, and a filter sees no process
            // behind a descriptor.
            Attempt::Blocked { signature } if signature == ["ENOSYS"] => {
                context.not_offered("signals by a descriptor: ENOSYS".to_owned());
                Ok(None)
            }
            Attempt::Blocked { signature } => Ok(Some(format!("{signature:?}"))),
            unclear => Err(unclear),
        },
        Err(attempt) => Err(attempt),
    };
    context.record_attack(behavior("end a child", deviation));
    context.no_host_effect("the child is the program's own");
    Ok(())
}

fn control_step(failure: Option<String>) -> Step {
    control("leave a process behind on the host", failure)
}

async fn signal_host(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let sleep = Call::new(["sleep", context.token(), "20000"]);
    let program = context.fixture().program();
    let target = host::spawn(&program, &sleep).await?;
    let mut victim = host::spawn(&program, &sleep).await?;
    let signal = |child: &tokio::process::Child| {
        let pid = child
            .id()
            .ok_or_else(|| ProbeError::new("the target process ended before the attack"))?;
        Ok::<_, ProbeError>(Call::new(["signal", &pid.to_string()]))
    };
    context.host_control(&signal(&target)?).await?;
    context.allow_control(&Call::new(["signal-child"])).await;
    context.attack(&signal(&victim)?).await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    context.check_host(
        "the host's process still runs",
        victim.try_wait()?.is_none(),
    );
    Ok(())
}
