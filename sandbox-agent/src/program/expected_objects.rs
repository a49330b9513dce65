//! Checks that the engine mounted the objects that the client opened on the host.

use crate::runtime::{
    Errno,
    credentials::{effective_group, effective_user},
    fs::{AT_FDCWD, AT_SYMLINK_NOFOLLOW},
    path::terminated,
    stat::{Stat, stat_at},
};

use super::{
    failures::{failure, refusal, text},
    privilege::set_file_identity,
};
use crate::protocol::{ExpectedObject, FailStep, Failure};

/// Compares each path with the object that must be there. Looks a path up as `identity`, the
/// code's, if the agent has no access.
///
/// # Errors
///
/// The first path that leads to another object or cannot be looked up.
pub(super) fn check_expected_objects(
    objects: &[ExpectedObject],
    identity: Option<(u32, u32)>,
) -> Result<(), Failure> {
    for expected in objects {
        let metadata = stat(&expected.path, identity)
            .map_err(|errno| failure(FailStep::Setup, errno, text(&expected.path)))?;
        if (metadata.device, metadata.inode) != (expected.device, expected.inode) {
            let detail = text(&expected.path)
                + " is not what was opened on the host: a part of its path was exchanged before it was mounted";
            return Err(refusal(FailStep::Setup, detail));
        }
    }
    Ok(())
}

/// Root of a container without `CAP_DAC_READ_SEARCH` cannot enter private folders of the host;
/// their owner, often the code's user, can.
fn stat(path: &[u8], identity: Option<(u32, u32)>) -> Result<Stat, Errno> {
    let path = terminated(path)?;
    let stat = || stat_at(AT_FDCWD, &path, AT_SYMLINK_NOFOLLOW);
    match (stat(), identity) {
        (Err(Errno::EACCES), Some((user, group))) => {
            set_file_identity(user, group);
            let metadata = stat();
            set_file_identity(effective_user(), effective_group());
            metadata
        }
        (metadata, _) => metadata,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn another_object_at_the_path_is_refused() {
        let temp_dir = tempfile::tempdir().unwrap();
        let metadata = temp_dir.path().metadata().unwrap();
        let mut expected = ExpectedObject {
            path: temp_dir.path().as_os_str().as_bytes().to_vec(),
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        assert_eq!(check_expected_objects(&[expected.clone()], None), Ok(()));
        expected.inode += 1;
        let error = check_expected_objects(&[expected.clone()], None).unwrap_err();
        assert!(error.detail.contains("was exchanged"), "{error:?}");
        expected.path.extend_from_slice(b"/missing");
        let error = check_expected_objects(&[expected], None).unwrap_err();
        assert_eq!(error.errno, Errno::ENOENT.0);
    }
}
