//! Gives the code's user an entry in an image's files of users.
//!
//! `git`, `ssh`, `whoami` and Python's `getpass` fail for a user without an entry, and few images
//! have one for the user of the code. The image's own files are read through a container that is
//! never started.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use bollard::models::HostConfig;
use bollard::query_parameters::DownloadFromContainerOptions;
use futures_util::StreamExt as _;
use sandbox_core::Result;
use sandbox_host::{lock, state};
use serde::{Deserialize, Serialize};

use crate::Tier;
use crate::create::{create, never_started};
use crate::engine::Engine;
use crate::error::{Operation, engine_error, has_status};

/// Maximum size of an image's file in bytes. A longer one is left as it is.
const SIZE_LIMIT: usize = 64 << 10;

/// What a tar archive adds to a file: headers, padding and the end.
const ARCHIVE_LIMIT: usize = SIZE_LIMIT + (16 << 10);

/// The folder of known files in the state folder, and the number of images from which on it is
/// cleared.
const KNOWN: (&str, usize) = ("image-users", 512);

/// An image's files with the entry that they lack. `None` for a file that needs none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserFiles {
    /// `/etc/passwd`.
    pub passwd: Option<String>,
    /// `/etc/group`.
    pub group: Option<String>,
}

impl UserFiles {
    /// The files for this user and group of code in the image with this id. Reads an image once, and
    /// remembers the answer in `state_folder`, where other processes of this user find it.
    ///
    /// # Errors
    ///
    /// The engine's errors.
    pub(crate) async fn of(
        tier: Tier,
        engine: &Engine,
        image: &str,
        code: (u32, u32),
        state_folder: Option<&Path>,
    ) -> Result<Self> {
        // The id is the hash of the image's content, so it says the same on each engine.
        let text = format!("{image} {} {}", code.0, code.1);
        let key = blake3::hash(text.as_bytes()).to_hex().to_string();
        if let Some(files) = lock(known()).get(&key) {
            return Ok(files.clone());
        }
        let store = store(tier, state_folder).map(|folder| folder.join(&key));
        let stored = store.as_deref().and_then(read);
        let files = match stored {
            Some(files) => files,
            None => {
                let files = Self::read_image(tier, engine, image, code).await?;
                if let Some(path) = &store {
                    write(path, &files);
                }
                files
            }
        };
        lock(known()).insert(key, files.clone());
        Ok(files)
    }

    async fn read_image(
        tier: Tier,
        engine: &Engine,
        image: &str,
        (user, group): (u32, u32),
    ) -> Result<Self> {
        let body = never_started(tier, image, HostConfig::default());
        let container = create(tier, engine, None, body).await?;
        let both = async {
            let passwd = file_of(tier, engine, container.container(), "/etc/passwd").await?;
            let groups = file_of(tier, engine, container.container(), "/etc/group").await?;
            Ok(Self {
                passwd: passwd.and_then(|text| {
                    with_entry(&text, user, |name| {
                        format!("{name}:x:{user}:{group}:sandbox:/tmp:/bin/sh")
                    })
                }),
                group: groups
                    .and_then(|text| with_entry(&text, group, |name| format!("{name}:x:{group}:"))),
            })
        };
        let files = both.await;
        let removed = container.remove(&engine.client).await;
        let files = files?;
        removed?;
        Ok(files)
    }
}

/// Adds a line if none has this number in its third field.
fn with_entry(text: &str, id: u32, line: impl Fn(&str) -> String) -> Option<String> {
    let field = |line: &str, number: usize| line.split(':').nth(number).map(ToOwned::to_owned);
    let has = |number: usize, value: &str| {
        text.lines()
            .any(|line| field(line, number).as_deref() == Some(value))
    };
    if has(2, &id.to_string()) {
        return None;
    }
    let name = match has(0, "sandbox") {
        true => format!("sandbox-{id}"),
        false => "sandbox".to_owned(),
    };
    let separator = match text.is_empty() || text.ends_with('\n') {
        true => "",
        false => "\n",
    };
    Some(format!("{text}{separator}{}\n", line(&name)))
}

/// A regular text file of a container. `None` if it is missing, something else, or too long.
async fn file_of(
    tier: Tier,
    engine: &Engine,
    container: &str,
    path: &str,
) -> Result<Option<String>> {
    let options = DownloadFromContainerOptions {
        path: path.to_owned(),
    };
    let stream = engine
        .client
        .download_from_container(container, Some(options));
    let mut stream = std::pin::pin!(stream);
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(error) if has_status(&error, 404) => return Ok(None),
            Err(error) => return Err(engine_error(tier, Operation::Inspect, error)),
        }
        if bytes.len() > ARCHIVE_LIMIT {
            return Ok(None);
        }
    }
    Ok(first_file(&bytes))
}

