//! Denials reach the caller with their rule, and nothing else is reported as a denial.

use sandbox_core::{Denial, DenialKind, Denials, ExecEvent, ExecResult, Stdin};
use std::time::Duration;

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

mod refused;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "denials::artifact",
        DENIALS,
        "exports a symbolic link, and expects a denial",
        |context| Box::pin(artifact(context)),
    )
    .denials(TOLD)
    .version(2)
    .setup(exporting),
    Probe::behavior(
        "denials::file",
        DENIALS,
        "has the caller fetch a symbolic link, and expects a denial",
        |context| Box::pin(file(context)),
    )
    .denials(TOLD)
    .version(2),
    Probe::behavior(
        "denials::memory",
        DENIALS,
        "uses twice its memory limit, alone and in children, and expects denials",
        |context| Box::pin(memory(context)),
    )
    .denials(TOLD)
    .version(4)
    .setup(|_| SandboxSetup::with(|policy| policy.memory = Some(ByteSize::mib(64)))),
    Probe::behavior(
        "denials::network",
        DENIALS,
        "connects to the host without network access, and expects a denial",
        |context| Box::pin(network(context)),
    )
    .denials(TOLD)
    .version(4),
    Probe::behavior(
        "denials::none",
        DENIALS,
        "forks, executes, connects to itself and fails, and expects no denial",
        |context| Box::pin(none(context)),
    ),
    Probe::behavior(
        "denials::output",
        DENIALS,
        "writes more output than the host keeps, and far more, and expects denials",
        |context| Box::pin(output(context)),
    )
    .denials(TOLD)
    .version(4)
    .setup(|_| SandboxSetup::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(4)))),
    Probe::behavior(
        "denials::process",
        DENIALS,
        "forks where the policy forbids it, and expects a denial",
        |context| Box::pin(process(context)),
    )
    .denials(TOLD)
    .version(4)
    .setup(|_| SandboxSetup::with(|policy| policy.subprocess_execution = Some(false)))
    .allow_setup(plain),
    Probe::behavior(
        "denials::process_limit",
        DENIALS,
        "exceeds its process limit, and expects a denial",
        |context| Box::pin(process_limit(context)),
    )
    .denials(TOLD)
    .version(4)
    .setup(|_| SandboxSetup::with(|policy| policy.pids = Some(16))),
    Probe::behavior(
        "denials::program",
        DENIALS,
        "executes a second program where the policy forbids it, and expects a denial",
        |context| Box::pin(program(context)),
    )
    .denials(TOLD)
    .version(4)
    .setup(|_| SandboxSetup::with(|policy| policy.subprocess_execution = Some(false)))
    .allow_setup(plain),
    Probe::behavior(
        "denials::specification",
        DENIALS,
        "asks for more memory, processors and time to live than the policy allows, and expects denials",
        |context| Box::pin(refused::specification(context)),
    ),
    Probe::behavior(
        "denials::storage",
        DENIALS,
        "has the caller write and copy more than fits into the sandbox, and expects denials",
        |context| Box::pin(refused::storage(context)),
    )
    .denials(TOLD)
    .setup(|_| SandboxSetup::with(|policy| policy.disk = Some(refused::DISK)).fresh()),
    Probe::behavior(
        "denials::timeout",
        DENIALS,
        "exceeds its time limit three times, and expects three denials",
        |context| Box::pin(timeout(context)),
    )
    .denials(TOLD)
    .version(5)
    .setup(|_| SandboxSetup::with(|policy| policy.timeout = Some(Duration::from_secs(1)))),
];

/// How a denial may reach the caller.
const TOLD: &[ExpectedDenial] = &[denied(
    "told",
    "the caller gets a denial that names the rule",
)];

/// Why a probe counts as refused: code was denied, and the caller does not learn of it.
const UNTOLD: &str = "the caller does not learn of the denial: this mechanism does not count them";

/// Runs an attack that must be denied by `rule` and reported as a denial of this kind.
/// `went_through` says whether the attack was not denied.
async fn expect_denial(
    context: &mut ProbeContext,
    call: &Call,
    kind: DenialKind,
    rule: &str,
    went_through: fn(&ExecResult) -> bool,
) {
    let attempt = match context.execute(call).await {
        Err(attempt) => attempt,
        Ok(result) if went_through(&result) && context.is_waived(rule) => {
            context.not_offered(format!("nothing enforces {rule}, so nothing is denied"));
            Attempt::unclear("it was not denied")
        }
        Ok(result) if went_through(&result) => Attempt::Succeeded {
            value: "it was not denied".into(),
        },
        Ok(result) => {
            let of_kind = result.denials.iter().filter(|denial| denial.kind == kind);
            match of_kind.clone().find(|denial| denial.rule == rule) {
                Some(_) => told_again(context, call, kind, rule).await,
                None if of_kind.count() > 0 => {
                    Attempt::unclear(format!("another rule: {:?}", result.denials))
                }
                None => {
                    context.not_offered(UNTOLD);
                    Attempt::blocked(["untold"])
                }
            }
        }
    };
    context.record_attack(Step::new(call.text(), attempt));
    context.no_host_effect("reports do not affect the host");
}

