//! Communication between the processes of one sandbox.

use crate::probes::prelude::*;
use crate::program::Run;

/// What works without System V objects, which the host's own namespace would share.
const ALWAYS: &str = "pipe,unix,memory";
const ALL: &str = "pipe,unix,memory,segment,queue,semaphore";

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["communicate"]);
    let on_host = host::run(&context.fixture().program(), &call).await?;
    let works = on_host.attempt(Some(ALL)).is_success();
    let failure = (!works).then(|| format!("{:?}", on_host.attempt(None)));
    context.record_host_control(control("communicate on the host", failure));
    context.allow_control(&Call::new(["fork"])).await;
    let found = context.execute(&call).await.map(Run::from);
    let deviation = found.map(|run| match run.attempt(None) {
        Attempt::Succeeded { value } if value == ALL => None,
        Attempt::Succeeded { value } if value == ALWAYS => {
            context.not_offered("System V objects are refused");
            None
        }
        other => Some(format!("{other:?}")),
    });
    context.record_attack(behavior("communicate with a child", deviation));
    context.no_host_effect("the objects have no names");
    Ok(())
}
