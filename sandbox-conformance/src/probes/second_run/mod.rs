//! Host paths that an earlier run has replaced.

use crate::probes::prelude::*;
use crate::probes::{path_uses, swap};

mod fifo;
mod nested_read_root;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "second_run::copy_source",
        FILES,
        "replaces a folder with a link before a file of it is copied into a second sandbox",
        swap::STOPPED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::COPY)),
    ),
    Probe::isolation(
        "second_run::copy_source_following",
        FILES,
        "replaces a folder in its workspace with a link before a file of it is copied into a \
         second run of the same policy, which follows links where code cannot write",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_before_creation(
                context,
                path_uses::same_policy(path_uses::following(path_uses::COPY)),
            ))
        },
    ),
    Probe::isolation(
        "second_run::export_path",
        ARTIFACT_EXPORT_PATHS,
        "replaces a folder that an export path names with a link before a second run of the same \
         policy exports its files",
        NOT_FOLLOWED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::EXPORT_PATH)),
    ),
    Probe::isolation(
        "second_run::fifo",
        FILES,
        "replaces a file with a FIFO before it is copied into a second sandbox, which would never \
         end",
        fifo::NOT_OPENED,
        |context| Box::pin(fifo::run(context)),
    ),
    Probe::isolation(
        "second_run::nested_read_root",
        FILESYSTEM_READ_ROOTS,
        "renames the folder above a read root in a write root, and the one above that, and puts its \
         own file where the root was",
        nested_read_root::KEPT,
        |context| Box::pin(nested_read_root::run(context)),
    )
    .version(2),
    Probe::isolation(
        "second_run::output",
        ARTIFACT_EXPORT_PATHS,
        "replaces a folder with a link before the artifacts of a second run are written there",
        swap::STOPPED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::OUTPUT)),
    ),
    Probe::isolation(
        "second_run::output_following",
        ARTIFACT_EXPORT_PATHS,
        "replaces a folder in its workspace with a link before the artifacts of a second run of \
         the same policy are written there, which follows links where code cannot write",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_before_creation(
                context,
                path_uses::same_policy(path_uses::following(path_uses::OUTPUT)),
            ))
        },
    ),
    Probe::isolation(
        "second_run::read_root",
        FILESYSTEM_READ_ROOTS,
        "replaces a read root with a link to a folder of the host, and reads there in a second run \
         of the same policy",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_before_creation(
                context,
                path_uses::same_policy(path_uses::READ_ROOT),
            ))
        },
    ),
    Probe::isolation(
        "second_run::read_root_following",
        FILESYSTEM_READ_ROOTS,
        "replaces a read root in its workspace with a link, and reads there in a second run of the \
         same policy, which follows links where code cannot write",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_before_creation(
                context,
                path_uses::same_policy(path_uses::following(path_uses::READ_ROOT)),
            ))
        },
    ),
    Probe::isolation(
        "second_run::read_root_other_policy",
        FILESYSTEM_READ_ROOTS,
        "replaces a folder with a link, and reads there in a second run that has it as a read root",
        swap::STOPPED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::READ_ROOT)),
    ),
    Probe::isolation(
        "second_run::read_root_parent",
        FILESYSTEM_READ_ROOTS,
        "replaces the folder above a read root with a link, and reads there in a second run of the \
         same policy",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_before_creation(
                context,
                path_uses::same_policy(path_uses::inner(path_uses::READ_ROOT)),
            ))
        },
    ),
    Probe::isolation(
        "second_run::workspace",
        FILESYSTEM_WRITE_ROOTS,
        "replaces a folder with a link, and writes there in a second run that has it as its \
         workspace",
        swap::STOPPED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::FOLDER)),
    ),
    Probe::isolation(
        "second_run::write_root",
        FILESYSTEM_WRITE_ROOTS,
        "replaces a write root with a link to a folder of the host, and writes there in a second \
         run of the same policy",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_before_creation(
                context,
                path_uses::same_policy(path_uses::WRITE_ROOT),
            ))
        },
    ),
];

const NOT_FOLLOWED: &[ExpectedDenial] = &[
    denied(
        "other_content",
        "the link's target does not exist inside, or the link is not followed",
    ),
    denied(
        "folder_refused",
        "a typed error: the export path does not name a folder",
    ),
];
