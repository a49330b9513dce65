//! Trees of packages as archives: written from the cache, and unpacked from what a sandbox sends.
//!
//! A sandbox controls the archive that it sends. So every entry is bounded and named beneath the
//! target, only folders, files and links are made, and nothing is written through a link.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use tar::{Archive, Builder, Entry, EntryType, PaxExtensions};

/// The longest name of an entry, and the largest header with one.
const MOST_NAME: u64 = 64 * 1024;

/// What an entry counts at least: its inode and its header.
const ENTRY_SIZE: u64 = 1024;

/// Permission bits that a copy keeps.
const MODE: u32 = 0o777;

/// What becomes of links to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileLinks {
    /// They are links.
    Keep,
    /// They are files, since their targets may be elsewhere.
    Follow,
}

/// Writes everything below a folder, without the folder itself: its mode and owner are the
/// receiver's.
pub(super) fn write(folder: &Path, links: FileLinks, to: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(BufWriter::new(to));
    // Small implementations of tar do not know sparse files.
    archive.sparse(false);
    append(&mut archive, folder, links, Path::new(""))?;
    archive.into_inner()?.flush()
}

fn append(
    archive: &mut Builder<impl Write>,
    folder: &Path,
    links: FileLinks,
    below: &Path,
) -> io::Result<()> {
    let names = std::fs::read_dir(folder.join(below))?;
    let names = names.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    for name in names {
        let (name, path) = (below.join(&name), folder.join(below).join(&name));
        let found = std::fs::symlink_metadata(&path)?.file_type();
        if !(found.is_dir() || found.is_file() || found.is_symlink()) {
            return Err(refused(&name, "neither a file nor a folder nor a link"));
        }
        let is_followed = links == FileLinks::Follow && found.is_symlink() && path.is_file();
        archive.follow_symlinks(is_followed);
        archive.append_path_with_name(&path, &name)?;
        if found.is_dir() {
            append(archive, folder, links, &name)?;
        }
    }
    Ok(())
}

/// Unpacks an archive into an empty folder that nobody else writes to. Reads to the end.
///
/// # Errors
///
/// [`io::ErrorKind::FileTooLarge`] if the entries exceed `limit` bytes,
/// [`io::ErrorKind::InvalidData`] for anything that [`write()`] does not write.
pub(super) fn unpack(from: impl Read, folder: &Path, limit: u64) -> io::Result<()> {
    // Headers and padding take no more than the entries' least size.
    let mut from = from.take(limit.saturating_mul(2).saturating_add(1 << 20));
    let mut archive = Archive::new(&mut from);
    let mut left = limit;
    let (mut long_name, mut long_link) = (None, None);
    // Raw: else the whole of a long name would be in memory.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let cost = entry.size().saturating_add(ENTRY_SIZE);
        left = left.checked_sub(cost).ok_or(io::ErrorKind::FileTooLarge)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => long_name = Some(name_in(&mut entry)?),
            EntryType::GNULongLink => long_link = Some(name_in(&mut entry)?),
            EntryType::XHeader => {
                let header = header_in(&mut entry)?;
                for extension in PaxExtensions::new(&header) {
                    let extension = extension?;
                    let value = || PathBuf::from(OsStr::from_bytes(extension.value_bytes()));
                    match extension.key_bytes() {
                        b"path" => long_name = Some(value()),
                        b"linkpath" => long_link = Some(value()),
                        // Only for what does not fit into the header, which is too large anyway.
                        b"size" => return Err(io::ErrorKind::FileTooLarge.into()),
                        _ => {}
                    }
                }
            }
            EntryType::XGlobalHeader => {}
            _ => {
                let name = match long_name.take() {
                    Some(name) => name,
                    None => entry.path()?.into_owned(),
                };
                make(&mut entry, folder, &name, long_link.take())?;
            }
        }
    }
    io::copy(&mut from, &mut io::sink())?;
    match from.limit() {
        0 => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    }
}

