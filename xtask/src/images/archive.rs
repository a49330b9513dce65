//! Tar archives out of entries that need no file on disk, so no rights to give them owners.

use std::io::{self, Write};

use tar::{Builder, EntryType, Header};

/// The modification time of every entry, so that equal recipes make equal archives: the first
/// second of the year 2000.
const MODIFIED: u64 = 946_684_800;

/// One folder, file or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    path: String,
    kind: Kind,
    mode: u32,
    owner: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Folder,
    File(Vec<u8>),
    Link(String),
}

impl Entry {
    /// A folder at `path`, which is relative to the image's root.
    pub fn folder(path: &str, mode: u32) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::Folder,
            mode,
            owner: 0,
        }
    }

    /// A file with these bytes.
    pub fn file(path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::File(bytes.into()),
            mode,
            owner: 0,
        }
    }

    /// A symbolic link to `target`.
    pub fn link(path: &str, target: &str) -> Self {
        let kind = Kind::Link(target.to_owned());
        Self {
            path: path.to_owned(),
            kind,
            mode: 0o777,
            owner: 0,
        }
    }

    /// Gives the entry to the user and group with the number `owner` instead of root.
    #[must_use]
    pub fn owned_by(mut self, owner: u64) -> Self {
        self.owner = owner;
        self
    }
}

/// Writes `entries` as a tar archive.
///
/// # Errors
/// When writing fails, or a path is too long or not relative.
pub fn write(entries: &[Entry], output: impl Write) -> io::Result<()> {
    let mut builder = Builder::new(output);
    for entry in entries {
        let mut header = Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        header.set_mtime(MODIFIED);
        header.set_size(0);
        match &entry.kind {
            Kind::Folder => {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, &entry.path, io::empty())?;
            }
            Kind::File(bytes) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, &entry.path, bytes.as_slice())?;
            }
            Kind::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                builder.append_link(&mut header, &entry.path, target)?;
            }
        }
    }
    builder.into_inner()?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn an_archive_holds_what_was_asked_for() {
        let entries = [
            Entry::folder("tmp", 0o1777),
            Entry::file("etc/name", 0o640, "text").owned_by(1000),
            Entry::link("bin/sh", "/bin/busybox"),
        ];
        let mut bytes = Vec::new();
        write(&entries, &mut bytes).expect("write");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut seen = Vec::new();
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("entry");
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            let header = entry.header();
            seen.push(format!(
                "{} {:o} {} {:?} {text}",
                entry.path().expect("path").display(),
                header.mode().expect("mode"),
                header.uid().expect("uid"),
                entry.link_name().expect("link")
            ));
        }
        assert_eq!(
            seen,
            [
                "tmp 1777 0 None ",
                "etc/name 640 1000 None text",
                "bin/sh 777 0 Some(\"/bin/busybox\") "
            ]
        );
    }

    #[test]
    fn a_path_out_of_the_root_is_refused() {
        assert!(write(&[Entry::file("../x", 0o644, "")], io::sink()).is_err());
    }
}
