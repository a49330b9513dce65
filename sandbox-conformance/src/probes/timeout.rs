//! Time limits.

use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, ExecRequest, Stdin, TerminalSize};

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "timeout::busy_tree",
        TIMEOUT,
        "keeps two processes busy for 1.8 s under a limit of 1 s",
        signs::TIME,
        |context| Box::pin(busy_tree(context)),
    )
    .version(2)
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(Duration::from_secs(1)))),
    Probe::isolation(
        "timeout::detached_tree",
        TIMEOUT,
        "starts 20 processes in sessions of their own under a limit of 1 s",
        signs::TIME,
        |context| Box::pin(detached_tree(context)),
    )
    .waits()
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(Duration::from_secs(1)))),
    Probe::isolation(
        "timeout::held_output",
        EXEC,
        "ends while a detached process holds its standard output for 2.5 s",
        PROMPT,
        |context| Box::pin(held_output(context)),
    )
    .waits(),
    Probe::behavior(
        "timeout::in_time",
        TIMEOUT,
        "must end within a tenth and 500 ms after time limits of 0.25, 1 and 5 s",
        |context| Box::pin(in_time(context)),
    )
    .waits()
    .version(2)
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(LIMITS[2]))),
    // The policy's limit is the shorter one.
    Probe::behavior(
        "timeout::longer_request",
        TIMEOUT,
        "asks for a minute under a limit of 1 s, in each way to start a program",
        |context| Box::pin(longer_request(context)),
    )
    .waits()
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(LIMITS[1]))),
    Probe::behavior(
        "timeout::output_before",
        TIMEOUT,
        "writes a line, then runs into the limit",
        |context| Box::pin(output_before(context)),
    )
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(Duration::from_secs(1)))),
    Probe::isolation(
        "timeout::stubborn",
        TIMEOUT,
        "runs for 1.8 s with every signal blocked under a limit of 1 s",
        signs::TIME,
        |context| Box::pin(stubborn(context)),
    )
    .version(2)
    .waits()
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(Duration::from_secs(1)))),
    Probe::behavior(
        "timeout::with_input",
        TIMEOUT,
        "as in_time, with standard input that ends, that stays open, and that is never read",
        |context| Box::pin(with_input(context)),
    )
    .waits()
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(LIMITS[2]))),
];

async fn busy_tree(context: &mut ProbeContext) -> Result<(), ProbeError> {
    limit(
        context,
        Call::new(["spin", "1", "50", "0"]),
        Call::new(["spin", "2", "1800", "0"]),
    )
    .await
}

async fn detached_tree(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |token: &str, duration| Call::new(["tree", token, "20", duration]);
    let token = context.token().to_owned();
    context
        .host_control(&call(&format!("{token}-control"), "1500"))
        .await?;
    context
        .allow_control(&call(&format!("{token}-short"), "50"))
        .await;
    let attack = format!("{token}-attack");
    context.attack(&call(&attack, "2500")).await;
    let left = host::wait_until_gone(&attack, GONE).await?;
    context.check_host("processes of the host after the limit", left.is_empty());
    host::kill_all_with(&attack)
}

const PROMPT: &[ExpectedDenial] = &[denied("prompt", "the execution ends with the program")];

/// The other process keeps the output open for 2.5 s.
const STALLED: Duration = Duration::from_secs(2);

async fn held_output(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |token: &str| Call::new(["orphan", token, "2500", "hold"]);
    let token = context.token().to_owned();
    let run = host::run(
        &context.fixture().program(),
        &call(&format!("{token}-control")),
    )
    .await?;
    let failure =
        (run.duration < STALLED).then(|| format!("the end came after {:?}", run.duration));
    context.record_host_control(control(
        "wait for the output of a detached process",
        failure,
    ));
    context.allow_control(&Call::new(["alive"])).await;
    let attack = format!("{token}-attack");
    let attempt = match context.execute(&call(&attack)).await {
        Ok(result) => Attempt::leak_if(result.duration >= STALLED, "prompt"),
        Err(attempt) => attempt,
    };
    let left = host::wait_until_gone(&attack, GONE).await?;
    context.record_attack(Step::new(call(&attack).text(), attempt));
    context.check_host(
        "processes of the host after the program's end",
        left.is_empty(),
    );
    host::kill_all_with(&attack)
}

const LIMITS: [Duration; 3] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// The tolerated delay, on a busy host too.
const LATE: Duration = Duration::from_millis(500);

async fn in_time(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let inputs: [fn() -> Stdin; 1] = [|| Stdin::Null];
    limits_kept(context, "run into each limit", &inputs).await
}

/// More than the pipe to a program takes.
const MUCH: usize = 256 << 10;

