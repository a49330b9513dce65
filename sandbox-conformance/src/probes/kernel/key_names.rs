//! The names of the caller's keys, which often say for which account a token is.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::key_names",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "looks in /proc/keys for a key that the host has just added to its user's key ring",
    setting: plain,
    permitting: None,
    denials: UNSEEN,
    run: |stage| Box::pin(run(stage)),
};

const UNSEEN: &[Denial] = &[
    Denial {
        sign: "absent",
        means: "key of another user",
    },
    Denial {
        sign: "EACCES",
        means: "masked, or Landlock",
    },
    Denial {
        sign: "ENOENT",
        means: "the sandbox's file system does not hold the list",
    },
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let name = format!("sandbox-probe-{}", stage.token());
    // It goes by itself after a minute.
    let added = host::run(&stage.grounds().program(), &Call::new(["add-key", &name])).await?;
    if !added.attempt(None).is_success() {
        return Err(Trouble::new("the host takes no key"));
    }
    same_call(
        stage,
        Call::new(["alive"]),
        Call::new(["key-shown", name.as_str()]),
    )
    .await
}
