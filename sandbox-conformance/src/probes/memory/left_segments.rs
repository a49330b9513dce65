//! Memory that an execution leaves behind for the next one.

use crate::grounds::random_name;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "memory::left_segments",
    version: 1,
    subject: Subject::Capability(Capability::Memory),
    kind: Kind::Isolation,
    summary: "leaves a System V segment of 24 MiB behind, and makes another one in the next execution, with a limit of 32 MiB",
    // What is left would be missed by others.
    setting: |grounds| super::small(grounds).fresh(),
    permitting: None,
    denials: LIMITED,
    run: |stage| Box::pin(run(stage)),
};

const LIMITED: &[Denial] = &[
    Denial {
        sign: "out_of_memory",
        means: "memory limit of the sandbox",
    },
    Denial {
        sign: "ENOMEM",
        means: "memory limit of the process",
    },
    Denial {
        sign: "ENOSPC",
        means: "limit of the IPC namespace",
    },
    Denial {
        sign: "EPERM",
        means: "seccomp: there are no such segments",
    },
    Denial {
        sign: "removed",
        means: "what an execution leaves is gone with it",
    },
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    // Keys are signed numbers of 32 bits; 0 is no key.
    let key = || {
        let random = u32::from_str_radix(&random_name()[..8], 16).map(|key| key >> 1 | 1);
        random.map(|key| key.to_string())
    };
    let (first, second) = (key()?, key()?);
    let segment = |key: &str| Call::new(["segment", key, "24"]);
    let program = stage.grounds().program();
    host::run(&program, &segment(&first)).await?;
    stage.host_control(&segment(&second)).await?;
    unshare(stage, &[&first, &second]).await?;
    stage.allow_control(&Call::new(["alive"])).await;
    stage.attack(&segment(&first)).await;
    // Where there are no such segments at all, the first execution says so.
    if stage.attack_went_through() && stage.attack(&segment(&second)).await.is_success() {
        let find = Call::new(["shared", "memory", &first]);
        let gone = stage.execute(&find).await.map(|result| {
            let attempt = crate::program::Run::from(result).attempt(None);
            !attempt.is_success()
        });
        if gone == Ok(true) {
            stage.attack_was(Step::new(find.text(), Attempt::blocked(["removed"])));
        }
    }
    // Where the segments are the host's.
    unshare(stage, &[&first, &second]).await?;
    stage.end_sandbox().await?;
    stage.nothing_to_watch("the limit is the sandbox's own");
    Ok(())
}

async fn unshare(stage: &Stage, keys: &[&str]) -> Result<(), Trouble> {
    for key in keys {
        let call = Call::new(["unshare", "memory", key]);
        host::run(&stage.grounds().program(), &call).await?;
    }
    Ok(())
}
