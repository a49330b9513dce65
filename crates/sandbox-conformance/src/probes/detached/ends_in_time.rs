//! A detached sandbox whose time to live is over.

use std::time::{Duration, Instant};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "detached::ends_in_time",
    version: 1,
    subject: Subject::Feature(Feature::Detached),
    kind: Kind::Behavior,
    summary: "gives a detached sandbox 3 s to live, and looks for what is left",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

const SHORT: Duration = Duration::from_secs(3);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let token = format!("{}-attack", stage.token());
    super::with_detached(
        stage,
        "wait for its end",
        SHORT,
        async |sandbox, name, client| {
            let start = Instant::now();
            let mut execution = super::busy(&sandbox, &token).await?;
            // How the execution ends with its sandbox is not the question here.
            let ended = tokio::time::timeout(4 * SHORT, execution.wait())
                .await
                .is_ok();
            if !ended {
                return Ok(Some(format!("it still lives after {:?}", start.elapsed())));
            }
            super::remains(client, name, &token).await
        },
    )
    .await?;
    stage.watched(
        "processes of the host after the time to live",
        host::processes_with(&token)?.is_empty(),
    );
    Ok(())
}
