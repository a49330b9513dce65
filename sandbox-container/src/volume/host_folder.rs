//! Reads the volume's folder as the engine's process sees it. That takes a millisecond, and the
//! engine's own archive of it some 50 ms.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};

use super::archive::VolumeFile;

/// The root folder of the process that listens on a local socket.
///
/// Under socket activation that is systemd, which sees the host's files.
///
/// # Errors
///
/// Nothing listens there, or this process may not look into that process.
pub(super) fn root_of_listener(socket: &Path) -> io::Result<OwnedFd> {
    let peer = rustix::net::sockopt::socket_peercred(UnixStream::connect(socket)?)?;
    let path = format!("/proc/{}/root", peer.pid.as_raw_nonzero());
    Ok(open(path, folder_flags(), Mode::empty())?)
}

/// Whether `folder`, a path below `root`, holds exactly these files, owned by `owner`.
///
/// # Errors
///
/// The folder cannot be read.
pub(super) fn holds(
    root: impl AsFd,
    folder: &str,
    files: &[VolumeFile<'_>],
    owner: (u32, u32),
) -> io::Result<bool> {
    let folder = openat2(
        root,
        folder,
        folder_flags(),
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )?;
    let mut found = 0;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let Some(file) = files.iter().find(|file| file.name.as_bytes() == name) else {
            return Ok(false);
        };
        if !is_exactly(&folder, OsStr::from_bytes(name), file, owner)? {
            return Ok(false);
        }
        found += 1;
    }
    Ok(found == files.len())
}

fn is_exactly(
    folder: &OwnedFd,
    name: &OsStr,
    file: &VolumeFile<'_>,
    owner: (u32, u32),
) -> io::Result<bool> {
    // A device or a pipe must not block here.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::empty())?;
    let status = fstat(&opened)?;
    let is_expected = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
        && status.st_mode & 0o7777 == file.mode
        && (status.st_uid, status.st_gid) == owner;
    if !is_expected {
        return Ok(false);
    }
    let mut content = Vec::with_capacity(file.content.len() + 1);
    let limit = file.content.len() as u64 + 1;
    File::from(opened).take(limit).read_to_end(&mut content)?;
    Ok(content == file.content)
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    const AGENT: VolumeFile<'_> = VolumeFile {
        name: "agent",
        mode: 0o555,
        content: b"\x7fELF and more",
    };

    fn write(folder: &Path, content: &[u8], mode: u32) {
        let path = folder.join("agent");
        let _ = fs::remove_file(&path);
        fs::write(&path, content).expect("file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
    }

    #[test]
    fn folder_must_hold_exactly_the_files() {
        let root = tempfile::tempdir().expect("folder");
        let owner = fs::metadata(root.path()).expect("metadata");
        let owner = (owner.uid(), owner.gid());
        let folder = root.path().join("volume");
        fs::create_dir(&folder).expect("folder");
        symlink("/volume", root.path().join("link")).expect("link");
        let root = open(root.path(), folder_flags(), Mode::empty()).expect("root");
        let held = |owner| holds(&root, "/link", &[AGENT], owner).expect("readable");

        assert!(!held(owner), "empty");
        write(&folder, AGENT.content, 0o555);
        assert!(held(owner));
        assert!(!held((owner.0 + 1, owner.1)), "another owner");
        fs::write(folder.join("other"), "").expect("file");
        assert!(!held(owner), "one more file");
        fs::remove_file(folder.join("other")).expect("removed");
        for (content, mode) in [
            (&AGENT.content[1..], 0o555),
            (b"\x7fELF and more.".as_slice(), 0o555),
            (b"\x7fELF and MORE", 0o555),
            (AGENT.content, 0o755),
            (AGENT.content, 0o4555),
        ] {
            write(&folder, content, mode);
            assert!(!held(owner), "{content:?} {mode:o}");
        }
        write(&folder, AGENT.content, 0o555);
        fs::rename(folder.join("agent"), folder.join("../agent")).expect("renamed");
        symlink("../agent", folder.join("agent")).expect("link");
        assert!(holds(&root, "/link", &[AGENT], owner).is_err(), "a link");
        assert!(holds(&root, "/nowhere", &[AGENT], owner).is_err());
    }

    #[test]
    fn root_is_that_of_the_listening_process() {
        let folder = tempfile::tempdir().expect("folder");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("listener");
        let seen = fstat(root_of_listener(&socket).expect("own root")).expect("status");
        let own = fs::metadata("/").expect("metadata");
        assert_eq!((seen.st_dev, seen.st_ino), (own.dev(), own.ino()));
        assert!(root_of_listener(Path::new("/nowhere")).is_err());
    }
}
