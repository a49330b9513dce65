//! Memory.

use crate::probes::prelude::*;

mod huge_pages;
mod left_segments;
mod many_processes;
mod one_process;
mod pipes;
mod reported;
mod sockets;
mod unmapped;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    huge_pages::PROBE,
    left_segments::PROBE,
    many_processes::PROBE,
    one_process::PROBE,
    pipes::PROBE,
    reported::PROBE,
    sockets::PROBE,
    unmapped::PROBE,
];

/// A limit under which what an ordinary user may hold in pipes, 64 MiB, does not fit.
fn small(_: &Grounds) -> Setting {
    Setting::with(|policy| policy.memory = Some(ByteSize::mib(32)))
}

/// How memory may be denied that the kernel holds in buffers.
const HELD_BY_KERNEL: &[Denial] = &[
    Denial {
        sign: "out_of_memory",
        means: "memory limit of the sandbox",
    },
    Denial {
        sign: "ENOMEM",
        means: "memory limit of the sandbox",
    },
    Denial {
        sign: "ENOBUFS",
        means: "memory limit of the sandbox",
    },
    Denial {
        sign: "EMFILE",
        means: "limit of open files: each holds too little",
    },
    Denial {
        sign: "EPERM",
        means: "seccomp: there are no such buffers",
    },
];
