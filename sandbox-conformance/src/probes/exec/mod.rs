//! Programs and how they end.

use sandbox_core::{ErrorKind, ExecRequest, Execution, SandboxHandle, Stdin};
use std::time::Duration;

use crate::probes::prelude::*;
use crate::program::Run;

mod after_end;
mod arguments;
mod blocking;
mod execution;
mod killed;
mod lifetime;
mod listed;
mod requests;
mod statistics;
pub(in crate::probes) mod stop;
mod usage;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "exec::after_end",
        EXEC,
        "kills a sandbox while a program runs, and uses its handle",
        |context| Box::pin(plain_feature(context, "use it after its end", after_end::killed)),
    )
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::behavior(
        "exec::arguments",
        EXEC,
        "passes arguments, variables and a working folder with unusual letters and every byte",
        |context| Box::pin(arguments::run(context)),
    ),
    Probe::behavior(
        "exec::blocking",
        EXEC,
        "creates, executes, copies, exports and removes through the client that blocks",
        |context| Box::pin(blocking::run(context)),
    )
    .setup(|fixture| blocking::exporting(fixture).fresh()),
    Probe::behavior(
        "exec::counted_memory",
        EXEC,
        "writes a file of 32 MiB, and compares the memory that the sandbox reports",
        |context| Box::pin(statistics::memory(context)),
    ),
    Probe::behavior(
        "exec::counted_processes",
        EXEC,
        "runs six processes, and compares how many the sandbox reports, then and after their end",
        |context| Box::pin(statistics::processes(context)),
    ),
    // An agent that polls without a pause takes a processor from its code.
    Probe::behavior(
        "exec::counted_time",
        EXEC,
        "uses 600 ms of processor time, does nothing for a second, and compares the time that the \
         sandbox reports",
        |context| Box::pin(statistics::time(context)),
    ),
    Probe::behavior(
        "exec::execution",
        EXEC,
        "orders, reads, writes to and waits for started executions in the middle and after their end",
        |context| Box::pin(plain_feature(context, "use executions", execution::run)),
    )
    .waits(),
    Probe::behavior(
        "exec::exit_codes",
        EXEC,
        "exits with each code from 0 to 255, and compares the reported outcomes",
        |context| Box::pin(exit_codes(context)),
    )
    .version(3),
    // Exit codes and output lines that imitate those of the sandbox.
    Probe::behavior(
        "exec::forged_ends",
        EXEC,
        "exits with codes that the command uses for itself, ends by SIGKILL and SIGXCPU, and \
         prints lines that imitate a denial",
        |context| Box::pin(forged_ends(context)),
    ),
    Probe::behavior(
        "exec::killed_agent",
        EXEC,
        "kills the agent of a running program from the host, and expects that nothing remains and \
         that no execution succeeds",
        |context| Box::pin(killed::agent(context)),
    )
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::behavior(
        "exec::killed_supervisor",
        EXEC,
        "kills the parent of a running program from the host, expects the outcome `unknown`, and \
         executes again",
        |context| Box::pin(killed::supervisor(context)),
    )
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::behavior(
        "exec::lifetime",
        EXEC,
        "waits for the end of a sandbox whose policy limits its lifetime",
        |context| Box::pin(lifetime::run(context)),
    )
    .waits(),
    Probe::behavior(
        "exec::listed",
        EXEC,
        "lists, finds and removes a sandbox as its own client and as another one, with its labels \
         and its owner",
        |context| Box::pin(listed::run(context)),
    )
    .version(2),
    Probe::behavior(
        "exec::missing_program",
        EXEC,
        "executes a program that does not exist, and expects a typed error",
        |context| Box::pin(MISSING.run(context)),
    ),
    Probe::behavior(
        "exec::missing_workdir",
        EXEC,
        "executes in a folder that does not exist, and expects a typed error",
        |context| Box::pin(MISSING_WORKDIR_MISSING.run(context)),
    ),
    // Signals and a kill while the output is not read.
    Probe::behavior(
        "exec::orders",
        EXEC,
        "sends a signal to one program, and kills another one whose output is not read",
        |context| Box::pin(orders(context)),
    ),
    Probe::behavior(
        "exec::removed_by_another",
        DETACHED,
        "removes a detached sandbox through another client while a program runs, and uses its handle",
        |context| Box::pin(after_end::removed_by_another(context)),
    ),
    Probe::behavior(
        "exec::requests",
        EXEC,
        "sets variables, folders and users of executions, and compares what programs get",
        |context| Box::pin(requests::run(context)),
    )
    .setup(|_| {
        let mut setup = SandboxSetup::default();
        let [name, value] = requests::VARIABLE;
        setup.env.insert(name.into(), value.into());
        setup
    }),
    Probe::behavior(
        "exec::sent_signals",
        EXEC,
        "sends each of eight signals to a program, and compares the reported outcomes",
        |context| Box::pin(sent_signals(context)),
    ),
    Probe::behavior(
        "exec::signals",
        EXEC,
        "sends itself each signal that does not stop a program, and compares the reported outcomes",
        |context| Box::pin(signals(context)),
    )
    .version(3),
    Probe::behavior(
        "exec::stop",
        EXEC,
        "stops a sandbox whose programs end half a second after their child, also on a terminal, or \
         ignore SIGTERM, and follows its log",
        |context| Box::pin(stop::run(context)),
    )
    .version(3)
    .waits()
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::behavior(
        "exec::umask",
        EXEC,
        "asks for the umask, without and with standard input",
        |context| Box::pin(umask(context)),
    ),
    Probe::behavior(
        "exec::unusual_exits",
        EXEC,
        "exits from a thread, after the end of its main thread, after it was stopped, and before \
         a process that it started",
        |context| Box::pin(unusual_exits(context)),
    )
    .version(2),
    Probe::behavior(
        "exec::usage",
        EXEC,
        "uses known amounts of processor time and memory, and compares the reported ones",
        |context| Box::pin(usage::run(context)),
    ),
];

