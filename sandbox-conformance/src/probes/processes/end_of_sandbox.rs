//! The processes of a sandbox after its end.

use crate::probes::prelude::*;

pub(super) const GONE_WITH_IT: &[ExpectedDenial] =
    &[denied("gone", "every process ends with the sandbox")];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let sleep = |token: &str| Call::new(["sleep", token, "3000"]);
    let control_token = format!("{}-control", context.token());
    let child = host::spawn(&context.fixture().program(), &sleep(&control_token)).await?;
    let seen = host::wait_for_process(&control_token).await?.is_some();
    drop(child);
    let failure = (!seen).then(|| "the host's process was not seen".to_owned());
    context.record_host_control(control("see a process of the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let token = format!("{}-attack", context.token());
    let ended = context
        .with_sandbox(async |sandbox| {
            let call = sleep(&token);
            let end = async {
                let seen = host::wait_for_process(&token).await?.is_some();
                sandbox.handle().kill().await?;
                let left = host::wait_until_gone(&token, GONE).await?;
                Ok::<_, ProbeError>((seen, left))
            };
            // How the execution ends is not tested here.
            let (_, ended) = tokio::join!(sandbox.run(&call), end);
            ended
        })
        .await;
    let step = match ended {
        Ok(ended) => {
            let (seen, left) = ended?;
            context.check_host(
                "processes of the host after the sandbox's end",
                left.is_empty(),
            );
            host::kill_all_with(&token)?;
            if seen {
                Attempt::leak_if(!left.is_empty(), "gone")
            } else {
                Attempt::unclear("the sandbox's process was never seen on the host")
            }
        }
        Err(attempt) => attempt,
    };
    context.record_attack(Step::new(sleep(&token).text(), step));
    Ok(())
}