async fn with_input(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let inputs: [fn() -> Stdin; 3] = [
        || Stdin::from_bytes(*b"input"),
        || Stdin::Piped,
        || Stdin::from_bytes(vec![b'x'; MUCH]),
    ];
    limits_kept(context, "run into each limit with input", &inputs).await
}

/// Runs into each limit with each input, at the same time for one input.
async fn limits_kept(
    context: &mut ProbeContext,
    action: &str,
    inputs: &[fn() -> Stdin],
) -> Result<(), ProbeError> {
    let call = |duration| Call::new(["stubborn", duration]);
    context.host_control(&call("50")).await?;
    context.allow_control(&call("50")).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            for input in inputs {
                let [short, middle, long] =
                    LIMITS.map(|limit| ends_in_time(sandbox, limit, *input));
                let (short, middle, long) = tokio::join!(short, middle, long);
                let deviation = short?.or(middle?).or(long?);
                if deviation.is_some() {
                    return Ok(deviation);
                }
            }
            Ok(None)
        })
        .await;
    context.record_attack(behavior(action, flat(deviation)));
    context.no_host_effect("the time limit does not affect the host");
    Ok(())
}

/// How often a limit is tried that ended late. A busy host ends one of them late, and a wrong limit
/// all of them.
const TRIES: u32 = 3;

async fn ends_in_time(
    sandbox: &ProbeSandbox,
    limit: Duration,
    input: fn() -> Stdin,
) -> sandbox_core::Result<Option<String>> {
    let request = sandbox.request(&Call::new(["stubborn", "9000"]).timeout(limit));
    let mut late = None;
    for _ in 0..TRIES {
        let start = Instant::now();
        let mut execution = sandbox.handle().start(&request, input()).await?;
        // A piped input stays open until the end.
        let writer = execution.take_stdin();
        let result = execution.wait().await?;
        drop(writer);
        let took = result.duration;
        let told = format!(
            "{} after {took:?} with a limit of {limit:?}",
            result.outcome
        );
        let is_early = took < limit || start.elapsed() < limit;
        if is_early || result.outcome != Outcome::TimedOut {
            return Ok(Some(told));
        }
        if took < limit + limit / 10 + LATE {
            return Ok(None);
        }
        late = Some(told);
    }
    Ok(late)
}

/// What is asked for, and when the program ends by itself.
const MINUTE: Duration = Duration::from_secs(60);
const SLEEP: &str = "9000";

async fn longer_request(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let handle = sandbox.handle();
            let longer = sandbox.request(&Call::new(["stubborn", SLEEP]).timeout(MINUTE));
            let usual = sandbox.request(&Call::new(["stubborn", SLEEP]));
            let terminal = longer.clone().terminal(TerminalSize::default());
            let started = async |request: &ExecRequest| {
                let mut execution = handle.start(request, Stdin::Null).await?;
                execution.wait().await
            };
            let results = tokio::join!(
                handle.exec(&longer),
                handle.exec(&usual),
                handle.exec_with(&longer, Stdin::from_bytes(*b"input"), |_, _| {}),
                started(&longer),
                started(&terminal),
            );
            let (first, second, third, fourth, fifth) = results;
            for result in [first, second, third, fourth, fifth] {
                let result = match result {
                    // A backend may have no terminals.
                    Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                    result => result?,
                };
                let rules: Vec<_> = result.denials.iter().map(|denial| &denial.rule).collect();
                let is_right = result.outcome == Outcome::TimedOut
                    && result.timeout == LIMITS[1]
                    && rules == ["timeout = 1s"];
                if !is_right {
                    let (outcome, limit) = (&result.outcome, result.timeout);
                    return Ok(Some(format!(
                        "{outcome} with a limit of {limit:?}: {rules:?}"
                    )));
                }
            }
            Ok(None)
        })
        .await;
    context.record_attack(behavior("ask for a minute", flat(deviation)));
    context.no_host_effect("the time limit does not affect the host");
    Ok(())
}

async fn output_before(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |duration| Call::new(["stubborn", duration]);
    context.host_control(&call("50")).await?;
    context.allow_control(&call("50")).await;
    let result = context.execute(&call("1800")).await.map(|result| {
        let results = result.stdout.bytes == b"before\n";
        match result.outcome {
            Outcome::TimedOut if results => None,
            Outcome::TimedOut => Some(format!("kept {:?}", result.stdout_text())),
            other => Some(format!("the program {other}")),
        }
    });
    context.record_attack(behavior("run into the limit after a line", result));
    context.no_host_effect("output does not affect the host");
    Ok(())
}

async fn stubborn(context: &mut ProbeContext) -> Result<(), ProbeError> {
    limit(
        context,
        Call::new(["sleep", "", "50"]),
        Call::new(["stubborn", "1800"]),
    )
    .await
}
