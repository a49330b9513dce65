//! An execution that the caller drops or kills.

use sandbox_core::{ErrorKind, Stdin, TerminalSize};

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

pub(super) const GONE_WITH_IT: &[ExpectedDenial] =
    &[denied("gone", "dropping an execution kills its whole tree")];

/// What the caller drops, or that it kills the execution.
#[derive(Debug, Clone, Copy)]
enum Way {
    Execution,
    OnTerminal,
    Future,
    FutureWithInput,
    Kill,
}

const WAYS: [Way; 5] = [
    Way::Execution,
    Way::OnTerminal,
    Way::Future,
    Way::FutureWithInput,
    Way::Kill,
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let control_token = format!("{}-control", context.token());
    let program = context.fixture().program();
    let mut child = host::spawn(&program, &tree(&control_token)).await?;
    let started = wait_for(&control_token).await?;
    child.kill().await?;
    let left = host::processes_with(&control_token)?;
    host::kill_all_with(&control_token)?;
    let failure = (!started || left.is_empty()).then(|| "nothing continues".to_owned());
    context.record_host_control(control(
        "kill the first process of a tree on the host",
        failure,
    ));
    context.allow_control(&Call::new(["alive"])).await;
    let token = format!("{}-attack", context.token());
    let attempt = context
        .with_sandbox(async |sandbox| each_way(sandbox, &token).await)
        .await;
    host::kill_all_with(&token)?;
    let attempt = attempt.unwrap_or_else(Ok)?;
    context.check_host(
        "processes of the host after the execution was dropped",
        !attempt.is_success(),
    );
    context.record_attack(Step::new(tree(&token).text(), attempt));
    Ok(())
}

fn tree(token: &str) -> Call {
    Call::new(["tree", token, "5", "2500"])
}

/// Gives up executions in each way, and looks for their trees.
async fn each_way(sandbox: &ProbeSandbox, token: &str) -> Result<Attempt, ProbeError> {
    for way in WAYS {
        let token = format!("{token}-{way:?}");
        if let Some(unclear) = given_up(sandbox, way, &token).await? {
            return Ok(unclear);
        }
        let left = host::wait_until_gone(&token, GONE).await?;
        if !left.is_empty() {
            let value = format!("{way:?}: {} processes are left", left.len());
            return Ok(Attempt::Succeeded { value });
        }
    }
    Ok(Attempt::blocked(["gone"]))
}

/// Starts a tree, and gives it up once the host sees it. Says why it could not be seen.
async fn given_up(
    sandbox: &ProbeSandbox,
    way: Way,
    token: &str,
) -> Result<Option<Attempt>, ProbeError> {
    let request = sandbox.request(&tree(token));
    let (_open, input) = tokio::io::duplex(64);
    let stdin = match way {
        Way::FutureWithInput => Stdin::from_reader(input),
        _ => Stdin::Null,
    };
    let is_seen = match way {
        Way::Future | Way::FutureWithInput => tokio::select! {
            ended = sandbox.handle().exec_with(&request, stdin, |_, _| {}) => {
                return Ok(Some(Attempt::unclear(format!("it ended: {ended:?}"))));
            }
            is_seen = wait_for(token) => is_seen?,
        },
        Way::Execution | Way::OnTerminal | Way::Kill => {
            let request = match way {
                Way::OnTerminal => request.terminal(TerminalSize::default()),
                _ => request,
            };
            let mut execution = match sandbox.handle().start(&request, stdin).await {
                // A backend may have no terminals.
                Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
                started => started?,
            };
            let is_seen = wait_for(token).await?;
            if matches!(way, Way::Kill) {
                execution.kill().await;
                execution.wait().await?;
            }
            is_seen
        }
    };
    Ok((!is_seen).then(|| Attempt::unclear(format!("{way:?}: the tree did not start"))))
}

/// Waits until the host sees the whole process tree.
async fn wait_for(token: &str) -> Result<bool, ProbeError> {
    for _ in 0..200 {
        if host::processes_with(token)?.len() > 5 {
            return Ok(true);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(false)
}
