//! The layers that a report names.
//!
//! Several layers often forbid the same: what one no longer stops the next one does, and no attack shows that the first is gone. So
//! the kernel is asked, from inside or on the host, for each layer that the report of enforcement names. A layer that is not named is
//! not asked for.

use crate::probe::{Denial, Probe, Trouble};
use crate::program::Call;
use crate::stage::Stage;

mod bounding_set;
mod capabilities;
mod container_filter;
mod filter;
mod group;
mod group_pids;
mod group_swap;
mod kernel_settings;
mod landlock;
mod limit_pids;
mod no_new_privileges;
mod own_user;
mod read_only;
mod user_limits;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    bounding_set::PROBE,
    capabilities::PROBE,
    container_filter::PROBE,
    filter::PROBE,
    group_pids::PROBE,
    group_swap::PROBE,
    kernel_settings::PROBE,
    landlock::PROBE,
    limit_pids::PROBE,
    no_new_privileges::PROBE,
    own_user::PROBE,
    read_only::PROBE,
    user_limits::PROBE,
];

/// The layers, by the words of reports.
pub(crate) const NAMES: &[&str] = &[
    BOUNDING_SET,
    CAPABILITIES,
    CONTAINER_FILTER,
    FILTER,
    GROUP_PIDS,
    GROUP_SWAP,
    KERNEL_SETTINGS,
    LANDLOCK,
    LIMIT_PIDS,
    NO_NEW_PRIVILEGES,
    OWN_USER,
    READ_ONLY,
    USER_LIMITS,
];

const BOUNDING_SET: &str = "empty capability bounding set";
/// With "no" or "empty" before it.
const CAPABILITIES: &str = "capabilit";
const CONTAINER_FILTER: &str = "seccomp profile";
const FILTER: &str = "seccomp";
/// Behind the name of control groups.
const GROUP_PIDS: &str = "pids";
const GROUP_SWAP: &str = "swap included";
const KERNEL_SETTINGS: &str = "read-only /proc/sys";
const LANDLOCK: &str = "Landlock";
const LIMIT_PIDS: &str = "RLIMIT_NPROC";
const NO_NEW_PRIVILEGES: &str = "no_new_privs";
const OWN_USER: &str = "own user";
const READ_ONLY: &str = "read-only";
const USER_LIMITS: &str = "limits of inotify";

/// What the kernel says of a process that has the layer.
const fn told(sign: &'static str) -> [Denial; 1] {
    [Denial {
        sign,
        means: "the kernel's own word on the process",
    }]
}

/// A call that succeeds where the layer is missing, as it is on the host.
async fn missing(stage: &mut Stage, layer: &str, call: Call) -> Result<(), Trouble> {
    if named(stage, layer).await? {
        stage.host_control(&call).await?;
        stage.allow_control(&Call::new(["alive"])).await;
        stage.attack(&call).await;
        stage.nothing_to_watch("the kernel is only asked");
    }
    Ok(())
}

/// Whether the report names the layer; where there is no sandbox, the stage knows why.
async fn named(stage: &mut Stage, layer: &str) -> Result<bool, Trouble> {
    match stage.declares(layer).await {
        Ok(true) => Ok(true),
        Ok(false) => Err(Trouble::new(format!(
            "the report does not name it: {layer}"
        ))),
        Err(declined) => {
            stage.attack_was(crate::Step::new(format!("look for {layer}"), declined));
            Ok(false)
        }
    }
}
