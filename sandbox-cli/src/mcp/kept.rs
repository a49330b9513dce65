//! Outputs and artifacts that a client can read after the call that made them.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use sandbox::{ByteSize, Error, ErrorKind, Result};

/// How many outputs and artifacts are kept; the oldest go first.
const MAX_ITEMS: usize = 128;

/// How many bytes they have together.
const MAX_BYTES: ByteSize = ByteSize::mib(256);

/// Outputs and artifacts, oldest first.
#[derive(Debug, Default)]
pub struct Kept {
    /// The number of the next one.
    next: u64,
    items: VecDeque<KeptItem>,
}

/// One output or artifact.
#[derive(Debug, Clone)]
pub struct KeptItem {
    pub uri: String,
    /// What a person would call it.
    pub name: String,
    pub media_type: Option<String>,
    pub size: u64,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Bytes(Arc<[u8]>),
    /// A file without a name, which the kernel removes with its last descriptor.
    File(Arc<File>),
}

impl KeptItem {
    /// Its content. The caller bounded its size when it was kept.
    pub fn read(&self) -> Result<Vec<u8>> {
        match &self.content {
            Content::Bytes(bytes) => Ok(bytes.to_vec()),
            Content::File(file) => {
                let mut bytes = vec![0; usize::try_from(self.size).unwrap_or(usize::MAX)];
                file.read_exact_at(&mut bytes, 0).map_err(|error| {
                    Error::new(ErrorKind::Io, "read artifact", &self.uri).with_source(error)
                })?;
                Ok(bytes)
            }
        }
    }
}

impl Kept {
    /// Keeps an output. Its URI ends with `name`.
    pub fn add_output(&mut self, name: &str, media_type: &str, bytes: &[u8]) -> KeptItem {
        let uri = format!("sandbox://outputs/{}/{name}", self.next);
        self.add(KeptItem {
            uri,
            name: name.to_owned(),
            media_type: Some(media_type.to_owned()),
            size: bytes.len() as u64,
            content: Content::Bytes(bytes.into()),
        })
    }

    /// Keeps the content of an open file of this size.
    pub fn add_artifact(
        &mut self,
        name: String,
        media_type: Option<String>,
        size: u64,
        file: File,
    ) -> KeptItem {
        let uri = format!("sandbox://artifacts/{}", self.next);
        self.add(KeptItem {
            uri,
            name,
            media_type,
            size,
            content: Content::File(Arc::new(file)),
        })
    }

    fn add(&mut self, item: KeptItem) -> KeptItem {
        self.next += 1;
        self.items.push_back(item.clone());
        let mut bytes: u64 = self.items.iter().map(|item| item.size).sum();
        while self.items.len() > MAX_ITEMS || bytes > MAX_BYTES.as_u64() {
            let Some(oldest) = self.items.pop_front() else {
                break;
            };
            bytes -= oldest.size;
        }
        item
    }

    pub fn find(&self, uri: &str) -> Option<KeptItem> {
        self.items.iter().find(|item| item.uri == uri).cloned()
    }

    pub fn iter(&self) -> impl Iterator<Item = &KeptItem> {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped_beyond_the_limits() {
        let mut kept = Kept::default();
        for _ in 0..MAX_ITEMS + 2 {
            kept.add_output("stdout", "text/plain", b"text");
        }
        assert_eq!(kept.iter().count(), MAX_ITEMS);
        assert!(kept.find("sandbox://outputs/1/stdout").is_none());
        let found = kept.find("sandbox://outputs/2/stdout").expect("kept");
        assert_eq!(found.read().expect("read"), b"text");

        let large = vec![0; MAX_BYTES.as_usize() / 2 + 1];
        kept.add_output("stdout", "text/plain", &large);
        let last = kept.add_output("stdout", "text/plain", &large);
        let uris = kept.iter().map(|item| item.uri.clone());
        assert_eq!(uris.collect::<Vec<_>>(), [last.uri]);
    }
}
