//! The build context: the folder that a build can copy from, sent as an archive.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Stat, fstat, readlinkat, statat};

use super::super::pipe::PipeWriter;
use super::beneath;
use super::ignore::IgnoreRules;

const IGNORE: &str = ".dockerignore";

/// Byte limit of the Dockerfile and of `.dockerignore`.
const TEXT_LIMIT: u64 = 1 << 20;

/// The build context. Its folder is opened once; everything in it is read without following links.
#[derive(Debug)]
pub(super) struct BuildContext {
    root: OwnedFd,
    /// The folder's path as the caller named it.
    shown: PathBuf,
    /// Path of the Dockerfile in the folder.
    dockerfile: PathBuf,
    ignore: IgnoreRules,
}

impl BuildContext {
    /// Opens the folder; returns it with the Dockerfile's text. Reads the ignore patterns from
    /// `NAME.dockerignore` next to the Dockerfile, else from `.dockerignore`.
    ///
    /// # Errors
    ///
    /// Unreadable files, invalid patterns, and links as the Dockerfile, in its path or as the
    /// ignore file.
    pub(super) fn open(
        shown: &Path,
        dockerfile: PathBuf,
        follow: bool,
    ) -> Result<(Self, String), String> {
        let failed = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
        let root = beneath::root(shown, follow)?;
        let text = beneath::text(&root, &dockerfile, TEXT_LIMIT);
        let text = text.map_err(|why| failed(&shown.join(&dockerfile), why))?;
        let mut own_ignore = dockerfile.as_os_str().to_owned();
        own_ignore.push(IGNORE);
        let mut ignore = IgnoreRules::default();
        for path in [own_ignore, IGNORE.into()].map(PathBuf::from) {
            match beneath::text(&root, &path, TEXT_LIMIT) {
                Ok(text) => {
                    ignore = IgnoreRules::parse(&text)?;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&shown.join(path), error)),
            }
        }
        let context = Self {
            root,
            shown: shown.to_owned(),
            dockerfile,
            ignore,
        };
        Ok((context, text))
    }

    /// Sends the archive, with this text as the Dockerfile. Root owns all files, as with the
    /// engine's own client. Returns why it could not be sent; a disconnected reader is not
    /// reported.
    pub(super) fn send(&self, text: &str, mut writer: PipeWriter) -> Option<String> {
        let mut archive = tar::Builder::new(&mut writer);
        let sent = self.folder(&mut archive, &self.root, Path::new(""), text);
        let sent = sent.and_then(|()| archive.into_inner().map(drop));
        let failure = match &sent {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Some(error.to_string()),
            _ => None,
        };
        writer.finish(sent);
        failure
    }

    fn folder(
        &self,
        archive: &mut tar::Builder<impl io::Write>,
        folder: &OwnedFd,
        below: &Path,
        text: &str,
    ) -> io::Result<()> {
        let named = |path: &Path, error: io::Error| {
            let path = self.shown.join(path);
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        // Sorted, so the same context gives the same archive and the engine's cache works.
        let names = names(folder).map_err(|error| named(below, error))?;
        for name in names {
            let path = below.join(&name);
            let facts = statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW);
            let facts = facts.map_err(|error| named(&path, error.into()))?;
            let needed = path == self.dockerfile || path.as_os_str() == IGNORE;
            let leads_to_needed = self.dockerfile.starts_with(&path);
            let is_ignored = self.ignore.ignores(&path) && !needed;
            let kind = FileType::from_raw_mode(facts.st_mode);
            if kind.is_dir() {
                if !is_ignored {
                    append(
                        archive,
                        &path,
                        &facts,
                        tar::EntryType::Directory,
                        0,
                        io::empty(),
                    )?;
                }
                if !is_ignored || leads_to_needed || self.ignore.has_exceptions() {
                    let inner = beneath::folder(folder, &name);
                    let inner = inner.map_err(|error| named(&path, error))?;
                    self.folder(archive, &inner, &path, text)?;
                }
            } else if path == self.dockerfile {
                let size = text.len() as u64;
                append(
                    archive,
                    &path,
                    &facts,
                    tar::EntryType::Regular,
                    size,
                    text.as_bytes(),
                )?;
            } else if !is_ignored {
                entry(archive, folder, &name, &path, &facts)
                    .map_err(|error| named(&path, error))?;
            }
        }
        Ok(())
    }
}

