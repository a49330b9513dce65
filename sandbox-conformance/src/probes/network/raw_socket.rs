//! Packets with headers of one's own.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::raw_socket",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "opens a raw ICMP socket",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_SOCKET,
    run: |stage| {
        Box::pin(same_call(
            stage,
            Call::new(["tcp-loopback"]),
            Call::new(["raw"]),
        ))
    },
};