/// Makes what an entry describes.
fn make(
    entry: &mut Entry<'_, impl Read>,
    folder: &Path,
    name: &Path,
    long_link: Option<PathBuf>,
) -> io::Result<()> {
    let kind = entry.header().entry_type();
    let mode = entry.header().mode()? & MODE;
    let Some(path) = place(folder, name)? else {
        // The folder itself.
        return Ok(());
    };
    match kind {
        // Writable for this user, so that it can be filled and removed.
        EntryType::Directory => {
            std::fs::DirBuilder::new().mode(0o700).create(&path)?;
            std::fs::set_permissions(&path, Permissions::from_mode(mode | 0o700))
        }
        EntryType::Regular | EntryType::Continuous => {
            let mut file = File::create_new(&path)?;
            let copied = io::copy(entry, &mut file)?;
            if copied != entry.size() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.set_permissions(Permissions::from_mode(mode))?;
            // Compiled modules of Python name the time of their sources.
            let time = Duration::from_secs(entry.header().mtime()?);
            match SystemTime::UNIX_EPOCH.checked_add(time) {
                Some(time) => file.set_modified(time),
                None => Err(refused(name, "its time is out of range")),
            }
        }
        EntryType::Symlink => {
            let target = match long_link {
                Some(target) => target,
                None => match entry.link_name()? {
                    Some(target) => target.into_owned(),
                    None => return Err(refused(name, "a link to nothing")),
                },
            };
            symlink(target, &path)
        }
        _ => Err(refused(name, "neither a file nor a folder nor a link")),
    }
}

/// The path of an entry, whose parents are folders that were unpacked before. `None` for the root.
fn place(folder: &Path, name: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = folder.to_owned();
    let mut parts = name.components().peekable();
    let mut is_root = true;
    while let Some(part) = parts.next() {
        match part {
            Component::CurDir => continue,
            Component::Normal(part) => path.push(part),
            _ => return Err(refused(name, "its path leaves the folder")),
        }
        is_root = false;
        if parts.peek().is_some() && !std::fs::symlink_metadata(&path)?.is_dir() {
            return Err(refused(name, "it is not in a folder"));
        }
    }
    Ok((!is_root).then_some(path))
}

