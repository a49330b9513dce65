//! Isolation from another sandbox with the same policy.

use crate::context::recorded;
use crate::host_fixture::random_name;
use crate::probes::prelude::*;
use crate::program::Run;

mod unix_abstract;
mod user;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "neighbors::message_queue",
        PROCESSES,
        "opens a message queue that another sandbox created",
        UNSHARED,
        |context| Box::pin(message_queue(context)),
    ),
    Probe::isolation(
        "neighbors::shared_memory_folder",
        FILESYSTEM_READ_ROOTS,
        "opens a file that another sandbox created in /dev/shm",
        UNSHARED,
        |context| Box::pin(shared_memory_folder(context)),
    ),
    Probe::isolation(
        "neighbors::system_v_memory",
        PROCESSES,
        "looks for System V shared memory that another sandbox created under a known key",
        UNSHARED,
        |context| Box::pin(system_v_memory(context)),
    ),
    Probe::isolation(
        "neighbors::temporary_folder",
        FILESYSTEM_READ_ROOTS,
        "opens a file that another sandbox created in /tmp",
        UNSHARED,
        |context| Box::pin(temporary_folder(context)),
    ),
    Probe::isolation(
        "neighbors::unix_abstract",
        NETWORK_ACCESS,
        "connects to an abstract unix socket on which another sandbox listens",
        signs::NO_SUCH_PEER,
        |context| Box::pin(unix_abstract::run(context)),
    ),
    Probe::behavior(
        "neighbors::user",
        PROCESSES,
        "compares the host users of two sandboxes, which must differ",
        |context| Box::pin(user::run(context)),
    ),
];

/// The object of one sandbox must not exist in another. An existing object without permission would
/// still be shared.
const UNSHARED: &[ExpectedDenial] = &[denied("ENOENT", "each sandbox has its own")];

/// One sandbox creates an object that any process could find by its name. Another execution there
/// must find it. The neighbor and the host must not.
async fn shared(
    context: &mut ProbeContext,
    kind: &str,
    control: &str,
    name: &str,
) -> Result<(), ProbeError> {
    let program = context.fixture().program();
    let on_host = async |order: &str, name: &str| {
        let run = host::run(&program, &Call::new([order, kind, name])).await?;
        Ok::<_, ProbeError>(run.attempt(None))
    };
    let made = on_host("share", control).await?;
    let found = on_host("shared", control).await?;
    let removed = on_host("unshare", control).await?;
    let failure = [made, found, removed]
        .into_iter()
        .find(|attempt| !attempt.is_success())
        .map(|attempt| format!("{attempt:?}"));
    context.record_host_control(super::procedures::control(
        &format!("share a {kind} on the host"),
        failure,
    ));
    let (share, find) = (
        Call::new(["share", kind, name]),
        Call::new(["shared", kind, name]),
    );
    let unshare = Call::new(["unshare", kind, name]);
    let steps = context
        .with_neighbors(async |own, neighbor| {
            let made = own.run(&share).await.map(|run| run.attempt(None));
            let within = match made {
                Ok(Attempt::Succeeded { .. }) => step(&find, own.run(&find).await),
                other => Step::new(share.text(), Attempt::unclear(format!("{other:?}"))),
            };
            let beside = step(&find, neighbor.run(&find).await);
            let on_host = on_host("shared", name).await;
            // Without a created object there is nothing to remove.
            let removed = match within.attempt.is_success() {
                true => own.run(&unshare).await.map(|run| run.attempt(None)),
                false => Ok(Attempt::succeeded()),
            };
            (within, beside, on_host, removed)
        })
        .await;
    match steps {
        Ok((within, beside, on_host, removed)) => {
            context.record_allow_control(within);
            context.record_attack(beside);
            context.check_host(format!("{kind} {name} on the host"), !on_host?.is_success());
            if !removed?.is_success() {
                return Err(ProbeError::new(format!(
                    "{kind} {name} could not be removed"
                )));
            }
        }
        Err(declined) => context.record_attack(Step::new(find.text(), declined)),
    }
    Ok(())
}

fn step(call: &Call, run: sandbox_core::Result<Run>) -> Step {
    match run {
        Ok(run) => recorded(call, run.attempt(call.expected.as_deref()), &run),
        Err(error) => Step::new(call.text(), Attempt::unclear(error.to_string())),
    }
}

async fn message_queue(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let name = |place: &str| format!("{}-{place}", context.token());
    let (control, attack) = (name("control"), name("attack"));
    shared(context, "queue", &control, &attack).await
}

async fn shared_memory_folder(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = |place: &str| format!("/dev/shm/{}-{place}", context.token());
    let (control, attack) = (path("control"), path("attack"));
    shared(context, "file", &control, &attack).await
}

async fn system_v_memory(context: &mut ProbeContext) -> Result<(), ProbeError> {
    // Keys are signed 32-bit numbers, and 0 is not a key.
    let key = || {
        let random = u32::from_str_radix(&random_name()[..8], 16).map(|key| key >> 1 | 1);
        random.map(|key| key.to_string())
    };
    let (control, attack) = (key()?, key()?);
    shared(context, "memory", &control, &attack).await
}

async fn temporary_folder(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = |place: &str, context: &ProbeContext| context.inside(place);
    let (control, attack) = (path("control", context), path("attack", context));
    shared(context, "file", &control, &attack).await
}