/// Runs the attack as a started execution, which must tell the same, and then a program that must
/// not be blamed for it.
async fn told_again(
    context: &mut ProbeContext,
    call: &Call,
    kind: DenialKind,
    rule: &str,
) -> Attempt {
    let is_it = |denial: &Denial| denial.kind == kind && denial.rule == rule;
    let times = |denials: &Denials| -> u64 {
        let alike = denials.iter().filter(|denial| is_it(denial));
        alike.map(|denial| denial.times).sum()
    };
    let wrong = context
        .with_sandbox(async |sandbox| {
            let handle = sandbox.handle();
            let before = times(&handle.denials());
            let mut execution = handle.start(&sandbox.request(call), Stdin::Null).await?;
            let mut events = Vec::new();
            // Only a wait keeps output, and so leaves some out.
            while kind != DenialKind::Output
                && let Some(event) = execution.next_event().await?
            {
                events.push(event);
            }
            let result = execution.wait().await?;
            let denied = |event: &ExecEvent| matches!(event, ExecEvent::Denied(one) if is_it(one));
            let is_event = kind == DenialKind::Output || events.iter().any(denied);
            let told = times(&result.denials);
            let summed = times(&handle.denials()) - before;
            let unblamed = sandbox.execute(&Call::new(["alive"])).await?.denials;
            let is_right = before > 0 && is_event && told > 0 && summed == told;
            Ok((!is_right || !unblamed.is_empty()).then(|| {
                format!(
                    "started: {:?}; {events:?}; {before} and {summed} times, then {unblamed:?}",
                    result.denials
                )
            }))
        })
        .await;
    match flat(wrong) {
        Ok(None) => Attempt::blocked(["told"]),
        Ok(Some(wrong)) => Attempt::unclear(wrong),
        Err(attempt) => attempt,
    }
}

/// Whether the probe program reports success.
fn says_ok(result: &ExecResult) -> bool {
    result.stdout_text().contains("result=ok") || result.stdout_text().contains("result=value")
}

/// A sandbox that would export links from one folder.
fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let path = format!("{}/*.denied", fixture.export_folder());
    SandboxSetup::with(|policy| policy.artifact_export_paths = vec![path])
}

async fn artifact(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?;
    let name = format!("{}.denied", context.token());
    let link = format!("{}/{name}", context.fixture().export_folder());
    let nowhere = context.inside("nowhere");
    context.host_control(&Call::new(["alive"])).await?;
    context
        .allow_control(&Call::new(["make", &link, "1", &nowhere]))
        .await;
    let attempt = context
        .with_sandbox(async |sandbox| {
            let export = match sandbox.handle().export(&output).await {
                Ok(export) => export,
                Err(error) => return Attempt::unclear(error.to_string()),
            };
            if found_below(&output, &name).is_some() {
                return Attempt::succeeded();
            }
            let is_reported = export
                .denials
                .iter()
                .any(|denial| denial.kind == DenialKind::Artifact && denial.what.contains(&name));
            Attempt::blocked([if is_reported { "told" } else { "untold" }])
        })
        .await;
    let attempt = attempt.unwrap_or_else(|declined| declined);
    if attempt == Attempt::blocked(["untold"]) {
        context.not_offered(UNTOLD);
    }
    context.record_attack(Step::new("export a link", attempt));
    context.no_host_effect("the link's target does not exist");
    Ok(())
}

