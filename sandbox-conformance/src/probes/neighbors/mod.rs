//! Another sandbox of the same backend under the same policy.

use crate::probe::Probe;
use crate::probes::prelude::*;
use crate::program::Run;
use crate::stage::recorded;

mod message_queue;
mod shared_memory_folder;
mod system_v_memory;
mod temporary_folder;
mod unix_abstract;
mod user;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    message_queue::PROBE,
    shared_memory_folder::PROBE,
    system_v_memory::PROBE,
    temporary_folder::PROBE,
    unix_abstract::PROBE,
    user::PROBE,
];

/// What one sandbox made is not there in another: the kernel's word for it, and no other. A thing that is there and may not be
/// opened would be shared all the same.
const UNSHARED: &[Denial] = &[Denial {
    sign: "ENOENT",
    means: "each sandbox has its own",
}];

/// One sandbox makes a thing, of which every process that knows its name could take hold. Another execution there finds it;
/// the sandbox beside it and the host do not.
async fn shared(stage: &mut Stage, kind: &str, control: &str, name: &str) -> Result<(), Trouble> {
    let program = stage.grounds().program();
    let on_host = async |order: &str, name: &str| {
        let run = host::run(&program, &Call::new([order, kind, name])).await?;
        Ok::<_, Trouble>(run.attempt(None))
    };
    let made = on_host("share", control).await?;
    let found = on_host("shared", control).await?;
    let removed = on_host("unshare", control).await?;
    let failure = [made, found, removed]
        .into_iter()
        .find(|attempt| !attempt.is_success())
        .map(|attempt| format!("{attempt:?}"));
    stage.host_control_was(super::shapes::control(
        &format!("share a {kind} on the host"),
        failure,
    ));
    let (share, find) = (
        Call::new(["share", kind, name]),
        Call::new(["shared", kind, name]),
    );
    let unshare = Call::new(["unshare", kind, name]);
    let steps = stage
        .with_neighbors(async |own, neighbor| {
            let made = own.run(&share).await.map(|run| run.attempt(None));
            let within = match made {
                Ok(Attempt::Succeeded { .. }) => step(&find, own.run(&find).await),
                other => Step::new(share.text(), Attempt::unclear(format!("{other:?}"))),
            };
            let beside = step(&find, neighbor.run(&find).await);
            let on_host = on_host("shared", name).await;
            // Where it was never made there is nothing to remove.
            let removed = match within.attempt.is_success() {
                true => own.run(&unshare).await.map(|run| run.attempt(None)),
                false => Ok(Attempt::succeeded()),
            };
            (within, beside, on_host, removed)
        })
        .await;
    match steps {
        Ok((within, beside, on_host, removed)) => {
            stage.allow_control_was(within);
            stage.attack_was(beside);
            stage.watched(format!("{kind} {name} on the host"), !on_host?.is_success());
            if !removed?.is_success() {
                return Err(Trouble::new(format!("{kind} {name} could not be removed")));
            }
        }
        Err(declined) => stage.attack_was(Step::new(find.text(), declined)),
    }
    Ok(())
}

fn step(call: &Call, run: sandbox_core::Result<Run>) -> Step {
    match run {
        Ok(run) => recorded(call, run.attempt(call.expected.as_deref()), &run),
        Err(error) => Step::new(call.text(), Attempt::unclear(error.to_string())),
    }
}
