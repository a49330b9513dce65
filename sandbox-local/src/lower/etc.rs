//! The sandbox's `/etc`: the host's files that the platform needs, and a few generated files, so
//! that the host's users and names stay hidden.
//!
//! It is the same for all sandboxes of a kind, so it is prepared once as a folder of the host and
//! mounted read-only. Folders of the host's `/etc` are mounted into it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use sandbox_host::confinement::Mode;
use sandbox_host::egress::RESOLV_CONF;

use super::roots::{Roots, is_within};
use crate::host::{FileKind, PlanPaths, Stamp};
use crate::spawn::identity::SHARED_ID;

/// The host name of every sandbox. It does not reveal the sandbox's name.
pub(super) const HOST_NAME: &str = "sandbox";

const ETC: &str = "/etc";

/// The content of the folder by absolute path; parents come before their children.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Etc {
    pub(crate) entries: BTreeMap<PathBuf, EtcEntry>,
}

/// One path in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum EtcEntry {
    /// A mount point for a folder.
    Folder,
    /// An empty file: a mount point for a file.
    EmptyFile,
    /// A link with this target.
    Link(PathBuf),
    /// A copy of the host's file of the same path, in this version.
    Copy(Stamp),
    /// A file with this content.
    File(Vec<u8>),
}

impl Etc {
    /// The `/etc` of the sandbox, with mount points for what is mounted in it. With `egress`, names
    /// are asked of the agent. `None` if the host's
    /// `/etc` is a root.
    pub(super) fn of(
        mode: Mode,
        host_paths: &PlanPaths,
        egress: bool,
        roots: &Roots<'_>,
        folders: &[PathBuf],
    ) -> Option<Self> {
        if roots.access(Path::new(ETC)).is_some() {
            return None;
        }
        let mut entries = BTreeMap::new();
        for (path, content) in own_files(mode, host_paths, egress) {
            entries.insert(PathBuf::from(path), EtcEntry::File(content));
        }
        for (path, stamp) in &roots.copies {
            entries.insert(path.to_path_buf(), EtcEntry::Copy(*stamp));
        }
        for (at, says) in roots.links.iter().filter(|(at, _)| is_in_etc(at)) {
            entries.insert(at.to_path_buf(), EtcEntry::Link(says.to_path_buf()));
        }
        for folder in folders.iter().filter(|folder| is_in_etc(folder)) {
            entries.insert(folder.clone(), EtcEntry::Folder);
        }
        for bind in roots.binds.iter().filter(|bind| is_in_etc(bind.path)) {
            let entry = if bind.kind == FileKind::Folder {
                EtcEntry::Folder
            } else {
                EtcEntry::EmptyFile
            };
            entries.insert(bind.path.to_path_buf(), entry);
        }
        // A mounted folder brings its content along.
        let places = entries
            .iter()
            .filter(|(_, entry)| **entry == EtcEntry::Folder);
        let places = places.map(|(path, _)| path.clone()).collect::<Vec<_>>();
        entries.retain(|path, _| {
            !places
                .iter()
                .any(|outer| outer != path && is_within(path, outer))
        });
        Some(Self { entries })
    }

    /// A hash of the content. Copied files count by their stamps.
    pub(crate) fn key(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// The prepared folder.
    pub(crate) fn folder(&self, state: &Path) -> PathBuf {
        state.join("etc").join(self.key())
    }
}

/// Whether a path is in `/etc`.
pub(super) fn is_in_etc(path: &Path) -> bool {
    is_within(path, Path::new(ETC))
}

/// Without a network, a name server without a route: a lookup fails at once, and the kernel counts
/// it as a denied attempt. (Without any name server, lookups go to the loopback.) The address is
/// reserved for documentation (RFC 5737).
const NO_NAMES: &[u8] = b"nameserver 192.0.2.1\n";

fn own_files(mode: Mode, host_paths: &PlanPaths, egress: bool) -> [(&'static str, Vec<u8>); 5] {
    let (uid, gid) = match mode {
        Mode::Split { uid, gid } => (uid, gid),
        Mode::Shared => (SHARED_ID, SHARED_ID),
    };
    let mut passwd = format!(
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
         sandbox:x:{uid}:{gid}:sandbox:/tmp:/bin/sh\n"
    );
    let mut group = format!("root:x:0:\nsandbox:x:{gid}:\n");
    if uid != SHARED_ID {
        // Files of other users of the host appear as owned by this user.
        passwd += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    }
    if gid != SHARED_ID {
        group += "nogroup:x:65534:\n";
    }
    let own_hosts = format!("127.0.0.1 localhost {HOST_NAME}\n::1 localhost {HOST_NAME}\n");
    let (hosts, resolv) = match &host_paths.names {
        Some((hosts, resolv)) => ([own_hosts.as_bytes(), hosts].concat(), resolv.clone()),
        None if egress => (own_hosts.into_bytes(), RESOLV_CONF.into()),
        None => (own_hosts.into_bytes(), NO_NAMES.to_vec()),
    };
    [
        ("/etc/group", group.into_bytes()),
        ("/etc/hostname", format!("{HOST_NAME}\n").into_bytes()),
        ("/etc/hosts", hosts),
        ("/etc/passwd", passwd.into_bytes()),
        ("/etc/resolv.conf", resolv),
    ]
}