async fn file(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let (file, link) = (context.inside("file"), context.inside("link"));
    context.host_control(&Call::new(["alive"])).await?;
    context
        .allow_control(&Call::new(["make", &link, "1", &file]))
        .await;
    let attempt = context
        .with_sandbox(async |sandbox| {
            let error = match sandbox.handle().read(&link).await {
                Ok(_) => return Attempt::succeeded(),
                Err(error) => error,
            };
            let is_reported = |denial: &sandbox_core::Denial| denial.kind == DenialKind::FileRead;
            match error.denials().iter().any(is_reported) {
                true => Attempt::blocked(["told"]),
                false => Attempt::unclear(error.to_string()),
            }
        })
        .await;
    context.record_attack(Step::new(
        "fetch the link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    context.no_host_effect("the link's target does not exist");
    Ok(())
}

async fn memory(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |size| Call::new(["memory", size]);
    context.host_control(&call("128")).await?;
    context.allow_control(&call("16")).await;
    let large = call("128");
    expect_denial(
        context,
        &large,
        DenialKind::Memory,
        "memory = 64MiB",
        says_ok,
    )
    .await;
    if context.attack_ended_by("told") {
        // Other processes than the program are killed for it.
        let children = Call::new(["memory-of-children", "8", "32"]);
        let rule = "memory = 64MiB";
        let attempt = told_again(context, &children, DenialKind::Memory, rule).await;
        context.record_attack(Step::new(children.text(), attempt));
    }
    Ok(())
}

async fn network(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let listener = Listener::tcp4().await?;
    // The last address is unassigned, for a host without a network.
    let call = listener.call("tcp", context.token()).and("192.0.2.1/9");
    context.host_control(&call).await?;
    context.allow_control(&Call::new(["tcp-loopback"])).await;
    let rule = "network_access = none";
    expect_denial(context, &call, DenialKind::Network, rule, says_ok).await;
    Ok(())
}

async fn none(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let calls = [
        Call::new(["fork"]),
        Call::new(["execute", ITSELF, "alive"]),
        Call::new(["tcp-loopback"]),
        Call::new(["udp-loopback"]),
        Call::new(["read", "/no/such/file"]),
        Call::new(["exit", "7"]),
        Call::new(["raise", "9"]),
    ];
    context.host_control(&calls[0]).await?;
    context.allow_control(&calls[0]).await;
    let mut is_reported = Ok(None);
    for call in &calls {
        is_reported = match context.execute(call).await {
            Err(attempt) => Err(attempt),
            Ok(result) if result.denials.is_empty() => continue,
            Ok(result) => Ok(Some(format!("{}: {:?}", call.text(), result.denials))),
        };
        break;
    }
    context.record_attack(behavior("run ordinary programs", is_reported));
    context.no_host_effect("reports do not affect the host");
    Ok(())
}

async fn output(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["emit", "5000", "1"]);
    let run = host::run(&context.fixture().program(), &call).await?;
    let failure = (run.stdout_total != 5000).then(|| format!("{} bytes", run.stdout_total));
    context.record_host_control(control("write on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    expect_denial(
        context,
        &call,
        DenialKind::Output,
        "stdout_max_bytes = 4KiB",
        |result| !result.truncated(),
    )
    .await;
    if context.attack_ended_by("told") {
        let killed = context.with_sandbox(async |sandbox| killed_for_output(sandbox).await);
        match flat(killed.await) {
            Ok(None) => {}
            Ok(Some(wrong)) => context.record_attack(Step::new(FLOOD, Attempt::unclear(wrong))),
            Err(attempt) => context.record_attack(Step::new(FLOOD, attempt)),
        }
    }
    Ok(())
}

/// More than any program may write that keeps 4 KiB.
const FLOOD: &str = "emit 70000000 1";

/// A program that is killed for its output is denied once, however its output is read.
async fn killed_for_output(sandbox: &ProbeSandbox) -> Deviation {
    let request = sandbox.request(&Call::new(FLOOD.split(' ')));
    let started = async {
        let mut execution = sandbox.handle().start(&request, Stdin::Null).await?;
        execution.wait().await
    };
    let (executed, waited) = tokio::join!(sandbox.handle().exec(&request), started);
    for result in [executed?, waited?] {
        let (outcome, denials) = (&result.outcome, result.denials.as_slice());
        let is_one = matches!(denials, [one] if one.kind == DenialKind::Output && one.times == 1);
        if !is_one || *outcome != Outcome::OutputLimit || !result.truncated() {
            return Ok(Some(format!("{outcome}: {denials:?}")));
        }
    }
    Ok(None)
}

async fn process(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["fork"]);
    context.host_control(&call).await?;
    context.allow_control(&call).await;
    let rule = "subprocess_execution = false";
    expect_denial(context, &call, DenialKind::Process, rule, says_ok).await;
    Ok(())
}

async fn process_limit(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |count| Call::new(["spawn", count]);
    context.host_control(&call("40")).await?;
    context.allow_control(&call("4")).await;
    let many = call("40");
    expect_denial(
        context,
        &many,
        DenialKind::ProcessLimit,
        "pids = 16",
        says_ok,
    )
    .await;
    Ok(())
}

async fn program(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["execute", ITSELF, "alive"]);
    context.host_control(&call).await?;
    context.allow_control(&call).await;
    let rule = "subprocess_execution = false";
    expect_denial(context, &call, DenialKind::Program, rule, says_ok).await;
    Ok(())
}

async fn timeout(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |duration| Call::new(["stubborn", duration]);
    context.host_control(&call("50")).await?;
    context.allow_control(&call("50")).await;
    let slow = call("1800");
    expect_denial(context, &slow, DenialKind::Time, "timeout = 1s", |result| {
        result.outcome.exit_code().is_some()
    })
    .await;
    if !context.attack_ended_by("told") {
        return Ok(());
    }
    // A repeated denial raises its count: the third one here.
    let counted = context.with_sandbox(async |sandbox| {
        let before = times(&sandbox.handle().denials());
        sandbox.execute(&slow).await?;
        let after = times(&sandbox.handle().denials());
        Ok::<_, sandbox_core::Error>(after.saturating_sub(before))
    });
    match counted.await {
        // Without a sandbox, the first execution has shown why.
        Ok(Ok(1)) | Err(_) => {}
        Ok(Ok(more)) => {
            let value = format!("one more denial raises the count by {more}");
            context.record_attack(Step::new(slow.text(), Attempt::Succeeded { value }));
        }
        Ok(Err(error)) => return Err(error.into()),
    }
    Ok(())
}

fn times(denials: &Denials) -> u64 {
    let of_time = denials
        .iter()
        .filter(|denial| denial.kind == DenialKind::Time);
    of_time.map(|denial| denial.times).sum()
}
