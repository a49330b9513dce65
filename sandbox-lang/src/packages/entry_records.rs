//! Verifies that a cache entry is what was installed.
//!
//! The cache is in the user's home folder, where code of a sandbox may once have written. So the
//! expected content of an entry is recorded where no code writes: in the state folder of the
//! backend. A record holds two hashes of an entry's tree:
//!
//! - The *content*: paths, file types, permission bits, owners, link targets, and the bytes of
//!   every file.
//! - The *fingerprint*: the same, but with device, inode, length and times of each file instead of
//!   its bytes.
//!
//! A fingerprint costs one `stat` per file. Against code in a sandbox it is as reliable as the
//! content: every change of a file sets its change time (`ctime`) from the system clock, which only
//! root can set. If the fingerprint differs, the content decides: a restored backup has other
//! inodes.

use std::fs::{DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blake3::{Hash, Hasher};
use sandbox_core::spi::unique_name;

/// The maximum size of a record.
const MAX_RECORD: u64 = 1024;

/// The records of one cache.
#[derive(Debug, Clone)]
pub(super) struct EntryRecords {
    folder: PathBuf,
    /// Distinguishes caches that share a state folder.
    cache: Hash,
}

impl EntryRecords {
    /// The records in this private state folder for the cache in this folder.
    pub(super) fn open(state: &Path, cache: &Path) -> io::Result<Self> {
        let folder = state.join("packages");
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made?;
        Ok(Self {
            folder,
            cache: blake3::hash(cache.as_os_str().as_bytes()),
        })
    }

    fn path(&self, key: &str) -> PathBuf {
        let cache = self.cache.to_hex();
        self.folder.join(format!("{key}.{}", &cache[..16]))
    }

    /// Records the tree of an entry.
    pub(super) fn write(&self, key: &str, tree: &Path) -> io::Result<()> {
        self.record(key, &TreeDigest::of(tree, true)?)
    }

    /// Whether this tree matches the record of the key.
    pub(super) fn holds(&self, key: &str, tree: &Path) -> io::Result<bool> {
        let known = match read(&self.path(key)) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(false),
            known => known?,
        };
        let mut lines = known.lines();
        let (content, fingerprint) = (lines.next(), lines.next());
        let metadata = TreeDigest::of(tree, false)?;
        if fingerprint == Some(metadata.fingerprint.to_hex().as_str()) {
            return Ok(true);
        }
        let metadata = TreeDigest::of(tree, true)?;
        if content != Some(metadata.content.to_hex().as_str()) {
            return Ok(false);
        }
        self.record(key, &metadata)?;
        Ok(true)
    }

    fn record(&self, key: &str, digest: &TreeDigest) -> io::Result<()> {
        let new = self.folder.join(unique_name("new"));
        let text = format!("{}\n{}\n", digest.content, digest.fingerprint);
        let mut file = std::fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        std::fs::rename(&new, self.path(key))
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    io::Read::read_to_string(&mut io::Read::take(file, MAX_RECORD), &mut text)?;
    Ok(text)
}

struct TreeDigest {
    content: Hash,
    fingerprint: Hash,
}

impl TreeDigest {
    /// Hashes a tree; its content only on request.
    fn of(tree: &Path, with_content: bool) -> io::Result<Self> {
        let mut hasher = TreeHasher {
            content: with_content.then(Hasher::new),
            fingerprint: Hasher::new(),
        };
        hasher.entry(tree, Path::new(""), &tree.symlink_metadata()?)?;
        let content = hasher.content.unwrap_or_default();
        Ok(Self {
            content: content.finalize(),
            fingerprint: hasher.fingerprint.finalize(),
        })
    }
}

struct TreeHasher {
    content: Option<Hasher>,
    fingerprint: Hasher,
}

impl TreeHasher {
    /// Adds what is at `path`, named `name` in the tree, and everything below.
    fn entry(&mut self, path: &Path, name: &Path, metadata: &Metadata) -> io::Result<()> {
        self.add(name.as_os_str().as_bytes());
        let values = [metadata.mode(), metadata.uid(), metadata.gid()];
        for value in values {
            self.add(&value.to_le_bytes());
        }
        let kind = metadata.file_type();
        if kind.is_symlink() {
            self.add(std::fs::read_link(path)?.as_os_str().as_bytes());
        }
        self.add_change_metadata(metadata);
        if kind.is_file() {
            if let Some(content) = &mut self.content {
                let mut file = Hasher::new();
                file.update_reader(std::fs::File::open(path)?)?;
                content.update(file.finalize().as_bytes());
            }
        } else if kind.is_dir() {
            let mut entries = std::fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
            entries.sort_by_key(DirEntry::file_name);
            self.add(&(entries.len() as u64).to_le_bytes());
            for entry in entries {
                let name = name.join(entry.file_name());
                self.entry(&entry.path(), &name, &entry.metadata()?)?;
            }
        } else if kind.is_char_device() || kind.is_block_device() {
            self.add(&metadata.rdev().to_le_bytes());
        }
        Ok(())
    }

    /// Metadata that the kernel changes with every change of a file.
    fn add_change_metadata(&mut self, metadata: &Metadata) {
        for value in [
            metadata.dev(),
            metadata.ino(),
            metadata.nlink(),
            metadata.size(),
        ] {
            self.fingerprint.update(&value.to_le_bytes());
        }
        for time in [
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ] {
            self.fingerprint.update(&time.to_le_bytes());
        }
    }

    /// Bytes with their length, so that different lists never hash alike.
    fn add(&mut self, bytes: &[u8]) {
        for hasher in self.content.iter_mut().chain([&mut self.fingerprint]) {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn tree(folder: &Path) -> PathBuf {
        let tree = folder.join("tree");
        std::fs::create_dir_all(tree.join("lib")).expect("made");
        std::fs::write(tree.join("lib/module.py"), "genuine").expect("written");
        symlink("lib", tree.join("link")).expect("a link");
        tree
    }

    fn records(folder: &Path) -> EntryRecords {
        EntryRecords::open(&folder.join("state"), Path::new("/cache")).expect("made")
    }

    #[test]
    fn any_change_of_a_tree_is_detected() {
        type EntryEdit = fn(&Path) -> io::Result<()>;
        let changes: [(&str, EntryEdit); 8] = [
            ("a file's bytes", |tree| {
                let file = tree.join("lib/module.py");
                let before = file.metadata()?.modified()?;
                std::fs::write(&file, "replace")?;
                // Settable by code.
                std::fs::File::options()
                    .write(true)
                    .open(&file)?
                    .set_modified(before)
            }),
            ("a new file", |tree| {
                std::fs::write(tree.join("x.pth"), "import x")
            }),
            ("a file less", |tree| {
                std::fs::remove_file(tree.join("lib/module.py"))
            }),
            ("a link", |tree| {
                std::fs::remove_file(tree.join("link"))?;
                symlink("/etc", tree.join("link"))
            }),
            ("a folder that became a link", |tree| {
                std::fs::rename(tree.join("lib"), tree.with_file_name("other"))?;
                symlink("../other", tree.join("lib"))
            }),
            ("permissions", |tree| {
                let mode = std::fs::Permissions::from_mode(0o777);
                std::fs::set_permissions(tree.join("lib"), mode)
            }),
            ("a name", |tree| {
                std::fs::rename(tree.join("lib/module.py"), tree.join("lib/m.py"))
            }),
            ("everything", |tree| {
                std::fs::remove_dir_all(tree.join("lib"))
            }),
        ];
        for (what, change) in changes {
            let folder = tempfile::tempdir().expect("a folder");
            let (tree, records) = (tree(folder.path()), records(folder.path()));
            assert!(
                !records.holds("key", &tree).expect("read"),
                "nothing recorded"
            );
            records.write("key", &tree).expect("recorded");
            assert!(records.holds("key", &tree).expect("read"));
            assert!(!records.holds("other", &tree).expect("read"));
            change(&tree).expect(what);
            assert!(!records.holds("key", &tree).expect("read"), "{what}");
        }
    }

    #[test]
    fn equal_content_in_other_inodes_is_accepted() {
        let folder = tempfile::tempdir().expect("a folder");
        let (tree, records) = (tree(folder.path()), records(folder.path()));
        records.write("key", &tree).expect("recorded");
        let file = tree.join("lib/module.py");
        std::fs::copy(&file, folder.path().join("copy")).expect("copied");
        std::fs::rename(folder.path().join("copy"), &file).expect("replaced");
        for _ in 0..2 {
            assert!(records.holds("key", &tree).expect("read"));
        }
    }

    #[test]
    fn caches_have_separate_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let (tree, records) = (tree(folder.path()), records(folder.path()));
        records.write("key", &tree).expect("recorded");
        let state = folder.path().join("state");
        let other = EntryRecords::open(&state, Path::new("/other")).expect("made");
        assert!(!other.holds("key", &tree).expect("read"));
        let mode = state.join("packages").metadata().expect("there").mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
