//! The list of all sockets.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::netlink_diag",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "binds a netlink socket for socket diagnostics",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_SOCKET,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["netlink", "0"]),
            Call::new(["netlink", "4"]),
        ))
    },
};
