//! Whether an engine has mounted what was looked at on the host.

use crate::runtime::{
    Errno, Result,
    credentials::{effective_group, effective_user},
    fs::{AT_FDCWD, AT_SYMLINK_NOFOLLOW},
    path::terminated,
    stat::{Stat, stat_at},
};

use super::{
    failing::{failure, refusal, text},
    privilege::set_file_identity,
};
use crate::protocol::{FailStep, Failure, Placed};

/// Compares each place with what has to be there. `identity` is the code's, as whom the way is tried where it is closed to the agent.
///
/// # Errors
///
/// With the first place that is something else, or cannot be looked at.
pub(super) fn check_placed(
    all: &[Placed],
    identity: Option<(u32, u32)>,
) -> core::result::Result<(), Failure> {
    for placed in all {
        let found = look(&placed.path, identity)
            .map_err(|errno| failure(FailStep::Setup, errno, text(&placed.path)))?;
        if (found.device, found.inode) != (placed.device, placed.inode) {
            let detail = text(&placed.path)
                + " is not what was opened on the host: a part of its path was exchanged before it was mounted";
            return Err(refusal(FailStep::Setup, detail));
        }
    }
    Ok(())
}

/// A container's root without the right to pass closed folders of the host is not their owner: the code may be.
fn look(path: &[u8], identity: Option<(u32, u32)>) -> Result<Stat> {
    let path = terminated(path)?;
    let look = || stat_at(AT_FDCWD, &path, AT_SYMLINK_NOFOLLOW);
    match (look(), identity) {
        (Err(Errno::EACCES), Some((user, group))) => {
            set_file_identity(user, group);
            let found = look();
            set_file_identity(effective_user(), effective_group());
            found
        }
        (found, _) => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn another_object_at_a_place_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let found = place.path().metadata().unwrap();
        let mut placed = Placed {
            path: place.path().as_os_str().as_bytes().to_vec(),
            device: found.dev(),
            inode: found.ino(),
        };
        assert_eq!(check_placed(&[placed.clone()], None), Ok(()));
        placed.inode += 1;
        let error = check_placed(&[placed.clone()], None).unwrap_err();
        assert!(error.detail.contains("was exchanged"), "{error:?}");
        placed.path.extend_from_slice(b"/missing");
        let error = check_placed(&[placed], None).unwrap_err();
        assert_eq!(error.errno, Errno::ENOENT.0);
    }
}