/// An execution that needs a missing file.
struct Missing {
    /// The file that must be missing on the host.
    what: &'static str,
    action: &'static str,
    /// Makes the request from a missing path and the path of the probe program.
    request: fn(String, &str) -> ExecRequest,
    /// The expected error.
    deviation: ErrorKind,
}

impl Missing {
    async fn run(&self, context: &mut ProbeContext) -> Result<(), ProbeError> {
        let missing = format!("/nonexistent/{}", context.token());
        let there = std::path::Path::new(&missing).exists();
        let failure = there.then(|| "it exists".to_owned());
        context.record_host_control(control(self.what, failure));
        context.allow_control(&Call::new(["alive"])).await;
        let deviation = context
            .with_sandbox(async |sandbox| {
                let request = (self.request)(missing, sandbox.program());
                match sandbox.handle().exec(&request).await {
                    Err(error) if error.kind() == self.deviation => None,
                    Err(error) => Some(error.to_string()),
                    Ok(result) => Some(format!("it ran: {}", result.outcome)),
                }
            })
            .await;
        context.record_attack(behavior(self.action, deviation));
        context.no_host_effect("nothing runs");
        Ok(())
    }
}

/// The first call whose reported outcome is not the expected one.
async fn wrong_outcome(
    context: &mut ProbeContext,
    calls: impl IntoIterator<Item = (Call, Outcome)>,
) -> Result<Option<String>, Attempt> {
    for (call, expected) in calls {
        let result = context.execute(&call).await?;
        let outcome = &result.outcome;
        let succeeds = expected == Outcome::Exited { code: 0 };
        if *outcome != expected || [result.success(), result.check().is_ok()] != [succeeds; 2] {
            return Ok(Some(format!("{} was reported as: {outcome}", call.text())));
        }
    }
    Ok(None)
}

