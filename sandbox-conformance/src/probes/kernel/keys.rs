//! Keys that the kernel keeps for users.

use crate::probes::prelude::*;

pub(super) const UNSEEN: &[ExpectedDenial] = &[
    denied("absent", "key of another user"),
    denied("EACCES", "masked, or Landlock"),
    denied(
        "ENOENT",
        "the sandbox's file system does not contain the list",
    ),
];

pub(super) const HIDDEN: &[ExpectedDenial] = &[
    denied("masked", "a file of another file system is mounted over it"),
    denied(
        "ENOENT",
        "the sandbox's file system does not contain the list",
    ),
];

/// Succeeds where the list is the kernel's own file.
pub(super) fn shown() -> Call {
    Call::new(["unmasked", "/proc/keys"])
}

pub(super) async fn names(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let name = format!("sandbox-probe-{}", context.token());
    // The key expires after a minute.
    let added = host::run(&context.fixture().program(), &Call::new(["add-key", &name])).await?;
    if !added.attempt(None).is_success() {
        return Err(ProbeError::new("the host's kernel accepts no key"));
    }
    same_call(
        context,
        Call::new(["alive"]),
        Call::new(["key-shown", name.as_str()]),
    )
    .await
}
