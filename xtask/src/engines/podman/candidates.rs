//! Where a Podman socket may be, in the order in which Podman's own client looks.

use std::path::{Path, PathBuf};

use crate::engines::sockets::{self, Candidate, named, variable};
use crate::failure::Result;

/// The socket that root's service serves.
pub const DEFAULT: &str = "/run/podman/podman.sock";
/// A user's own socket, below the folder that `XDG_RUNTIME_DIR` names.
pub const BELOW_RUNTIME_FOLDER: &str = "podman/podman.sock";
/// The variable that names another one.
pub const VARIABLE: &str = "CONTAINER_HOST";

/// The sockets to try. A user who names one means that one only.
///
/// # Errors
/// When `CONTAINER_HOST` names something that is no Unix socket.
pub fn find() -> Result<Vec<Candidate>> {
    if let Some(host) = variable(VARIABLE) {
        return Ok(vec![named(&host, VARIABLE)?]);
    }
    let own =
        variable("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join(BELOW_RUNTIME_FOLDER));
    Ok(sockets::by_default(
        [PathBuf::from(DEFAULT)].into_iter().chain(own),
    ))
}
