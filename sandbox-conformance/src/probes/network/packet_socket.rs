//! Frames of the network, past every address.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::packet_socket",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "opens a packet socket",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_SOCKET,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["tcp-loopback"]),
            Call::new(["packet"]),
        ))
    },
};
