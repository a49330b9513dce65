//! Sockets of virtual machines, which no network namespace separates.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::vsock",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "binds a port for virtual machine sockets",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_SOCKET,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["tcp-loopback"]),
            Call::new(["vsock"]),
        ))
    },
};
