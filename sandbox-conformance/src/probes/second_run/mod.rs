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
        "replaces a folder by a link, and waits for a file of it to be copied into a second \
         sandbox",
        swap::STOPPED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::COPY)),
    ),
    Probe::isolation(
        "second_run::export_path",
        ARTIFACT_EXPORT_PATHS,
        "replaces a folder that an export path names by a link, and has its files exported \
         by a second run of the same policy",
        NOT_FOLLOWED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::EXPORT_PATH)),
    ),
    Probe::isolation(
        "second_run::fifo",
        FILES,
        "replaces a file by a FIFO, and waits for it to be copied into a second sandbox, \
         which would never end",
        fifo::NOT_OPENED,
        |context| Box::pin(fifo::run(context)),
    ),
    Probe::isolation(
        "second_run::nested_read_root",
        FILESYSTEM_READ_ROOTS,
        "renames the folder around a read root that lies in a write root, and puts a file of \
         its own where the root was",
        nested_read_root::KEPT,
        |context| Box::pin(nested_read_root::run(context)),
    ),
    Probe::isolation(
        "second_run::output",
        ARTIFACT_EXPORT_PATHS,
        "replaces a folder by a link, and has the artifacts of a second run written there",
        swap::STOPPED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::OUTPUT)),
    ),
    Probe::isolation(
        "second_run::read_root",
        FILESYSTEM_READ_ROOTS,
        "replaces a read root by a link to a folder of the host, and reads there in a second \
         run of the same policy",
        swap::STOPPED,
        |context| {
            Box::pin(swap::swap_before_creation(
                context,
                path_uses::same_policy(path_uses::READ_ROOT),
            ))
        },
    ),
    Probe::isolation(
        "second_run::read_root_other_policy",
        FILESYSTEM_READ_ROOTS,
        "replaces a folder by a link, and reads there in a run to which it is a read root",
        swap::STOPPED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::READ_ROOT)),
    ),
    Probe::isolation(
        "second_run::read_root_parent",
        FILESYSTEM_READ_ROOTS,
        "replaces the folder around a read root by a link, and reads there in a second run \
         of the same policy",
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
        "replaces a folder by a link, and writes there in a run to which it is the workspace",
        swap::STOPPED,
        |context| Box::pin(swap::swap_before_creation(context, path_uses::FOLDER)),
    ),
    Probe::isolation(
        "second_run::write_root",
        FILESYSTEM_WRITE_ROOTS,
        "replaces a write root by a link to a folder of the host, and writes there in a \
         second run of the same policy",
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
        "the link leads nowhere inside, or is not followed",
    ),
    denied(
        "folder_refused",
        "a typed error: what the export path names is no folder",
    ),
];
