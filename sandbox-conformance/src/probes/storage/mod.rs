//! Storage that the operator names, and folders that are copies.

use std::path::PathBuf;

use crate::host_fixture::{chown_to_ordinary_user, make_folder};
use crate::probes::prelude::*;

mod copied;
mod path;
mod volume;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "storage::path",
        EXEC,
        "reads and writes a folder of the host that the policy names at /workspace and elsewhere, \
         and looks for what comes back and whose it is",
        |context| Box::pin(path::run(context)),
    ),
    Probe::behavior(
        "storage::volume",
        EXEC,
        "reads and writes a volume of the engine at two places in attached and detached sandboxes, \
         and asks for volumes that are missing or the library's own",
        |context| Box::pin(volume::run(context)),
    ),
    Probe::behavior(
        "storage::workspace_copy",
        EXEC,
        "changes files of a workspace on both sides, and compares what is brought back and \
         reported",
        |context| Box::pin(copied::run(context)),
    ),
];

/// A folder for the storage of this probe. Others cannot rename it, so engines mount it.
fn own_folder(context: &ProbeContext) -> Result<PathBuf, ProbeError> {
    let folder = context.outside()?.join("storage");
    make_folder(&folder)?;
    chown_to_ordinary_user(&folder)?;
    Ok(folder)
}

/// The name of a place in the policy, and one under which it is for reading only.
const DATA: &str = "data";
const KEPT: &str = "kept";
