//! An abstract unix socket of another sandbox.

use std::time::Duration;

use crate::pool::Sandbox;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "neighbors::unix_abstract",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "connects to an abstract unix socket on which another sandbox listens",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_PEER,
    run: |stage| Box::pin(run(stage)),
};

/// How often a client asks whether the listener is there yet, every 20 ms.
const TRIES: usize = 100;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let name = |place: &str| format!("{}-{place}", stage.token());
    let (on_host, attack) = (name("control"), name("attack"));
    let program = stage.grounds().program();
    let serve =
        |name: &str| Call::new(["unix-serve", name, "200"]).timeout(Duration::from_secs(20));
    let send = |name: &str, message: &str| Call::new(["unix-send", name, message]);
    let server = host::spawn(&program, &serve(&on_host))?;
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
    stage.host_control_was(control(
        "connect to an abstract socket on the host",
        failure,
    ));
    let steps = stage
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
                // Where nobody listens the program has ended by itself.
                attempted(own, &send(&attack, "end")).await;
                (within, beside, from_host)
            };
            tokio::join!(own.run(&serving), tries).1
        })
        .await;
    let action = send(&attack, "unix").text();
    match steps {
        Ok((within, beside, from_host)) => {
            stage.allow_control_was(Step::new(action.clone(), within));
            stage.attack_was(Step::new(action, beside));
            let reached = from_host?.attempt(None).is_success();
            stage.watched("the sandbox's socket, from the host", !reached);
        }
        Err(declined) => stage.attack_was(Step::new(action, declined)),
    }
    Ok(())
}

async fn attempted(sandbox: &Sandbox, call: &Call) -> Attempt {
    match sandbox.run(call).await {
        Ok(run) => run.attempt(None),
        Err(error) => Attempt::unclear(error.to_string()),
    }
}
