//! Files of the host.

use crate::probe::Probe;

mod attributes;
mod create_in_read_root;
mod device_node;
mod hard_link;
mod proc_roots;
mod reach_by_rename;
mod read_home;
mod read_outside;
mod read_private;
mod read_shadow;
mod remount;
mod symlink;
mod unmount;
mod write_outside;
mod write_read_root;
mod write_root_is_the_hosts;
mod write_system;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    attributes::PROBE,
    create_in_read_root::PROBE,
    device_node::PROBE,
    hard_link::PROBE,
    proc_roots::PROBE,
    reach_by_rename::PROBE,
    read_home::PROBE,
    read_outside::PROBE,
    read_private::PROBE,
    read_shadow::PROBE,
    remount::PROBE,
    symlink::PROBE,
    unmount::PROBE,
    write_outside::PROBE,
    write_read_root::PROBE,
    write_root_is_the_hosts::PROBE,
    write_system::PROBE,
];
