//! Checks whether other users could replace a part of a path.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat, fstat, open, openat, stat};
use sandbox_host::safe_path::{Identity, Opened};

use crate::engine::EngineFacts;

/// The permission bit that restricts renaming to owners.
const STICKY: u32 = 0o1000;

/// Why a path is not trusted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UntrustedPath {
    /// The folder in which an entry can be replaced.
    folder: PathBuf,
    who: PathChanger,
}

#[derive(Debug, PartialEq, Eq)]
enum PathChanger {
    /// This user owns the folder, or the entry if the folder is sticky.
    User(u32),
    /// This group may write to the folder.
    Group(u32),
    Everyone,
    /// An entry was already replaced.
    AlreadyReplaced,
    /// The kernel reported an error.
    Unknown(io::ErrorKind),
}

impl fmt::Display for UntrustedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        match self.who {
            PathChanger::User(user) => write!(f, "user {user} can rename what is in {folder}"),
            PathChanger::Group(group) => write!(f, "group {group} can rename what is in {folder}"),
            PathChanger::Everyone => write!(f, "every user can rename what is in {folder}"),
            PathChanger::AlreadyReplaced => write!(f, "something in {folder} was exchanged"),
            PathChanger::Unknown(kind) => write!(f, "{folder} cannot be looked at: {kind}"),
        }
    }
}

impl UntrustedPath {
    /// How to fix it.
    pub(super) fn fix(&self) -> String {
        let folder = self.folder.display();
        match self.who {
            PathChanger::User(user) => format!(
                "run as user {user}, or name a folder whose way only you and root can change"
            ),
            PathChanger::Group(_) => format!("`chmod g-w {folder}`, or name another folder"),
            PathChanger::Everyone => format!("`chmod o-w {folder}`, or name another folder"),
            PathChanger::AlreadyReplaced | PathChanger::Unknown(_) => {
                "run again when nothing is moved there".into()
            }
        }
    }
}

/// The users that may change the path to a folder: this one, root, the user of a rootless engine,
/// and the owner of `/`. In a user namespace, the latter stands for the users outside.
pub(super) fn trusted_users(facts: &EngineFacts) -> io::Result<Vec<u32>> {
    let mut users = vec![0, rustix::process::geteuid().as_raw(), stat("/")?.st_uid];
    if facts.rootless {
        users.extend(facts.engine_user.map(|(user, _)| user));
    }
    Ok(users)
}

/// Finds an entry of the path that another user could replace before the mount; `None` if there is
/// none.
pub(super) fn find_untrusted(opened: &Opened, trusted: &[u32]) -> Option<UntrustedPath> {
    let mut here = PathBuf::from("/");
    let untrusted = |here: &Path, who| {
        Some(UntrustedPath {
            folder: here.to_owned(),
            who,
        })
    };
    let unknown = |errno: rustix::io::Errno| PathChanger::Unknown(io::Error::from(errno).kind());
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = open("/", flags | OFlags::DIRECTORY, Mode::empty());
    let mut folder = match root.and_then(|root| fstat(&root).map(|stat| (root, stat))) {
        Ok(root) => root,
        Err(errno) => return untrusted(&here, unknown(errno)),
    };
    let parts = opened.path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        _ => None,
    });
    let target_owner = opened.found.st_uid;
    for (part, identity) in parts.zip(opened.way().iter().skip(1)) {
        let entry = openat(&folder.0, part, flags, Mode::empty());
        let entry = match entry.and_then(|entry| fstat(&entry).map(|stat| (entry, stat))) {
            Ok(entry) => entry,
            Err(errno) => return untrusted(&here, unknown(errno)),
        };
        if Identity::of(&entry.1) != *identity {
            return untrusted(&here, PathChanger::AlreadyReplaced);
        }
        let who = who_can_rename(&folder.1, &entry.1, trusted);
        // The owner of the mounted folder could fill it with links anyway. Code runs as that user,
        // and the agent compares.
        let is_owners_sticky_entry =
            *identity == opened.identity() && who == Some(PathChanger::User(target_owner));
        let is_owners_sticky_entry = is_owners_sticky_entry
            && folder.1.st_mode & STICKY != 0
            && folder.1.st_uid != target_owner;
        if let Some(who) = who.filter(|_| !is_owners_sticky_entry) {
            return untrusted(&here, who);
        }
        here.push(part);
        folder = entry;
    }
    None
}

/// Who else may rename an entry of a folder.
fn who_can_rename(folder: &Stat, entry: &Stat, trusted: &[u32]) -> Option<PathChanger> {
    if !trusted.contains(&folder.st_uid) {
        return Some(PathChanger::User(folder.st_uid));
    }
    // By the convention of most distributions, a gid equal to a uid is that user's private group.
    let group = folder.st_mode & 0o020 != 0 && !trusted.contains(&folder.st_gid);
    let everyone = folder.st_mode & 0o002 != 0;
    match folder.st_mode & STICKY != 0 {
        _ if !group && !everyone => None,
        true => (!trusted.contains(&entry.st_uid)).then_some(PathChanger::User(entry.st_uid)),
        false if everyone => Some(PathChanger::Everyone),
        false => Some(PathChanger::Group(folder.st_gid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(user: u32, group: u32, mode: u32) -> Stat {
        let mut found = stat("/").expect("the root folder");
        (found.st_uid, found.st_gid, found.st_mode) = (user, group, mode);
        found
    }

    #[test]
    fn folder_owner_and_writers_can_rename_its_entries() {
        const ALICE: u32 = 1000;
        let trusted = [0, ALICE];
        let entry = found(ALICE, ALICE, 0o755);
        let other_users = found(1001, 1001, 0o755);
        for (folder, entry, who) in [
            (found(0, 0, 0o755), other_users, None),
            (found(ALICE, ALICE, 0o700), other_users, None),
            (
                found(1001, ALICE, 0o755),
                entry,
                Some(PathChanger::User(1001)),
            ),
            (found(ALICE, ALICE, 0o775), entry, None),
            (
                found(ALICE, 100, 0o775),
                entry,
                Some(PathChanger::Group(100)),
            ),
            (found(0, 0, 0o777), entry, Some(PathChanger::Everyone)),
            (found(0, 0, 0o1777), entry, None),
            (
                found(0, 0, 0o1777),
                other_users,
                Some(PathChanger::User(1001)),
            ),
        ] {
            assert_eq!(who_can_rename(&folder, &entry, &trusted), who, "{folder:?}");
        }
    }
}
