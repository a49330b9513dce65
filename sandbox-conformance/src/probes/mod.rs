//! The probes, by area. Each area has a table of its probes and the code that only they need.

use crate::probe::Probe;

mod admission;
mod adoption;
mod artifacts;
mod audit;
mod code;
mod confined;
mod cpus;
mod denials;
mod detached;
mod disk;
mod egress;
mod environment;
mod exec;
mod files;
mod filesystem;
mod images;
mod kernel;
pub(crate) mod layers;
mod measured;
mod memory;
mod neighbors;
mod network;
mod open_files;
mod output;
mod packages;
mod path_uses;
mod pids;
mod pools;
mod prelude;
mod procedures;
mod processes;
mod records;
mod second_run;
mod sessions;
pub mod signs;
mod storage;
mod streams;
mod subjects;
mod subprocess;
mod swap;
mod swap_fixture;
mod terminal;
mod timeout;
mod two_sandboxes;
mod users;

/// Every probe, sorted by name.
#[must_use]
pub fn all() -> Vec<&'static Probe> {
    let areas: &[&[Probe]] = &[
        admission::PROBES,
        adoption::PROBES,
        artifacts::PROBES,
        audit::PROBES,
        code::PROBES,
        confined::PROBES,
        cpus::PROBES,
        denials::PROBES,
        detached::PROBES,
        disk::PROBES,
        egress::COMPARED,
        egress::PROBES,
        environment::PROBES,
        exec::PROBES,
        files::PROBES,
        filesystem::PROBES,
        images::PROBES,
        kernel::PROBES,
        layers::PROBES,
        memory::PROBES,
        neighbors::PROBES,
        network::PROBES,
        open_files::PROBES,
        output::PROBES,
        packages::PROBES,
        pids::PROBES,
        pools::PROBES,
        processes::PROBES,
        second_run::PROBES,
        sessions::PROBES,
        storage::PROBES,
        streams::PROBES,
        subprocess::PROBES,
        terminal::PROBES,
        timeout::PROBES,
        two_sandboxes::PROBES,
        users::PROBES,
    ];
    let mut probes: Vec<_> = areas.iter().flat_map(|area| area.iter()).collect();
    probes.sort_by_key(|probe| probe.id);
    probes
}
