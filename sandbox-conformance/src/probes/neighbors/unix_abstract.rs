//! An abstract Unix socket of another sandbox.

use std::time::Duration;

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// The number of times that a client tries to connect, every 20 ms.
const TRIES: usize = 100;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let name = |place: &str| format!("{}-{place}", context.token());
    let (on_host, attack) = (name("control"), name("attack"));
    let program = context.fixture().program();
    let serve =
        |name: &str| Call::new(["unix-serve", name, "200"]).timeout(Duration::from_secs(20));
    let send = |name: &str, message: &str| Call::new(["unix-send", name, message]);
    let server = host::spawn(&program, &serve(&on_host)).await?;
    let mut reached = Attempt::unclear("never tried");
    for _ in 0..TRIES {
        let run = host::run(&program, &send(&on_host, "unix")).await?;
        reached = run.attempt(None);
        if reached.is_success() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(server);
    let failure = (!reached.is_success()).then(|| format!("{reached:?}"));
    context.record_host_control(control(
        "connect to an abstract socket on the host",
        failure,
    ));
    let steps = context
        .with_neighbors(async |own, neighbor| {
            let serving = serve(&attack);
            let tries = async {
                let mut within = Attempt::unclear("never tried");
                for _ in 0..TRIES {
                    within = attempted(own, &send(&attack, "unix")).await;
                    if within.is_success() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                let beside = attempted(neighbor, &send(&attack, "unix")).await;
                let from_host = host::run(&program, &send(&attack, "unix")).await;
                // The program ends by itself if no client connects.
                attempted(own, &send(&attack, "end")).await;
                (within, beside, from_host)
            };
            tokio::join!(own.run(&serving), tries).1
        })
        .await;
    let action = send(&attack, "unix").text();
    match steps {
        Ok((within, beside, from_host)) => {
            context.record_allow_control(Step::new(action.clone(), within));
            context.record_attack(Step::new(action, beside));
            let reached = from_host?.attempt(None).is_success();
            context.check_host("the sandbox's socket, from the host", !reached);
        }
        Err(declined) => context.record_attack(Step::new(action, declined)),
    }
    Ok(())
}

async fn attempted(sandbox: &ProbeSandbox, call: &Call) -> Attempt {
    match sandbox.run(call).await {
        Ok(run) => run.attempt(None),
        Err(error) => Attempt::unclear(error.to_string()),
    }
}
