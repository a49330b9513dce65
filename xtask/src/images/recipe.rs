//! The test images: what is in each, and how it is configured.

use clap::ValueEnum;

use super::archive::Entry;
use super::{busybox, python};

/// The label that holds [`Recipe::hash`]; an image without it is not ours.
pub const LABEL: &str = "sandbox-test.recipe";
const PATH: &str = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The images that can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Busybox as root, with an environment variable that must not reach guests
    Busybox,
    /// The same files, but another user, working folder, and an entry point that must not run
    BusyboxUser,
    /// An empty folder and one file; no program at all
    Scratch,
    /// Debian with Python 3
    Python,
}

/// Where an image's files come from. Each is one archive in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Entries that we write, and where `busybox` is set that program from this machine.
    Entries {
        /// Name of the archive, without its hash.
        name: &'static str,
        /// Whether the archive holds busybox and a link for each of its applets.
        busybox: bool,
        /// The folders, files and links.
        entries: Vec<Entry>,
    },
    /// Debian packages.
    Debian {
        /// Name of the archive, without its hash.
        name: &'static str,
        /// What mmdebstrap is called with, but for the mirror and the archive.
        arguments: Vec<String>,
    },
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Repository and tag.
    pub reference: &'static str,
    /// A second reference, taken only where no foreign image has it.
    pub alias: Option<&'static str>,
    /// The files.
    pub contents: Contents,
    /// The configuration, as Dockerfile instructions.
    pub changes: Vec<&'static str>,
}

impl Name {
    /// How to build the image.
    pub fn recipe(self) -> Recipe {
        match self {
            Self::Busybox => Recipe {
                reference: "sandbox-test/busybox:latest",
                alias: None,
                contents: busybox::contents(),
                changes: vec![
                    PATH,
                    "ENV SANDBOX_IMAGE_ENV_CANARY=leak",
                    "CMD [\"/bin/sh\"]",
                ],
            },
            Self::BusyboxUser => Recipe {
                reference: "sandbox-test/busybox-user:latest",
                alias: None,
                contents: busybox::contents(),
                changes: vec![
                    PATH,
                    "ENV SANDBOX_IMAGE_ENV_CANARY=leak",
                    "USER 1000:1000",
                    "WORKDIR /home/guest",
                    "ENTRYPOINT [\"/bin/sh\", \"-c\", \"echo image-entrypoint-ran >&2; exit 93\"]",
                    "CMD [\"image-command\"]",
                ],
            },
            Self::Scratch => Recipe {
                reference: "sandbox-test/scratch:latest",
                alias: None,
                contents: Contents::Entries {
                    name: "scratch",
                    busybox: false,
                    entries: vec![
                        Entry::folder("etc", 0o755),
                        Entry::file("only-file", 0o644, "the only file\n"),
                    ],
                },
                changes: Vec::new(),
            },
            Self::Python => Recipe {
                reference: "sandbox-test/python:latest",
                alias: Some("python:3.11-slim"),
                contents: python::contents(),
                changes: vec![PATH, "ENV LANG=C.UTF-8", "CMD [\"python3\"]"],
            },
        }
    }
}

impl Contents {
    /// Name of the archive, without its hash.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Entries { name, .. } | Self::Debian { name, .. } => name,
        }
    }

    /// 16 hexadecimal digits that change with anything that goes into the archive.
    pub fn hash(&self) -> String {
        short_hash(&format!("{} {self:?}", std::env::consts::ARCH))
    }
}

impl Recipe {
    /// 16 hexadecimal digits that change with the files or the configuration.
    pub fn hash(&self) -> String {
        short_hash(&format!("{} {:?}", self.contents.hash(), self.changes))
    }
}

fn short_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_follow_contents_and_configuration() {
        let (busybox, user) = (Name::Busybox.recipe(), Name::BusyboxUser.recipe());
        assert_eq!(
            busybox.contents.hash(),
            user.contents.hash(),
            "one archive serves both"
        );
        assert_ne!(busybox.hash(), user.hash());
        assert_eq!(busybox.hash(), Name::Busybox.recipe().hash());
        let mut changed = busybox.clone();
        if let Contents::Entries { entries, .. } = &mut changed.contents {
            entries.push(Entry::folder("new", 0o755));
        }
        assert_ne!(changed.hash(), busybox.hash());
    }

    #[test]
    fn archive_names_are_unique_for_their_contents() {
        let all: Vec<_> = Name::value_variants()
            .iter()
            .map(|name| name.recipe())
            .collect();
        for one in &all {
            for other in &all {
                assert_eq!(
                    one.contents == other.contents,
                    one.contents.name() == other.contents.name()
                );
                assert_eq!(one.reference == other.reference, one == other);
            }
        }
    }
}
