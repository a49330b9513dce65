//! Host paths that one sandbox swaps while another is created.

use crate::probes::prelude::*;
use crate::probes::{path_uses, swap};

mod second_folder;
mod state_folder;
mod state_shown;

use state_shown::{Access, HIDDEN};

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "two_sandboxes::copy_source",
        FILES,
        "swaps a folder with a link while a file of it is copied into another sandbox",
        swap::STOPPED,
        |context| Box::pin(swap::swap_during_creation(context, path_uses::COPY)),
    ),
    Probe::isolation(
        "two_sandboxes::output",
        ARTIFACT_EXPORT_PATHS,
        "swaps an output folder with a link while artifacts of another sandbox are written there",
        swap::STOPPED,
        |context| Box::pin(swap::swap_during_creation(context, path_uses::OUTPUT)),
    ),
    Probe::isolation(
        "two_sandboxes::read_root",
        FILESYSTEM_READ_ROOTS,
        "swaps the folder above a read root with a link while another sandbox is created with it",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_during_creation(
                context,
                path_uses::inner(path_uses::READ_ROOT),
            ))
        },
    ),
    Probe::behavior(
        "two_sandboxes::second_folder",
        EXEC,
        "creates a sandbox with a folder below the only folder that another one can write to, and \
         below its second one, and compares the answers",
        |context| Box::pin(second_folder::run(context)),
    ),
    Probe::isolation(
        "two_sandboxes::state_folder",
        FILESYSTEM_WRITE_ROOTS,
        "swaps a workspace with the folder of other sandboxes' keys while another sandbox is \
         created with it",
        swap::STOPPED,
        |context| Box::pin(state_folder::run(context)),
    ),
    Probe::isolation(
        "two_sandboxes::state_in_mount",
        DETACHED,
        "reads the folder of other sandboxes' keys below a folder that is mounted at another path",
        HIDDEN,
        |context| Box::pin(state_shown::run(context, Access::Mount)),
    ),
    Probe::isolation(
        "two_sandboxes::state_in_read_root",
        DETACHED,
        "reads the folder of other sandboxes' keys below a read root",
        HIDDEN,
        |context| Box::pin(state_shown::run(context, Access::ReadRoot)),
    ),
    Probe::isolation(
        "two_sandboxes::state_in_workspace",
        DETACHED,
        "reads the folder of other sandboxes' keys below a workspace",
        HIDDEN,
        |context| Box::pin(state_shown::run(context, Access::Workspace)),
    ),
    Probe::isolation(
        "two_sandboxes::state_in_write_root",
        DETACHED,
        "reads the folder of other sandboxes' keys below a write root",
        HIDDEN,
        |context| Box::pin(state_shown::run(context, Access::WriteRoot)),
    ),
    Probe::isolation(
        "two_sandboxes::workspace",
        FILESYSTEM_WRITE_ROOTS,
        "swaps a workspace with a link while another sandbox is created with it",
        swap::STOPPED,
        |context| Box::pin(swap::swap_during_creation(context, path_uses::FOLDER)),
    ),
    Probe::isolation(
        "two_sandboxes::workspace_parent",
        FILESYSTEM_WRITE_ROOTS,
        "swaps the folder above a workspace with a link while another sandbox is created with it",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_during_creation(
                context,
                path_uses::inner(path_uses::FOLDER),
            ))
        },
    ),
    Probe::isolation(
        "two_sandboxes::write_root",
        FILESYSTEM_WRITE_ROOTS,
        "swaps the folder above a write root with a link while another sandbox is created with it",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_during_creation(
                context,
                path_uses::inner(path_uses::WRITE_ROOT),
            ))
        },
    ),
];
