//! Files of the host.

use crate::canary::Canary;
use crate::probes::prelude::*;

mod attributes;
mod cluster_token;
mod create_in_read_root;
mod device_node;
mod file_flags;
mod hard_link;
mod proc_roots;
mod reach_by_rename;
mod read_home;
mod read_outside;
mod read_private;
mod read_shadow;
mod remount;
mod set_group_id;
mod symlink;
mod unmount;
mod whiteout;
mod write_outside;
mod write_read_root;
mod write_root_is_the_hosts;
mod write_system;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    attributes::PROBE,
    cluster_token::PROBE,
    create_in_read_root::PROBE,
    device_node::PROBE,
    file_flags::PROBE,
    hard_link::PROBE,
    proc_roots::PROBE,
    reach_by_rename::PROBE,
    read_home::PROBE,
    read_outside::PROBE,
    read_private::PROBE,
    read_shadow::PROBE,
    remount::PROBE,
    set_group_id::PROBE,
    symlink::PROBE,
    unmount::PROBE,
    whiteout::PROBE,
    write_outside::PROBE,
    write_read_root::PROBE,
    write_root_is_the_hosts::PROBE,
    write_system::PROBE,
];

/// Reads a canary that no setting grants; the probe program, which is there, can be read.
async fn read(stage: &mut Stage, canary: &Canary) -> Result<(), Trouble> {
    let read = Call::new(["read"])
        .and(canary.path())
        .expect(canary.fingerprint());
    stage.host_control(&read).await?;
    stage.allow_control(&Call::new(["read", ITSELF])).await;
    stage.attack(&read).await;
    stage.oracle(canary.oracle());
    Ok(())
}
