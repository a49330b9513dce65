//! Policies with one invalid field.

use std::path::PathBuf;
use std::time::Duration;

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{ByteSize, Capability, CapabilityPolicy, ErrorKind, MountSource, Storage};

use super::AdmissionCase;

const INVALID: Option<ErrorKind> = Some(ErrorKind::InvalidPolicy);

pub(super) const CASES: &[AdmissionCase] = &[
    (
        "a relative read root",
        |policy, _| policy.filesystem_read_roots = paths("usr/share"),
        INVALID,
    ),
    (
        "a read root with ..",
        |policy, _| policy.filesystem_read_roots = paths("/usr/../etc"),
        INVALID,
    ),
    (
        "a read root with NUL",
        |policy, _| policy.filesystem_read_roots = paths("/usr\0/share"),
        INVALID,
    ),
    (
        "a relative write root",
        |policy, _| policy.filesystem_write_roots = paths("tmp"),
        INVALID,
    ),
    (
        "a write root with ..",
        |policy, _| policy.filesystem_write_roots = paths("/tmp/../etc"),
        INVALID,
    ),
    (
        "a mount source with ..",
        |policy, _| policy.mount_sources = sources("/tmp/../etc"),
        INVALID,
    ),
    (
        "a relative mount source",
        |policy, _| policy.mount_sources = sources("tmp"),
        INVALID,
    ),
    (
        "storage with ..",
        |policy, _| store(policy, "data", "/tmp/../etc"),
        INVALID,
    ),
    (
        "storage at a relative path",
        |policy, _| store(policy, "data", "tmp"),
        INVALID,
    ),
    (
        "storage with a slash in its name",
        |policy, _| store(policy, "a/b", "/tmp"),
        INVALID,
    ),
    (
        "storage with an empty name",
        |policy, _| store(policy, "", "/tmp"),
        INVALID,
    ),
    (
        "a secret with a slash in its name",
        |policy, _| policy.secrets = words("a/b"),
        INVALID,
    ),
    (
        "a secret without a name",
        |policy, _| policy.secrets = words(""),
        INVALID,
    ),
    (
        "an export path with ..",
        |policy, _| policy.artifact_export_paths = words("/out/../etc"),
        INVALID,
    ),
    (
        "an empty export path",
        |policy, _| policy.artifact_export_paths = words(""),
        INVALID,
    ),
    (
        "an export path with NUL",
        |policy, _| policy.artifact_export_paths = words("/out\0"),
        INVALID,
    ),
    (
        "no time",
        |policy, _| policy.timeout = Some(Duration::ZERO),
        INVALID,
    ),
    (
        "no lifetime",
        |policy, _| policy.lifetime = Some(Duration::ZERO),
        INVALID,
    ),
    (
        "a millisecond less for files",
        |policy, _| policy.file_timeout = Some(Duration::from_micros(999)),
        INVALID,
    ),
    ("no process", |policy, _| policy.pids = Some(0), INVALID),
    (
        "seven open files",
        |policy, _| policy.open_files = Some(7),
        INVALID,
    ),
    (
        "a byte less than 1 MiB of memory",
        |policy, _| policy.memory = bytes((1 << 20) - 1),
        INVALID,
    ),
    (
        "a byte less than a page of disk",
        |policy, _| policy.disk = bytes(4095),
        INVALID,
    ),
    (
        "packages without installation",
        |policy, _| {
            (policy.packages, policy.package_installation) = (words("six"), Some(false));
        },
        INVALID,
    ),
    (
        "a package that is a path",
        |policy, _| policy.packages = words("../six"),
        INVALID,
    ),
    (
        "a package of a repository",
        |policy, _| policy.packages = words("git+https://example.org/six"),
        INVALID,
    ),
    (
        "a package at an address",
        |policy, _| policy.packages = words("six @ https://example.org/six.whl"),
        INVALID,
    ),
    (
        "an option of an installer",
        |policy, _| policy.packages = words("--index-url=https://example.org"),
        INVALID,
    ),
    (
        "a package with an option",
        |policy, _| policy.packages = words("six --pre"),
        INVALID,
    ),
    (
        "a package with a condition",
        |policy, _| policy.packages = words("six; os_name == 'posix'"),
        INVALID,
    ),
    (
        "a package of npm with a tag",
        |policy, _| policy.packages = words("npm:six@latest"),
        INVALID,
    ),
    (
        "a package of npm in a folder",
        |policy, _| policy.packages = words("npm:six@file:../six"),
        INVALID,
    ),
    (
        "a hash without a version",
        |policy, _| policy.packages = vec![format!("six#sha256:{}", "0".repeat(64))],
        INVALID,
    ),
    (
        "a short hash",
        |policy, _| policy.packages = vec![format!("six==1#sha256:{}", "0".repeat(63))],
        INVALID,
    ),
    (
        "a package with a hash beside one without",
        |policy, _| {
            let hash = "0".repeat(64);
            policy.packages = vec![format!("toml==1.0#sha256:{hash}"), "six".into()];
        },
        // Only a specification says which packages are installed together.
        Some(ErrorKind::InvalidSpec),
    ),
    (
        "a package of the system",
        |policy, _| policy.packages = words("apt:six"),
        Some(ErrorKind::LibrariesNotSupported),
    ),
    (
        "an image pattern with a space",
        |policy, _| policy.images = Some(words("a b")),
        INVALID,
    ),
    (
        "output that goes unenforced",
        |policy, _| {
            policy.allow_unenforced = vec![Capability::StdoutMaxBytes];
        },
        INVALID,
    ),
    (
        "the smallest values",
        |policy, _| {
            policy.timeout = Some(Duration::from_millis(1));
            policy.lifetime = Some(Duration::from_millis(1));
            policy.file_timeout = Some(Duration::from_millis(1));
            (policy.pids, policy.open_files) = (Some(1), Some(8));
            (policy.memory, policy.disk) = (bytes(1 << 20), bytes(4096));
        },
        None,
    ),
    (
        "valid paths and names",
        |policy, _| {
            policy.filesystem_read_roots = paths("/usr/..share");
            policy.mount_sources = sources("/tmp/a..b");
            policy.secrets = words("_a.B-9");
            policy.artifact_export_paths = words("out/..x/*.{a,b}");
            store(policy, "9.a-B_", "/tmp/...");
        },
        None,
    ),
    (
        "packages by name",
        |policy, _| {
            policy.packages = vec![
                "requests[socks]>=2,<3".into(),
                "pip:six".into(),
                "npm:@scope/name@^4.1".into(),
                "gem:rack~>3.0".into(),
                "go:example.org/greet@v1.2".into(),
                "cargo:serde[derive]@1".into(),
                "cran:jsonlite==1.8.9".into(),
            ];
        },
        None,
    ),
    (
        "rules for addresses and names",
        |policy, _| {
            let rules = ["198.51.100.0/24:443 tcp", "*.example.com", "!10.0.0.0/8"];
            let rules = rules.into_iter().filter_map(|rule| rule.parse().ok());
            policy.network = Some(NetworkPolicy::Allow(rules.collect()));
        },
        None,
    ),
];

fn paths(path: &str) -> Option<Vec<PathBuf>> {
    Some(vec![path.into()])
}

fn sources(path: &str) -> Option<Vec<MountSource>> {
    Some(vec![MountSource::read_only(path)])
}

fn words(word: &str) -> Vec<String> {
    vec![word.to_owned()]
}

fn store(policy: &mut CapabilityPolicy, name: &str, path: &str) {
    policy.storage.insert(name.to_owned(), Storage::path(path));
}

fn bytes(count: u64) -> Option<ByteSize> {
    Some(ByteSize::bytes(count))
}