/// The names in a folder, sorted.
fn names(folder: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort();
    Ok(names)
}

fn entry(
    archive: &mut tar::Builder<impl io::Write>,
    folder: &OwnedFd,
    name: &OsStr,
    path: &Path,
    facts: &Stat,
) -> io::Result<()> {
    match FileType::from_raw_mode(facts.st_mode) {
        FileType::Symlink => {
            let target = readlinkat(folder, name, Vec::new())?;
            let mut header = header(facts, tar::EntryType::Symlink, 0);
            archive.append_link(&mut header, path, OsStr::from_bytes(target.to_bytes()))
        }
        FileType::RegularFile => {
            let file: File = beneath::file(folder, name)?;
            let facts = fstat(&file)?;
            let size = file.metadata()?.len();
            // Pad or cut a file that changes meanwhile, so the archive stays valid.
            let content = io::Read::chain(file, io::repeat(0));
            let content = io::Read::take(content, size);
            append(
                archive,
                path,
                &facts,
                tar::EntryType::Regular,
                size,
                content,
            )
        }
        _ => {
            let why = "neither a file, a folder nor a link: name it in .dockerignore";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

fn append(
    archive: &mut tar::Builder<impl io::Write>,
    path: &Path,
    facts: &Stat,
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

fn header(facts: &Stat, kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(facts.st_mode & 0o7777);
    header.set_uid(0);
    header.set_gid(0);
    // Times before 1970 become 1970.
    header.set_mtime(u64::try_from(facts.st_mtime).unwrap_or_default());
    header
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn why(folder: &Path, dockerfile: &str) -> String {
        BuildContext::open(folder, dockerfile.into(), false).expect_err(dockerfile)
    }

    #[test]
    fn context_link_out_of_its_folder_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path();
        fs::create_dir_all(path.join("private")).expect("folder");
        fs::create_dir(path.join("project")).expect("folder");
        fs::write(path.join("private/Dockerfile"), "FROM scratch\n").expect("file");
        symlink("../private", path.join("project/image")).expect("link");
        let context = path.join("project/image");
        let why = why(&context, "Dockerfile");
        assert!(why.contains("outside of the folder"), "{why}");
        assert!(why.contains("--follow"), "{why}");
        assert!(BuildContext::open(&context, "Dockerfile".into(), true).is_ok());
        let why = self::why(&path.join("private/Dockerfile"), "Dockerfile");
        assert!(why.contains("Not a directory"), "{why}");
    }

    #[test]
    fn links_to_the_dockerfile_or_ignore_file_are_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path();
        fs::create_dir(path.join("real")).expect("folder");
        fs::write(path.join("real/Dockerfile"), "FROM scratch\n").expect("file");
        symlink("real", path.join("sub")).expect("link");
        symlink("real/Dockerfile", path.join("Dockerfile")).expect("link");
        for name in ["sub/Dockerfile", "Dockerfile"] {
            let why = why(path, name);
            assert!(why.contains("is a link; name what it leads to"), "{why}");
        }
        assert!(why(path, "real").contains("is no file"));
        assert!(why(path, "real/../real/Dockerfile").contains("leaves the context"));
        let (_, text) =
            BuildContext::open(path, "real/Dockerfile".into(), false).expect("the file itself");
        assert_eq!(text, "FROM scratch\n");
        symlink("/etc/passwd", path.join(".dockerignore")).expect("link");
        assert!(why(path, "real/Dockerfile").contains(".dockerignore"));
        fs::write(path.join("real/Dockerfile"), "#".repeat(1 << 20) + "x").expect("file");
        assert!(why(path, "real/Dockerfile").contains("more than 1048576 bytes"));
    }

    #[test]
    fn named_pipe_as_dockerfile_does_not_block() {
        let folder = tempfile::tempdir().expect("folder");
        let pipe = folder.path().join("Dockerfile");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            FileType::Fifo,
            rustix::fs::Mode::from(0o600),
            0,
        )
        .expect("pipe");
        assert!(why(folder.path(), "Dockerfile").contains("is no file"));
    }
}
