//! The link that makes `python` mean `python3`.

use std::path::Path;

use sandbox_agent::protocol::Mount;

use super::mounts::bytes;
use super::roots::Roots;
use crate::host::Host;
use crate::python_alias::FOLDER;

/// The link, if the host has only a `python3`. A root of the host takes precedence over its folder.
pub(super) fn link(host: &Host, roots: &Roots<'_>) -> Option<Mount> {
    let folder = Path::new(FOLDER);
    let python3 = host.lone_python3.as_ref()?;
    roots.access(folder).is_none().then(|| Mount::Symlink {
        points_to: bytes(python3),
        target: bytes(&folder.join("python")),
    })
}