fn header_in(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    if entry.size() > MOST_NAME {
        return Err(refused(Path::new("a header"), "too long"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn name_in(entry: &mut Entry<'_, impl Read>) -> io::Result<PathBuf> {
    let mut name = header_in(entry)?;
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(std::ffi::OsString::from_vec(name).into())
}

fn refused(name: &Path, why: &str) -> io::Error {
    let text = format!("{}: {why}", name.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use tar::Header;

    const LIMIT: u64 = 1 << 20;

    fn unpacked(archive: &[u8], limit: u64) -> (tempfile::TempDir, io::Result<()>) {
        let folder = tempfile::tempdir().expect("a folder");
        let done = unpack(archive, folder.path(), limit);
        (folder, done)
    }

    #[test]
    fn tree_is_the_same_after_a_transfer() {
        let folder = tempfile::tempdir().expect("a folder");
        let long = "x".repeat(200);
        let deep = folder.path().join("a").join(&long);
        std::fs::create_dir_all(&deep).expect("made");
        let file = deep.join("program");
        std::fs::write(&file, b"content").expect("written");
        std::fs::set_permissions(&file, Permissions::from_mode(0o751)).expect("set");
        let opened = File::options().write(true).open(&file).expect("opened");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        opened.set_modified(time).expect("set");
        symlink(format!("../{long}"), folder.path().join("a/link")).expect("a link");
        let mut bytes = Vec::new();
        write(folder.path(), FileLinks::Keep, &mut bytes).expect("an archive");
        // As programs pad theirs.
        bytes.resize(bytes.len() + 10_240, 0);
        let (copy, done) = unpacked(&bytes, LIMIT);
        done.expect("unpacked");
        let copied = copy.path().join("a").join(&long).join("program");
        assert_eq!(std::fs::read(&copied).expect("there"), b"content");
        let found = copied.metadata().expect("there");
        assert_eq!((found.mode() & 0o7777, found.mtime()), (0o751, 1_000_000));
        let link = std::fs::read_link(copy.path().join("a/link")).expect("a link");
        assert_eq!(link, Path::new(&format!("../{long}")));
    }

    #[test]
    fn only_links_to_files_are_followed() {
        let outside = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("file"), b"content").expect("written");
        let folder = tempfile::tempdir().expect("a folder");
        for (name, target) in [
            ("file", outside.path().join("file")),
            ("folder", outside.path().into()),
            ("missing", "/no/such/file".into()),
        ] {
            symlink(target, folder.path().join(name)).expect("a link");
        }
        let mut bytes = Vec::new();
        write(folder.path(), FileLinks::Follow, &mut bytes).expect("an archive");
        let (copy, done) = unpacked(&bytes, LIMIT);
        done.expect("unpacked");
        let is_link = ["file", "folder", "missing"].map(|name| copy.path().join(name).is_symlink());
        assert_eq!(is_link, [false, true, true]);
        let content = std::fs::read(copy.path().join("file"));
        assert_eq!(content.expect("there"), b"content");
    }

    /// Kind, name, target of a link, and content.
    type Described<'a> = (EntryType, &'a str, &'a str, &'a [u8]);

    fn archive(entries: &[Described<'_>]) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        for (kind, name, target, content) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o6777);
            header.set_mtime(0);
            header.set_size(content.len() as u64);
            // Names that the library would refuse to write.
            let gnu = header.as_gnu_mut().expect("its format");
            gnu.name[..name.len()].copy_from_slice(name.as_bytes());
            gnu.linkname[..target.len()].copy_from_slice(target.as_bytes());
            header.set_cksum();
            archive.append(&header, *content).expect("written");
        }
        archive.into_inner().expect("an archive")
    }

    #[test]
    fn hostile_archives_are_refused() {
        let outside = tempfile::tempdir().expect("a folder");
        let target = outside.path().to_str().expect("a path");
        let file = EntryType::Regular;
        let link = (EntryType::Symlink, "l", target, &b""[..]);
        let cases: [&[Described<'_>]; 9] = [
            &[(file, "../x", "", b"")],
            &[(file, "/tmp/x", "", b"")],
            &[(file, "a/../../x", "", b"")],
            &[(file, "missing/x", "", b"")],
            &[link, (file, "l/x", "", b"")],
            &[link, (file, "l", "", b"")],
            &[(EntryType::Link, "h", "/etc/passwd", b"")],
            &[(EntryType::Fifo, "p", "", b"")],
            &[(EntryType::Char, "c", "", b"")],
        ];
        for case in cases {
            let (_, done) = unpacked(&archive(case), LIMIT);
            done.expect_err(case[case.len() - 1].1);
        }
        assert_eq!(outside.path().read_dir().expect("there").count(), 0);
        let (folder, done) = unpacked(&archive(&[(file, "x", "", b"")]), LIMIT);
        done.expect("unpacked");
        let mode = folder.path().join("x").metadata().expect("there").mode();
        assert_eq!(mode & 0o7777, 0o777, "no other bits");
    }

    #[test]
    fn archives_end_at_their_limit() {
        let file = EntryType::Regular;
        let (_, done) = unpacked(&archive(&[(file, "x", "", &[0; 4096])]), 4096);
        assert_eq!(done.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let name = vec![b'x'; 70_000];
        let long = archive(&[(EntryType::GNULongName, "x", "", &name)]);
        unpacked(&long, LIMIT).1.expect_err("a long name");
        let cut = archive(&[(file, "x", "", &[0; 4096])]);
        unpacked(&cut[..2048], LIMIT).1.expect_err("half a file");
    }
}
