//! Devices of the host.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::host_devices",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "opens disks, the kernel's log, virtualisation and network devices for writing",
    setting: plain,
    permitting: None,
    denials: DEVICES,
    run: |stage| {
        Box::pin(kernel_call(
            stage,
            Call::new([
                "open-for-writing",
                "/dev/vda",
                "/dev/sda",
                "/dev/nvme0n1",
                "/dev/mem",
                "/dev/kmsg",
                "/dev/kvm",
                "/dev/fuse",
                "/dev/loop-control",
                "/dev/net/tun",
            ]),
        ))
    },
};

const DEVICES: &[Denial] = &[
    Denial {
        sign: "ENOENT",
        means: "the sandbox's file system does not hold it",
    },
    Denial {
        sign: "EACCES",
        means: "nodev mount, Landlock, or permissions",
    },
    Denial {
        sign: "EPERM",
        means: "device cgroup",
    },
    Denial {
        sign: "EROFS",
        means: "read-only mount",
    },
];
