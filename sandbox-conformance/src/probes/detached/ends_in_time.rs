//! A detached sandbox whose time to live is over.

use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, SandboxClient, SandboxState};

use crate::evidence::Attempt;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "detached::ends_in_time",
    version: 2,
    subject: Subject::Feature(Feature::Detached),
    kind: Kind::Behavior,
    summary: "gives a detached sandbox some seconds to live, and looks for what is left after them",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

/// Times to live, each tried where the one before was over before code ran: a tier may count from when it begins to make a
/// sandbox, and a cluster takes seconds for that. All are below an execution's own time limit.
const LIFETIMES: [Duration; 3] = [
    Duration::from_secs(3),
    Duration::from_secs(9),
    Duration::from_secs(25),
];

/// How much earlier than its time the end may come: clusters count from a whole second.
const EARLY: Duration = Duration::from_secs(1);

/// How much later it may come: a kubelet looks every second or so, and has more to do.
const LATE: Duration = Duration::from_secs(9);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    super::controls(stage).await?;
    let token = format!("{}-attack", stage.token());
    let told = end_in_time(stage, &token).await?;
    stage.attack_was(behavior("wait for its end", told));
    stage.watched(
        "processes of the host after the time to live",
        host::processes_with(&token)?.is_empty(),
    );
    Ok(())
}

async fn end_in_time(
    stage: &mut Stage,
    token: &str,
) -> Result<Result<Option<String>, Attempt>, Trouble> {
    let mut told = Err(Trouble::new("no time to live was tried"));
    for lifetime in LIFETIMES {
        let start = Instant::now();
        let mut entered = false;
        told = super::in_detached(stage, lifetime, async |sandbox, name, client| {
            let mut execution = super::busy(&sandbox, token).await?;
            entered = true;
            // How the execution ends with its sandbox is not the question here.
            let ended = tokio::time::timeout(lifetime + LATE, execution.wait()).await;
            if ended.is_err() {
                return Ok(Some(format!("it still lives after {:?}", start.elapsed())));
            }
            left(client, name, token).await
        })
        .await;
        if entered || start.elapsed() + EARLY < lifetime {
            break;
        }
    }
    told
}

/// What is wrong with what is left. A tier may keep what tells that the sandbox has ended; then it says so, and removes it.
async fn left(client: &SandboxClient, name: &str, token: &str) -> Result<Option<String>, Trouble> {
    if let Err(error) = client.get(name).await
        && error.kind() == ErrorKind::SandboxEnded
    {
        let listed = client.list().await?;
        let mut ours = listed.iter().filter(|info| info.name == name);
        if ours.any(|info| info.state != SandboxState::Ended) {
            return Ok(Some("it is listed as one that has not ended".to_owned()));
        }
        super::remove(client, name).await?;
    }
    super::remains(client, name, token).await
}
