//! Where a Docker socket may be, in the order in which Docker's own client looks.

use std::path::{Path, PathBuf};

use super::contexts;
use crate::engines::sockets::{self, Candidate, named, variable};
use crate::failure::Result;
use crate::places;

/// The socket that a system-wide daemon serves.
pub const DEFAULT: &str = "/run/docker.sock";
/// Another name of it where `/var/run` is no link to `/run`.
const DEFAULT_OLD: &str = "/var/run/docker.sock";

/// The sockets to try. A user who names one means that one only.
///
/// # Errors
/// When `DOCKER_HOST` or the chosen context names something that is no Unix socket, or a context
/// that does not exist.
pub fn find() -> Result<Vec<Candidate>> {
    if let Some(host) = variable("DOCKER_HOST") {
        return Ok(vec![named(&host, "DOCKER_HOST")?]);
    }
    let configuration = variable("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(|| places::home_folder().map(|home| home.join(".docker")));
    if let Some((context, host)) =
        contexts::host(configuration.as_deref(), variable("DOCKER_CONTEXT"))?
    {
        return Ok(vec![named(
            &host,
            &format!("the Docker context '{context}'"),
        )?]);
    }
    let rootless = variable("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join("docker.sock"));
    let by_default = [DEFAULT, DEFAULT_OLD]
        .map(PathBuf::from)
        .into_iter()
        .chain(rootless);
    Ok(sockets::by_default(by_default))
}