async fn exit_codes(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |code: i32| Call::new(["exit", &code.to_string()]);
    let run = host::run(&context.fixture().program(), &call(255)).await?;
    let failure = (run.outcome != Outcome::Exited { code: 255 }).then(|| run.outcome.to_string());
    context.record_host_control(control("exit 255 on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let calls = (0..=255).map(|code| (call(code), Outcome::Exited { code }));
    let deviation = wrong_outcome(context, calls).await;
    context.record_attack(behavior("exit with each code", deviation));
    context.no_host_effect("exit codes do not affect the host");
    Ok(())
}

async fn unusual_exits(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let calls = ["thread", "main", "stopped"].into_iter().zip(3..);
    let calls = calls.map(|(way, code)| {
        let call = Call::new(["end-oddly", way, &code.to_string()]);
        (call, Outcome::Exited { code })
    });
    let calls: Vec<_> = calls.collect();
    let mut failure = None;
    for (call, expected) in &calls {
        let run = host::run(&context.fixture().program(), call).await?;
        if run.outcome != *expected {
            failure = Some(format!("{}: {}", call.text(), run.outcome));
        }
    }
    context.record_host_control(control("exit in unusual ways on the host", failure));
    context.allow_control(&Call::new(["fork"])).await;
    let deviation = match wrong_outcome(context, calls).await {
        Ok(None) => wrong_stragglers(context).await,
        deviation => deviation,
    };
    context.record_attack(behavior("exit in unusual ways", deviation));
    context.no_host_effect("exit codes do not affect the host");
    Ok(())
}

/// Processes that outlive their program are killed, and counted.
async fn wrong_stragglers(context: &mut ProbeContext) -> Result<Option<String>, Attempt> {
    let orphan = Call::new(["orphan", context.token(), "20000"]);
    for (call, stragglers) in [(Call::new(["alive"]), 0), (orphan, 1)] {
        let result = context.execute(&call).await?;
        if !result.success() || result.stragglers != stragglers {
            let text = call.text();
            return Ok(Some(format!("{text}: {} stragglers", result.stragglers)));
        }
    }
    Ok(None)
}

const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// The exit codes of shells, of `timeout` and of the command `sandbox` for time limits, missing
/// programs, signals and memory.
const CODES: [i32; 5] = [124, 125, 126, 127, 137];

async fn forged_ends(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let exit = |code: &i32| {
        let call = Call::new(["exit", &code.to_string()]);
        (call, Outcome::Exited { code: *code })
    };
    let raise = |signal: i32| {
        let call = Call::new(["raise", &signal.to_string()]);
        (call, Outcome::Signaled { signal })
    };
    let imitation = "sandbox: network access is denied (rule: network_access = none)\n";
    let mut calls: Vec<_> = CODES.iter().map(exit).collect();
    calls.extend([SIGKILL, SIGXCPU].map(raise));
    calls.push((
        Call::new(["both", imitation, imitation]),
        Outcome::Exited { code: 0 },
    ));
    let (call, expected) = &calls[0];
    let run = host::run(&context.fixture().program(), call).await?;
    let failure = (run.outcome != *expected).then(|| run.outcome.to_string());
    context.record_host_control(control("exit 124 on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let mut deviation = Ok(None);
    for (call, expected) in &calls {
        deviation = match context.execute(call).await {
            Err(attempt) => Err(attempt),
            Ok(result) if result.outcome == *expected && result.denials.is_empty() => continue,
            Ok(result) => Ok(Some(format!(
                "{} was reported as: {}, {:?}",
                call.text(),
                result.outcome,
                result.denials
            ))),
        };
        break;
    }
    context.record_attack(behavior("imitate the sandbox's reports", deviation));
    context.no_host_effect("reports do not affect the host");
    Ok(())
}

static MISSING: Missing = Missing {
    what: "the host has no such program",
    action: "execute a missing program",
    request: |missing, _| ExecRequest::new(missing),
    deviation: ErrorKind::ProgramNotFound,
};

static MISSING_WORKDIR_MISSING: Missing = Missing {
    what: "the host has no such folder",
    action: "execute in a missing folder",
    request: |missing, program| ExecRequest::new(program).arg("alive").workdir(missing),
    deviation: ErrorKind::BadWorkdir,
};

async fn orders(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let request = |arguments: [&str; 3]| {
                let request = ExecRequest::new(sandbox.program()).args(arguments);
                request.timeout(Duration::from_secs(10))
            };
            let sleeper = request(["sleep", "", "9000"]);
            let flood = request(["emit", "60000000", "1"]);
            match order(sandbox.handle(), &sleeper, &flood).await {
                Ok(deviation) => deviation,
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    context.record_attack(behavior("send a signal and a kill", deviation));
    context.no_host_effect("signals in the sandbox do not affect the host");
    Ok(())
}

async fn order(
    sandbox: &SandboxHandle,
    sleeper: &ExecRequest,
    flood: &ExecRequest,
) -> sandbox_core::Result<Option<String>> {
    let mut execution = sandbox.start(sleeper, Stdin::Null).await?;
    execution.signal(15).await?;
    if let Some(deviation) = ended_by(&mut execution, 15).await? {
        return Ok(Some(deviation));
    }
    let mut execution = sandbox.start(flood, Stdin::Null).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    execution.kill().await;
    ended_by(&mut execution, 9).await
}

async fn ended_by(execution: &mut Execution, signal: i32) -> sandbox_core::Result<Option<String>> {
    let outcome = execution.wait().await?.outcome;
    let expected = Outcome::Signaled { signal };
    Ok((outcome != expected).then(|| format!("{outcome}, not {expected}")))
}

const SIGUSR1: i32 = 10;

/// SIGCHLD, SIGCONT, SIGURG and SIGWINCH, which do nothing by default.
const IGNORED: [i32; 4] = [17, 18, 23, 28];

/// SIGSTOP, SIGTSTP, SIGTTIN and SIGTTOU.
const STOPPING: [i32; 4] = [19, 20, 21, 22];

/// The number of signals.
const LAST_SIGNAL: i32 = 64;

async fn signals(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |signal: i32| Call::new(["raise", &signal.to_string()]);
    let expected = |signal| match IGNORED.contains(&signal) {
        true => Outcome::Exited { code: 0 },
        false => Outcome::Signaled { signal },
    };
    let run = host::run(&context.fixture().program(), &call(SIGUSR1)).await?;
    let failure = (run.outcome != expected(SIGUSR1)).then(|| run.outcome.to_string());
    context.record_host_control(control("end by a signal on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let signals = (1..=LAST_SIGNAL).filter(|signal| !STOPPING.contains(signal));
    let calls = signals.map(|signal| (call(signal), expected(signal)));
    let deviation = wrong_outcome(context, calls).await;
    context.record_attack(behavior("end by each signal", deviation));
    context.no_host_effect("signals in the sandbox do not affect the host");
    Ok(())
}

/// Signals that end a program by default, among them a real-time signal.
const SENT: [u8; 8] = [1, 2, 3, 10, 12, 14, 15, 40];

async fn sent_signals(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let raise = Call::new(["raise", "12"]);
    let run = host::run(&context.fixture().program(), &raise).await?;
    let failure =
        (run.outcome != Outcome::Signaled { signal: 12 }).then(|| run.outcome.to_string());
    context.record_host_control(control("end by a signal on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let sleeper = sandbox.request(&Call::new(["sleep", "", "9000"]));
            let sleeper = sleeper.timeout(Duration::from_secs(10));
            for signal in SENT {
                let ended = async {
                    let mut execution = sandbox.handle().start(&sleeper, Stdin::Null).await?;
                    execution.signal(signal).await?;
                    ended_by(&mut execution, signal.into()).await
                };
                match ended.await {
                    Ok(None) => {}
                    Ok(deviation) => return deviation,
                    Err(error) => return Some(format!("signal {signal}: {error}")),
                }
            }
            None
        })
        .await;
    context.record_attack(behavior("send each signal", deviation));
    context.no_host_effect("signals in the sandbox do not affect the host");
    Ok(())
}

/// The documented umask of code.
const UMASK: &str = "022";

async fn umask(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["umask"]);
    context.host_control(&call).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let mut deviation = Ok(None);
    for call in [call.clone(), call.stdin("input")] {
        deviation = match context.execute(&call).await.map(Run::from) {
            Ok(run) if run.attempt(Some(UMASK)).is_success() => continue,
            Ok(run) => Ok(Some(format!("{:?}, not {UMASK}", run.attempt(None)))),
            Err(attempt) => Err(attempt),
        };
        break;
    }
    context.record_attack(behavior("ask for the umask", deviation));
    context.no_host_effect("the umask is the program's own");
    Ok(())
}
