//! The folder that a build can copy from, as the archive that is sent.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::pipe::PipeWriter;
use super::ignore::Ignore;

const IGNORE: &str = ".dockerignore";

/// A folder to send.
#[derive(Debug)]
pub(super) struct Context {
    root: PathBuf,
    /// The Dockerfile below it, and what is sent instead of its content.
    dockerfile: (PathBuf, String),
    ignore: Ignore,
}

impl Context {
    /// Reads what is not to be sent: `NAME.dockerignore` beside the Dockerfile, else the context's.
    ///
    /// # Errors
    ///
    /// What cannot be read, and bad patterns.
    pub(super) fn open(root: &Path, dockerfile: &Path, text: String) -> Result<Self, String> {
        let mut own = dockerfile.as_os_str().to_owned();
        own.push(IGNORE);
        let mut ignore = Ignore::default();
        for path in [root.join(own), root.join(IGNORE)] {
            match fs::read_to_string(&path) {
                Ok(text) => {
                    ignore = Ignore::parse(&text)?;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
        Ok(Self {
            root: root.to_owned(),
            dockerfile: (dockerfile.to_owned(), text),
            ignore,
        })
    }

    /// Sends it. Everything belongs to root, as the engine's own client has it. Says why it could not be sent; a reader that went away is
    /// no reason of ours.
    pub(super) fn send(&self, mut writer: PipeWriter) -> Option<String> {
        let mut archive = tar::Builder::new(&mut writer);
        let sent = self.folder(&mut archive, Path::new(""));
        let sent = sent.and_then(|()| archive.into_inner().map(drop));
        let said = match &sent {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Some(error.to_string()),
            _ => None,
        };
        writer.finish(sent);
        said
    }

    fn folder(&self, archive: &mut tar::Builder<impl io::Write>, below: &Path) -> io::Result<()> {
        let named = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let folder = self.root.join(below);
        let entries = fs::read_dir(&folder).map_err(|error| named(&folder, error))?;
        let mut names = entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        // The same context is the same archive, so that the engine's cache is of use.
        names.sort();
        for name in names {
            let path = below.join(name);
            let place = self.root.join(&path);
            let facts = fs::symlink_metadata(&place).map_err(|error| named(&place, error))?;
            let needed = path == self.dockerfile.0 || path.as_os_str() == IGNORE;
            let leads_to_needed = self.dockerfile.0.starts_with(&path);
            let out = self.ignore.leaves_out(&path) && !needed;
            if facts.is_dir() {
                if !out {
                    append(
                        archive,
                        &path,
                        &facts,
                        tar::EntryType::Directory,
                        0,
                        io::empty(),
                    )?;
                }
                if !out || leads_to_needed || self.ignore.has_exceptions() {
                    self.folder(archive, &path)?;
                }
            } else if !out {
                self.entry(archive, &path, &facts)
                    .map_err(|error| named(&place, error))?;
            }
        }
        Ok(())
    }

    fn entry(
        &self,
        archive: &mut tar::Builder<impl io::Write>,
        path: &Path,
        facts: &fs::Metadata,
    ) -> io::Result<()> {
        let place = self.root.join(path);
        if path == self.dockerfile.0 {
            let text = self.dockerfile.1.as_bytes();
            let size = text.len() as u64;
            append(archive, path, facts, tar::EntryType::Regular, size, text)
        } else if facts.is_symlink() {
            let target = fs::read_link(&place)?;
            let mut header = header(facts, tar::EntryType::Symlink, 0);
            archive.append_link(&mut header, path, target)
        } else if facts.is_file() {
            let file = File::open(&place)?;
            let size = facts.len();
            // A file that changes meanwhile must not shift what follows.
            let content = io::Read::chain(file, io::repeat(0));
            append(
                archive,
                path,
                facts,
                tar::EntryType::Regular,
                size,
                io::Read::take(content, size),
            )
        } else {
            let why = "neither a file, a folder nor a link: name it in .dockerignore";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

fn append(
    archive: &mut tar::Builder<impl io::Write>,
    path: &Path,
    facts: &fs::Metadata,
    kind: tar::EntryType,
    size: u64,
    content: impl io::Read,
) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    if kind.is_dir() && !name.as_bytes().ends_with(b"/") {
        name.push("/");
    }
    archive.append_data(&mut header(facts, kind, size), name, content)
}

fn header(facts: &fs::Metadata, kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(facts.mode() & 0o7777);
    header.set_uid(0);
    header.set_gid(0);
    // Before 1970 is as good as then.
    header.set_mtime(u64::try_from(facts.mtime()).unwrap_or_default());
    header
}