/// The text of the archive's first entry, if that is a regular file.
fn first_file(archive: &[u8]) -> Option<String> {
    let mut archive = tar::Archive::new(archive);
    let entry = archive.entries().ok()?.next()?.ok()?;
    if !entry.header().entry_type().is_file() {
        return None;
    }
    let mut text = String::new();
    entry
        .take(SIZE_LIMIT as u64 + 1)
        .read_to_string(&mut text)
        .ok()?;
    (text.len() <= SIZE_LIMIT).then_some(text)
}

fn known() -> &'static Mutex<HashMap<String, UserFiles>> {
    static KNOWN: OnceLock<Mutex<HashMap<String, UserFiles>>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default)
}

/// The folder in the state folder. `None` without a usable one: an image is then read once for each
/// process.
fn store(tier: Tier, configured: Option<&Path>) -> Option<PathBuf> {
    let folder = state::folder(configured, state::user());
    if let Err(error) = state::prepare(tier.name, &folder, state::user()) {
        tracing::debug!(%error, "the users of images are not remembered");
        return None;
    }
    Some(folder.join(KNOWN.0))
}

fn read(path: &Path) -> Option<UserFiles> {
    let text = state::read_private(path, 4 * SIZE_LIMIT as u64).ok()?;
    // What another version wrote is read from the image again.
    serde_json::from_slice(&text).ok()
}

fn write(path: &Path, files: &UserFiles) {
    let Some(folder) = path.parent() else { return };
    let written = || -> std::io::Result<()> {
        if let Err(cause) = std::fs::create_dir(folder)
            && cause.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(cause);
        }
        if std::fs::read_dir(folder)?.count() >= KNOWN.1 {
            for entry in std::fs::read_dir(folder)? {
                std::fs::remove_file(entry?.path())?;
            }
        }
        // Another process must not read half of it.
        let key = path.file_name().unwrap_or_default().display();
        let temporary = folder.join(format!(".{key}-{}", std::process::id()));
        let _ = std::fs::remove_file(&temporary);
        state::write_private(&temporary, &serde_json::to_vec(files)?)?;
        std::fs::rename(temporary, path)
    };
    if let Err(cause) = written() {
        tracing::debug!(%cause, "the users of an image are not remembered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passwd(text: &str) -> Option<String> {
        with_entry(text, 1000, |name| format!("{name}:x:1000:7::/tmp:/bin/sh"))
    }

    #[test]
    fn entry_is_added_only_for_an_unknown_number() {
        let text = "root:x:0:0::/root:/bin/sh\n";
        let added = passwd(text).expect("it has none");
        assert_eq!(added, format!("{text}sandbox:x:1000:7::/tmp:/bin/sh\n"));
        assert_eq!(passwd(&added), None);
        assert_eq!(passwd("node:x:1000:1000::/home/node:/bin/bash"), None);
        // A name or a group with the number is no such user.
        let other = "1000:x:5:1000:1000:/:/bin/sh";
        let expected = format!("{other}\nsandbox:x:1000:7::/tmp:/bin/sh\n");
        assert_eq!(passwd(other).as_deref(), Some(expected.as_str()));
        let taken = "sandbox:x:5:5::/:/bin/sh\n";
        let added = passwd(taken).expect("it has none");
        assert!(added.ends_with("\nsandbox-1000:x:1000:7::/tmp:/bin/sh\n"));
        assert_eq!(
            passwd("").as_deref(),
            Some("sandbox:x:1000:7::/tmp:/bin/sh\n")
        );
    }

    #[test]
    fn only_a_short_regular_text_file_is_read() {
        let archive = |kind: tar::EntryType, content: &[u8]| {
            let mut archive = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            let link = (kind == tar::EntryType::Symlink).then_some("/etc/shadow");
            if let Some(link) = link {
                header.set_link_name(link).expect("a link");
            }
            archive
                .append_data(&mut header, "passwd", content)
                .expect("an entry");
            archive.into_inner().expect("an archive")
        };
        let file = |content| first_file(&archive(tar::EntryType::Regular, content));
        assert_eq!(file(b"a:b\n").as_deref(), Some("a:b\n"));
        assert_eq!(file(b"\xff\n"), None);
        assert_eq!(file(&[b'a'; SIZE_LIMIT + 1]), None);
        assert_eq!(first_file(&archive(tar::EntryType::Symlink, b"")), None);
        assert_eq!(first_file(b"no archive"), None);
        assert_eq!(first_file(&[]), None);
    }

    #[test]
    fn remembered_files_are_those_that_were_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(KNOWN.0).join("key");
        assert_eq!(read(&path), None);
        let files = UserFiles {
            passwd: Some("a\n".into()),
            group: None,
        };
        write(&path, &files);
        assert_eq!(read(&path), Some(files));
        std::fs::write(&path, "{\"passwd\":1}").expect("written");
        assert_eq!(read(&path), None);
        for number in 0..KNOWN.1 {
            let other = path.with_file_name(number.to_string());
            std::fs::write(other, "").expect("written");
        }
        write(&path, &UserFiles::default());
        let folder = std::fs::read_dir(folder.path().join(KNOWN.0));
        assert_eq!(folder.expect("there").count(), 1);
        assert_eq!(read(&path), Some(UserFiles::default()));
    }
}
