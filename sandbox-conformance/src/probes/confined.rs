//! Whether each way to start code confines it as the first execution of a sandbox is confined.
//!
//! Other probes attack one execution. These run a list of attacks on the host, in an execution, and
//! in one that was started otherwise: the answers of the last two must be the same.

use sandbox_core::{ExecRequest, ExecResult, SandboxHandle, Stdin, TerminalSize};

use crate::canary::Canary;
use crate::pool::request;
use crate::probes::detached::{LIFETIME, in_detached};
use crate::probes::prelude::*;
use crate::program::Run;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "confined::as_root",
        EXEC,
        "attacks from executions as user 0 of the sandbox as from one of its own user",
        |context| Box::pin(as_root(context)),
    )
    .version(2),
    Probe::behavior(
        "confined::in_parallel",
        PRIVILEGES,
        "attacks from four executions at once as from the first one",
        |context| Box::pin(in_parallel(context)),
    )
    .version(2),
    Probe::behavior(
        "confined::later_client",
        PRIVILEGES,
        "attacks from a detached sandbox through a second client as from an attached one",
        |context| Box::pin(later_client(context)),
    )
    .version(2),
    Probe::behavior(
        "confined::on_a_terminal",
        PRIVILEGES,
        "attacks from an execution with a terminal as from one without",
        |context| Box::pin(on_a_terminal(context)),
    )
    .version(2),
    Probe::behavior(
        "confined::with_input",
        PRIVILEGES,
        "attacks from executions with standard input as from one without",
        |context| Box::pin(with_input(context)),
    )
    .version(2),
];

/// The attacks, and what they need on the host.
pub(super) struct Attacks {
    pub(super) calls: Vec<Call>,
    _listener: Listener,
    _canary: Canary,
}

impl Attacks {
    pub(super) async fn prepare(context: &ProbeContext) -> Result<Self, ProbeError> {
        let listener = Listener::tcp4().await?;
        let canary = context.canary(0o644)?;
        let mut calls = vec![
            listener.call("tcp", context.token()),
            Call::new(["read"]).and(canary.path()),
        ];
        let lines = [
            "bpf",
            "capability-sets CapBnd",
            "capability-sets CapInh CapPrm CapEff CapAmb",
            "descriptors",
            "filters 1",
            "filters 2",
            "landlock-room",
            "may-gain-privileges",
            "netlink 9",
            "parents-user",
            "read /etc/shadow",
            "readable /proc/cmdline /proc/interrupts /proc/kcore /proc/keys /proc/timer_list",
            "refused-calls",
            // Core files, processes, open files, locked memory, message queues.
            "resource-limit 4 0",
            "resource-limit 6 0",
            "resource-limit 7 0",
            "resource-limit 8 0",
            "resource-limit 12 0",
            "socket-families",
            "trace-parent",
            "user-namespace",
            "writable-mount /",
            "writable-mount /etc",
            "writable-mount /proc/sys",
        ];
        calls.extend(lines.map(|line| Call::new(line.split(' '))));
        Ok(Self {
            calls,
            _listener: listener,
            _canary: canary,
        })
    }

    /// Their answers without a sandbox.
    pub(super) async fn on_host(&self, context: &ProbeContext) -> Result<Vec<Attempt>, ProbeError> {
        let mut answers = Vec::new();
        for call in &self.calls {
            let run = host::run(&context.fixture().program(), call).await?;
            answers.push(run.attempt(None));
        }
        Ok(answers)
    }
}

/// Runs the attacks on the host, in the attacked sandbox, and by `otherwise`.
pub(super) async fn compare(
    context: &mut ProbeContext,
    action: &str,
    otherwise: impl AsyncFnOnce(
        &mut ProbeContext,
        &[Call],
    ) -> Result<Result<Vec<Vec<Attempt>>, Attempt>, ProbeError>,
) -> Result<(), ProbeError> {
    let attacks = Attacks::prepare(context).await?;
    let on_host = attacks.on_host(context).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let usual = context
        .with_sandbox(async |sandbox| {
            answers(sandbox.handle(), sandbox.program(), &attacks.calls, None).await
        })
        .await;
    let usual = match usual {
        Ok(usual) => usual?,
        Err(declined) => {
            context.record_attack(Step::new(action, declined));
            return Ok(());
        }
    };
    // Where the host gives the same answers, equal ones show nothing.
    let failure = (on_host == usual).then(|| "the host gives the same answers".to_owned());
    context.record_host_control(control("the same attacks on the host", failure));
    let deviation = otherwise(context, &attacks.calls).await?.map(|runs| {
        runs.iter()
            .find_map(|answers| difference(&attacks.calls, &usual, answers))
    });
    context.record_attack(behavior(action, deviation));
    context.no_host_effect("the attacks leave no trace on the host");
    Ok(())
}

