//! Another execution of the same sandbox, whose limits an attack changes.

use crate::probes::prelude::*;

/// How long the other execution runs, in milliseconds.
const WAIT: &str = "2500";

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let program = context.fixture().program();
    let control = context.outside()?.join(format!("{}-pid", context.token()));
    let wait = |path: &std::path::Path| Call::new(["undisturbed"]).and(path).and(WAIT);
    let disturb = |path: &std::path::Path| Call::new(["disturb"]).and(path);
    let other = host::spawn(&program, &wait(&control)).await?;
    context.host_control(&disturb(&control)).await?;
    drop(other);
    context.allow_control(&Call::new(["disturb-itself"])).await;
    let path = std::path::PathBuf::from(context.inside("pid"));
    let (wait, disturb) = (wait(&path), disturb(&path));
    let runs = context
        .with_sandbox(async |sandbox| tokio::join!(sandbox.run(&wait), sandbox.run(&disturb)))
        .await;
    match runs {
        Ok((other, attack)) => {
            let attack = attack?;
            let attempt = attack.attempt(None);
            context.record_attack(crate::context::recorded(&disturb, attempt, &attack));
            context.check_host(
                "the other execution's own report",
                other?.attempt(None).is_success(),
            );
        }
        Err(declined) => context.record_attack(Step::new(disturb.text(), declined)),
    }
    Ok(())
}
