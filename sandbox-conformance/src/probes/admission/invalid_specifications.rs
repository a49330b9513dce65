//! Specifications with one invalid field.

use std::time::Duration;

use sandbox_core::{ByteSize, ErrorKind, HostMount, SandboxSpec, Storage, StorageMount, Workspace};

use super::AdmissionCase;

const INVALID: Option<ErrorKind> = Some(ErrorKind::InvalidSpec);

/// A mount at a path, and the error.
macro_rules! target {
    ($path:literal, $error:expr) => {
        (
            concat!("a mount at ", $path),
            |_, spec| mount(spec, "/opt", $path),
            $error,
        )
    };
}

pub(super) const CASES: &[AdmissionCase] = &[
    ("no name", |_, spec| spec.name.clear(), INVALID),
    (
        "a name with a letter in upper case",
        |_, spec| spec.name = "A".into(),
        INVALID,
    ),
    (
        "a name with a slash",
        |_, spec| spec.name = "a/b".into(),
        INVALID,
    ),
    (
        "a name that starts with a dash",
        |_, spec| spec.name = "-a".into(),
        INVALID,
    ),
    (
        "a name of 64 characters",
        |_, spec| spec.name = "a".repeat(64),
        INVALID,
    ),
    (
        "a name of 63 characters",
        |_, spec| spec.name = "9-_.".repeat(15) + "abc",
        None,
    ),
    (
        "a variable without a name",
        |_, spec| set(spec, "", "x"),
        INVALID,
    ),
    (
        "a variable with =",
        |_, spec| set(spec, "A=B", "x"),
        INVALID,
    ),
    (
        "a variable with NUL",
        |_, spec| set(spec, "A\0", "x"),
        INVALID,
    ),
    ("a value with NUL", |_, spec| set(spec, "A", "x\0"), INVALID),
    ("an empty value", |_, spec| set(spec, "A", ""), None),
    (
        "a relative working folder",
        |_, spec| spec.workdir = Some("tmp".into()),
        INVALID,
    ),
    (
        "a working folder with NUL",
        |_, spec| spec.workdir = Some("/tmp\0".into()),
        INVALID,
    ),
    (
        "a relative workspace",
        |_, spec| spec.workspace = Some(Workspace::read_write("tmp")),
        INVALID,
    ),
    (
        "a workspace with NUL",
        |_, spec| spec.workspace = Some(Workspace::read_write("/t\0")),
        INVALID,
    ),
    (
        "a relative mount",
        |_, spec| mount(spec, "tmp", "/data"),
        INVALID,
    ),
    (
        "a mount with ..",
        |_, spec| mount(spec, "/tmp/../etc", "/data"),
        INVALID,
    ),
    (
        "a mount with NUL",
        |_, spec| mount(spec, "/tmp\0", "/data"),
        INVALID,
    ),
    (
        "a mount at a relative path",
        |_, spec| mount(spec, "/tmp", "data"),
        INVALID,
    ),
    (
        "a mount at the root",
        |_, spec| mount(spec, "/tmp", "/"),
        INVALID,
    ),
    (
        "a mount below ..",
        |_, spec| mount(spec, "/tmp", "/data/../etc"),
        INVALID,
    ),
    (
        "a mount with two slashes",
        |_, spec| mount(spec, "/tmp", "/data//in"),
        INVALID,
    ),
    (
        "a mount over the processes",
        |_, spec| mount(spec, "/tmp", "/proc/self"),
        INVALID,
    ),
    (
        "a mount over devices",
        |_, spec| mount(spec, "/tmp", "/dev/shm"),
        INVALID,
    ),
    (
        "a mount over system settings",
        |_, spec| mount(spec, "/tmp", "/sys"),
        INVALID,
    ),
    (
        "a mount over programs",
        |_, spec| mount(spec, "/tmp", "/usr"),
        INVALID,
    ),
    (
        "a mount over the workspace",
        |_, spec| mount(spec, "/tmp", "/workspace/in"),
        INVALID,
    ),
    (
        "a mount below sockets",
        |_, spec| mount(spec, "/tmp", "/var/run/in"),
        INVALID,
    ),
    (
        "a mount over names",
        |_, spec| mount(spec, "/tmp", "/etc/hosts"),
        INVALID,
    ),
    (
        "two mounts at one path",
        |_, spec| {
            mount(spec, "/tmp", "/data");
            mount(spec, "/usr", "/data");
        },
        INVALID,
    ),
    (
        "a mount in another",
        |_, spec| {
            mount(spec, "/tmp", "/data/in");
            mount(spec, "/usr", "/data");
        },
        INVALID,
    ),
    (
        "a mount over a root",
        |policy, spec| {
            policy.filesystem_read_roots = Some(vec!["/opt/data".into()]);
            spec.mounts = vec![HostMount::read_only("/opt/data/in", "/opt/data/out")];
        },
        INVALID,
    ),
    (
        "two mounts beside each other",
        |_, spec| {
            mount(spec, "/tmp", "/data/in");
            mount(spec, "/usr", "/data/in2");
        },
        None,
    ),
    target!("/packages/in", INVALID),
    target!("/run", INVALID),
    target!("/tmp", INVALID),
    target!("/etc", INVALID),
    target!("/bin", INVALID),
    target!("/lib64", INVALID),
    target!("/etc/passwd", INVALID),
    target!("/etc/group", INVALID),
    target!("/etc/hostname", INVALID),
    target!("/etc/resolv.conf", INVALID),
    target!("/data/./in", INVALID),
    target!("/tmp/in", None),
    target!("/runs", None),
    ("65 mounts", |_, spec| mounts(spec, 65), INVALID),
    ("64 mounts", |_, spec| mounts(spec, 64), None),
    (
        "two workspaces",
        |policy, spec| {
            policy.storage.insert("data".into(), Storage::path("/tmp"));
            spec.storage = vec![StorageMount::read_only("data", "/workspace")];
            spec.workspace = Some(Workspace::read_only("/tmp"));
        },
        INVALID,
    ),
    (
        "an image with a space",
        |_, spec| spec.image = Some("a b".into()),
        INVALID,
    ),
    (
        "a user by name",
        |_, spec| spec.user = Some("nobody".into()),
        INVALID,
    ),
    (
        "a user without a group",
        |_, spec| spec.user = Some("1000:".into()),
        INVALID,
    ),
    (
        "a user beyond the last",
        |_, spec| spec.user = Some("4294967296".into()),
        INVALID,
    ),
    (
        "no lifetime",
        |_, spec| spec.lifetime = Some(Duration::ZERO),
        INVALID,
    ),
    (
        "a byte less than 1 MiB of memory",
        |_, spec| {
            spec.memory = Some(ByteSize::bytes((1 << 20) - 1));
        },
        INVALID,
    ),
    (
        "a secret with a slash",
        |_, spec| spec.secrets = vec!["a/b".into()],
        INVALID,
    ),
    (
        "an address in another form",
        |_, spec| egress(spec, "127.1"),
        INVALID,
    ),
    (
        "an address as a number",
        |_, spec| egress(spec, "2130706433"),
        INVALID,
    ),
    (
        "an address in hexadecimal",
        |_, spec| egress(spec, "0x7f.0.0.1"),
        INVALID,
    ),
    (
        "a network with bits behind its prefix",
        |_, spec| egress(spec, "203.0.113.7/24"),
        INVALID,
    ),
    (
        "a prefix that is too long",
        |_, spec| egress(spec, "203.0.113.0/33"),
        INVALID,
    ),
    (
        "a mapped address",
        |_, spec| egress(spec, "[::ffff:203.0.113.7]"),
        INVALID,
    ),
    (
        "an address without brackets",
        |_, spec| egress(spec, "2001:db8::7"),
        INVALID,
    ),
    ("port 0", |_, spec| egress(spec, "example.org:0"), INVALID),
    (
        "port 65536",
        |_, spec| egress(spec, "example.org:65536"),
        INVALID,
    ),
    (
        "a port with a sign",
        |_, spec| egress(spec, "example.org:+80"),
        INVALID,
    ),
    (
        "a scheme",
        |_, spec| egress(spec, "https://example.org"),
        INVALID,
    ),
    (
        "a wildcard within a name",
        |_, spec| egress(spec, "a.*.example.org"),
        INVALID,
    ),
    (
        "a wildcard for every name",
        |_, spec| egress(spec, "*"),
        INVALID,
    ),
    (
        "a level twice",
        |_, spec| egress(spec, "example.org tcp name"),
        INVALID,
    ),
    (
        "a path without http",
        |_, spec| egress(spec, "example.org tcp /v1/*"),
        INVALID,
    ),
    (
        "a name level for an address",
        |_, spec| egress(spec, "203.0.113.7 name"),
        INVALID,
    ),
    (
        "words behind a rule that denies",
        |_, spec| egress(spec, "!example.org tcp"),
        INVALID,
    ),
    (
        "only a rule that denies",
        |_, spec| egress(spec, "!example.org"),
        INVALID,
    ),
    (
        "a rule of 513 bytes",
        |_, spec| egress(spec, &padded(513)),
        INVALID,
    ),
];

fn set(spec: &mut SandboxSpec, name: &str, value: &str) {
    spec.env.insert(name.to_owned(), value.to_owned());
}

fn mount(spec: &mut SandboxSpec, source: &str, target: &str) {
    spec.mounts.push(HostMount::read_only(source, target));
}

fn mounts(spec: &mut SandboxSpec, count: usize) {
    for number in 0..count {
        mount(spec, "/tmp", &format!("/data/{number}"));
    }
}

fn egress(spec: &mut SandboxSpec, rule: &str) {
    spec.egress = Some(vec![rule.to_owned()]);
}

/// A rule with a path that makes it this long.
fn padded(length: usize) -> String {
    let rule = "example.org http /".to_owned();
    let rest = "a".repeat(length - rule.len());
    rule + &rest
}