pub(super) fn difference(calls: &[Call], usual: &[Attempt], answers: &[Attempt]) -> Option<String> {
    let mut pairs = calls.iter().zip(usual.iter().zip(answers));
    pairs.find_map(|(call, (usual, answer))| {
        (usual != answer).then(|| format!("{}: {answer:?}, not {usual:?}", call.text()))
    })
}

/// The answer to each call of one sandbox.
pub(super) async fn answers(
    handle: &SandboxHandle,
    program: &str,
    calls: &[Call],
    input: Option<fn() -> Stdin>,
) -> sandbox_core::Result<Vec<Attempt>> {
    let mut answers = Vec::new();
    for call in calls {
        let stdin = input.map_or(Stdin::Null, |input| input());
        answers.push(answer(handle, &request(program, call), stdin).await?);
    }
    Ok(answers)
}

/// The answer of the probe program.
pub(super) async fn answer(
    handle: &SandboxHandle,
    request: &ExecRequest,
    stdin: Stdin,
) -> sandbox_core::Result<Attempt> {
    let result = run(handle, request, stdin).await?;
    Ok(Run::from(result).attempt(None))
}

/// As [`answers`], each on a terminal.
pub(super) async fn terminal_answers(
    handle: &SandboxHandle,
    program: &str,
    calls: &[Call],
) -> sandbox_core::Result<Vec<Attempt>> {
    let mut answers = Vec::new();
    for call in calls {
        let request = request(program, call).terminal(TerminalSize::new(24, 80));
        let mut result = run(handle, &request, Stdin::Null).await?;
        // A terminal ends lines with two bytes.
        result.stdout.bytes.retain(|byte| *byte != b'\r');
        answers.push(Run::from(result).attempt(None));
    }
    Ok(answers)
}

async fn run(
    handle: &SandboxHandle,
    request: &ExecRequest,
    stdin: Stdin,
) -> sandbox_core::Result<ExecResult> {
    let mut execution = handle.start(request, stdin).await?;
    // Dropping the writer closes the input.
    drop(execution.take_stdin());
    execution.wait().await
}

/// The kinds of standard input.
pub(super) const INPUTS: [fn() -> Stdin; 2] = [|| Stdin::from_bytes(*b"input"), || Stdin::Piped];

async fn with_input(context: &mut ProbeContext) -> Result<(), ProbeError> {
    compare(
        context,
        "attack with standard input",
        async |context, calls| {
            let runs = context
                .with_sandbox(async |sandbox| {
                    let mut runs = Vec::new();
                    for input in INPUTS {
                        runs.push(
                            answers(sandbox.handle(), sandbox.program(), calls, Some(input))
                                .await?,
                        );
                    }
                    Ok(runs)
                })
                .await;
            Ok(flat(runs))
        },
    )
    .await
}

async fn as_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    compare(context, "attack as user 0", async |context, calls| {
        let runs = context
            .with_sandbox(async |sandbox| {
                let mut answers = Vec::new();
                for call in calls {
                    let request = sandbox.request(call).user("root");
                    answers.push(answer(sandbox.handle(), &request, Stdin::Null).await?);
                }
                Ok(vec![answers])
            })
            .await;
        Ok(if_offered(context, runs))
    })
    .await
}

async fn on_a_terminal(context: &mut ProbeContext) -> Result<(), ProbeError> {
    compare(context, "attack on a terminal", async |context, calls| {
        let runs = context
            .with_sandbox(async |sandbox| {
                terminal_answers(sandbox.handle(), sandbox.program(), calls)
                    .await
                    .map(|answers| vec![answers])
            })
            .await;
        Ok(if_offered(context, runs))
    })
    .await
}

async fn in_parallel(context: &mut ProbeContext) -> Result<(), ProbeError> {
    compare(
        context,
        "attack from four executions",
        async |context, calls| {
            let runs = context
                .with_sandbox(async |sandbox| {
                    let runs =
                        (0..4).map(|_| answers(sandbox.handle(), sandbox.program(), calls, None));
                    futures_util::future::try_join_all(runs).await
                })
                .await;
            Ok(flat(runs))
        },
    )
    .await
}

async fn later_client(context: &mut ProbeContext) -> Result<(), ProbeError> {
    compare(
        context,
        "attack through a second client",
        async |context, calls| {
            let mut runs = Vec::new();
            let deviation = in_detached(context, LIFETIME, async |sandbox, name, client| {
                let handle = client.get(name).await?;
                runs.push(answers(&handle, sandbox.program(), calls, None).await?);
                runs.push(answers(&handle, sandbox.program(), calls, Some(|| Stdin::Piped)).await?);
                Ok(None)
            })
            .await;
            match deviation {
                Ok(deviation) => Ok(deviation.map(|_| runs)),
                Err(error) => Err(error),
            }
        },
    )
    .await
}
