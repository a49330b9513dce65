//! The lock and the socket of a carrier.
//!
//! Both are in `carriers` of the user's state folder, which only this user may enter. Their name
//! follows from the sandbox's key, which no other sandbox has. Whoever holds the lock is the carrier.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::net::{UnixListener, UnixStream};

use crate::ClientKey;
use crate::state;

/// Separates these names from other uses of a key.
const NAME_CONTEXT: &str = "sandbox-host 2026-11-29 name of a carrier";

const LOCK_SUFFIX: &str = ".lock";

const SOCKET_SUFFIX: &str = ".sock";

/// Where the carrier of one sandbox is found.
#[derive(Debug, Clone)]
pub(crate) struct CarrierFiles {
    state: PathBuf,
    name: String,
}

/// The right to carry a sandbox's connections. Dropping it gives up the right.
#[derive(Debug)]
pub(super) struct Claim {
    folder: File,
    name: String,
    /// The lock.
    _lock: File,
}

impl CarrierFiles {
    /// Those of the sandbox with this key. Reads and writes nothing.
    pub(crate) fn new(key: &ClientKey) -> Self {
        Self::in_folder(state::folder(None, state::user()), key)
    }

    fn in_folder(state: PathBuf, key: &ClientKey) -> Self {
        let name = blake3::derive_key(NAME_CONTEXT, key.as_bytes());
        // 128 bits suffice, and a short name fits into a socket's address.
        let name = name[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self { state, name }
    }

    fn folder(&self) -> PathBuf {
        self.state.join("carriers")
    }

    /// Connects to the carrier.
    ///
    /// # Errors
    ///
    /// `NotFound` or `ConnectionRefused` without a carrier.
    pub(super) async fn connect(&self) -> io::Result<UnixStream> {
        let folder = open_folder(&self.folder())?;
        UnixStream::connect(socket(&folder, &self.name)).await
    }

    /// Takes the right to carry the sandbox's connections. Removes what ended carriers left.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if another process has it, and [`ErrorKind::Io`].
    pub(super) fn claim(&self) -> Result<Claim> {
        const OPERATION: &str = "carry connections";
        let folder = self.folder();
        state::prepare("", &self.state, state::user())?;
        let claimed = || -> io::Result<Option<Claim>> {
            let mut private = std::fs::DirBuilder::new();
            private.mode(0o700).recursive(true).create(&folder)?;
            let opened = open_folder(&folder)?;
            sweep(&opened, &self.name)?;
            let Some(lock) = take_lock(&opened, &self.name)? else {
                return Ok(None);
            };
            Ok(Some(Claim {
                folder: opened,
                name: self.name.clone(),
                _lock: lock,
            }))
        };
        match claimed() {
            Ok(Some(claim)) => Ok(claim),
            Ok(None) => {
                let context = "another process carries the connections of this sandbox";
                Err(Error::new(ErrorKind::AlreadyExists, OPERATION, context)
                    .with_fix("`sandbox egress NAME RULE...` changes its rules"))
            }
            Err(cause) => {
                let context = folder.display().to_string();
                Err(Error::new(ErrorKind::Io, OPERATION, context).with_source(cause))
            }
        }
    }
}

impl Claim {
    /// Listens for the other clients of the sandbox.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        let socket = socket(&self.folder, &self.name);
        remove(&socket)?;
        UnixListener::bind(socket)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        for path in [
            socket(&self.folder, &self.name),
            lock(&self.folder, &self.name),
        ] {
            if let Err(error) = remove(&path) {
                tracing::warn!(%error, name = self.name, "cannot remove a carrier's file");
            }
        }
    }
}

/// A path of the folder's own descriptor: the folder's path may be too long for a socket's address.
fn file(folder: &File, name: &str) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(name)
}

fn socket(folder: &File, name: &str) -> PathBuf {
    file(folder, &format!("{name}{SOCKET_SUFFIX}"))
}

fn lock(folder: &File, name: &str) -> PathBuf {
    file(folder, &format!("{name}{LOCK_SUFFIX}"))
}

fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Takes the lock of this name; `None` if another process holds it.
fn take_lock(folder: &File, name: &str) -> io::Result<Option<File>> {
    let path = lock(folder, name);
    loop {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        // Its former holder may have removed the file just before.
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.ino() == file.metadata()?.ino() => return Ok(Some(file)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes the files of carriers that have ended without doing so, but for those of this name.
fn sweep(folder: &File, own: &str) -> io::Result<()> {
    for entry in std::fs::read_dir(file(folder, ""))? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        let Some(name) = name.strip_suffix(LOCK_SUFFIX).filter(|name| *name != own) else {
            continue;
        };
        if let Some(_lock) = take_lock(folder, name)? {
            remove(&socket(folder, name))?;
            remove(&lock(folder, name))?;
        }
    }
    Ok(())
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(state: &Path, key: u8) -> CarrierFiles {
        CarrierFiles::in_folder(state.to_owned(), &ClientKey::new([key; ClientKey::LEN]))
    }

    fn left(state: &Path) -> usize {
        std::fs::read_dir(state.join("carriers"))
            .expect("read")
            .count()
    }

    #[tokio::test]
    async fn one_process_carries_and_gives_it_up_by_dropping_its_claim() {
        let parent = tempfile::tempdir().expect("a folder");
        // A long path does not matter.
        let state = parent.path().join("s".repeat(120));
        let one = files(&state, 1);
        assert!(one.connect().await.is_err());
        let claim = one.claim().expect("free");
        let listener = claim.listen().expect("a socket");
        let refused = one.claim().expect_err("taken");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        one.connect().await.expect("the carrier listens");
        let other = files(&state, 2).claim().expect("another sandbox");
        assert!(files(&state, 2).connect().await.is_err());
        drop((listener, claim, other));
        assert_eq!(left(&state), 0);
        one.claim().expect("free again");
    }

    #[test]
    fn what_a_killed_carrier_left_is_removed_by_the_next_one() {
        let parent = tempfile::tempdir().expect("a folder");
        let state = parent.path().join("state");
        let claim = files(&state, 1).claim().expect("free");
        let killed = files(&state, 2);
        for suffix in [LOCK_SUFFIX, SOCKET_SUFFIX] {
            let path = state
                .join("carriers")
                .join(format!("{}{suffix}", killed.name));
            std::fs::write(path, "").expect("written");
        }
        let other = files(&state, 3).claim().expect("free");
        assert_eq!(left(&state), 2, "those of the two claims");
        drop((claim, other));
        assert_eq!(left(&state), 0);
    }
}
