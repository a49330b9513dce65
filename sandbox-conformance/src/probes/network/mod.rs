//! The network.

use crate::probe::Probe;

mod netlink_audit;
mod netlink_diag;
mod packet_socket;
mod raw_socket;
mod tcp4_host_listener;
mod tcp6_host_listener;
mod udp4_host_listener;
mod unix_abstract;
mod unix_abstract_full;
mod unix_path_outside;
mod unix_path_read_root;
mod unix_path_write_root;
mod vsock;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    netlink_audit::PROBE,
    netlink_diag::PROBE,
    packet_socket::PROBE,
    raw_socket::PROBE,
    tcp4_host_listener::PROBE,
    tcp6_host_listener::PROBE,
    udp4_host_listener::PROBE,
    unix_abstract::PROBE,
    unix_abstract_full::PROBE,
    unix_path_outside::PROBE,
    unix_path_read_root::PROBE,
    unix_path_write_root::PROBE,
    vsock::PROBE,
];
