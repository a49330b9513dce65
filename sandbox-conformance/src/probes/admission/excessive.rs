//! Specifications that ask for more than the policy allows, and for exactly as much.

use std::time::Duration;

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    ByteSize, CapabilityPolicy, Cpus, ErrorKind, HostMount, MountSource, SandboxSpec, Storage,
    StorageMount,
};

use super::AdmissionCase;
use crate::probes::swap::WORKSPACE;

const EXCEEDED: Option<ErrorKind> = Some(ErrorKind::PolicyExceeded);

pub(super) const CASES: &[AdmissionCase] = &[
    (
        "a byte more memory",
        |policy, spec| memory(policy, spec, 1),
        EXCEEDED,
    ),
    (
        "all the memory",
        |policy, spec| memory(policy, spec, 0),
        None,
    ),
    (
        "more processors",
        |policy, spec| {
            (policy.cpus, spec.cpus) = (Some(Cpus::milli(500)), Some(Cpus::milli(501)));
        },
        EXCEEDED,
    ),
    (
        "all processors",
        |policy, spec| {
            (policy.cpus, spec.cpus) = (Some(Cpus::milli(500)), Some(Cpus::milli(500)));
        },
        None,
    ),
    (
        "a longer lifetime",
        |policy, spec| lifetime(policy, spec, 1),
        EXCEEDED,
    ),
    (
        "the whole lifetime",
        |policy, spec| lifetime(policy, spec, 0),
        None,
    ),
    (
        "a variable",
        |policy, spec| {
            policy.env_var_access = Some(false);
            spec.env.insert("A".into(), "x".into());
        },
        EXCEEDED,
    ),
    (
        "no variable",
        |policy, _| policy.env_var_access = Some(false),
        None,
    ),
    (
        "another secret",
        |policy, spec| {
            policy.secrets = vec!["one".into()];
            spec.secrets = vec!["one".into(), "two".into()];
        },
        EXCEEDED,
    ),
    (
        "the secret",
        |policy, spec| {
            policy.secrets = vec!["one".into(), "two".into()];
            spec.secrets = vec!["two".into()];
        },
        None,
    ),
    (
        "another image",
        |policy, spec| image(policy, spec, "other:1"),
        EXCEEDED,
    ),
    (
        "an image whose name only starts alike",
        |policy, spec| image(policy, spec, "pythonic:1"),
        EXCEEDED,
    ),
    (
        "an image of another registry",
        |policy, spec| image(policy, spec, "example.org/python:1"),
        EXCEEDED,
    ),
    (
        "an allowed image",
        |policy, spec| image(policy, spec, "python:1"),
        None,
    ),
    (
        "a mount beside the source",
        |policy, spec| mount(policy, spec, "/opt/database", true),
        EXCEEDED,
    ),
    (
        "a mount above the source",
        |policy, spec| mount(policy, spec, "/opt", true),
        EXCEEDED,
    ),
    (
        "a writable mount of a source to read",
        |policy, spec| mount(policy, spec, "/opt/data", false),
        EXCEEDED,
    ),
    (
        "a writable mount of a source to write",
        |policy, spec| {
            policy.mount_sources = Some(vec![MountSource::read_write("/opt/data")]);
            spec.mounts = vec![HostMount::read_write("/opt/data", "/in")];
        },
        None,
    ),
    (
        "a mount below the source",
        |policy, spec| mount(policy, spec, "/opt/data/in", true),
        None,
    ),
    (
        "a mount outside of the roots",
        |policy, spec| {
            policy.filesystem_read_roots = Some(vec!["/opt/data".into()]);
            spec.mounts = vec![HostMount::read_only("/opt/other", "/in")];
        },
        EXCEEDED,
    ),
    (
        "a writable mount below a root to read",
        |policy, spec| {
            policy.filesystem_read_roots = Some(vec!["/opt/data".into()]);
            spec.mounts = vec![HostMount::read_write("/opt/data/in", "/in")];
        },
        EXCEEDED,
    ),
    (
        "a mount below a root to write",
        |policy, spec| {
            policy.filesystem_write_roots = Some(vec!["/opt/data".into()]);
            spec.mounts = vec![HostMount::read_write("/opt/data/in", "/in")];
        },
        None,
    ),
    (
        "storage without that name",
        |policy, spec| store(policy, spec, "other", true),
        EXCEEDED,
    ),
    (
        "a writable workspace of storage that is to read",
        |policy, spec| {
            store(policy, spec, "data", false);
            spec.storage = vec![StorageMount::read_write("data", WORKSPACE)];
        },
        EXCEEDED,
    ),
    (
        "writable storage that is to read",
        |policy, spec| store(policy, spec, "data", false),
        EXCEEDED,
    ),
    (
        "the storage",
        |policy, spec| store(policy, spec, "data", true),
        None,
    ),
    (
        "a package that is not named",
        |policy, spec| packages(policy, spec, "toml"),
        EXCEEDED,
    ),
    (
        "another version of a package",
        |policy, spec| packages(policy, spec, "six==1.15"),
        EXCEEDED,
    ),
    (
        "a part of a package that is not named",
        |policy, spec| packages(policy, spec, "six[more]"),
        EXCEEDED,
    ),
    (
        "the package in any version",
        |policy, spec| packages(policy, spec, "Six"),
        None,
    ),
    (
        "the package in its version",
        |policy, spec| packages(policy, spec, "six==1.16"),
        None,
    ),
    (
        "another package where all are allowed",
        |policy, spec| {
            policy.package_installation = Some(true);
            packages(policy, spec, "toml");
        },
        None,
    ),
    (
        "a package without installation",
        |policy, spec| {
            policy.package_installation = Some(false);
            spec.packages = vec!["six".into()];
        },
        EXCEEDED,
    ),
    (
        "egress without a network",
        |_, spec| spec.egress = Some(vec!["example.org".into()]),
        EXCEEDED,
    ),
    (
        "egress to another name",
        |policy, spec| egress(policy, spec, "example.net"),
        EXCEEDED,
    ),
    (
        "egress to the suffix itself",
        |policy, spec| egress(policy, spec, "example.com"),
        EXCEEDED,
    ),
    (
        "egress to another port",
        |policy, spec| egress(policy, spec, "example.org:22"),
        EXCEEDED,
    ),
    (
        "egress at a lower level",
        |policy, spec| egress(policy, spec, "example.org:443 tcp"),
        EXCEEDED,
    ),
    (
        "egress to private addresses",
        |policy, spec| egress(policy, spec, "example.org private"),
        EXCEEDED,
    ),
    (
        "egress to a larger network",
        |policy, spec| egress(policy, spec, "198.51.0.0/16:443 tcp"),
        EXCEEDED,
    ),
    (
        "other requests",
        |policy, spec| egress(policy, spec, "api.example.net http GET,PUT /v1/*"),
        EXCEEDED,
    ),
    (
        "another path",
        |policy, spec| egress(policy, spec, "api.example.net http GET /v2/*"),
        EXCEEDED,
    ),
    (
        "the requests",
        |policy, spec| egress(policy, spec, "api.example.net http GET /v1/a"),
        None,
    ),
    (
        "egress to the name",
        |policy, spec| egress(policy, spec, "example.org"),
        None,
    ),
    (
        "egress below the suffix",
        |policy, spec| egress(policy, spec, "a.example.com"),
        None,
    ),
    (
        "egress to a smaller network",
        |policy, spec| egress(policy, spec, "198.51.100.128/25:443 tcp"),
        None,
    ),
];

fn memory(policy: &mut CapabilityPolicy, spec: &mut SandboxSpec, more: u64) {
    policy.memory = Some(ByteSize::mib(64));
    spec.memory = Some(ByteSize::bytes((64 << 20) + more));
}

fn lifetime(policy: &mut CapabilityPolicy, spec: &mut SandboxSpec, more: u64) {
    policy.lifetime = Some(Duration::from_secs(60));
    spec.lifetime = Some(Duration::from_millis(60_000 + more));
}

fn image(policy: &mut CapabilityPolicy, spec: &mut SandboxSpec, image: &str) {
    policy.images = Some(vec!["python:*".into()]);
    spec.image = Some(image.into());
}

fn packages(policy: &mut CapabilityPolicy, spec: &mut SandboxSpec, package: &str) {
    policy.packages = vec!["six==1.16".into()];
    spec.packages = vec![package.into()];
}

fn mount(policy: &mut CapabilityPolicy, spec: &mut SandboxSpec, source: &str, read_only: bool) {
    policy.mount_sources = Some(vec![MountSource::read_only("/opt/data")]);
    spec.mounts = vec![match read_only {
        true => HostMount::read_only(source, "/in"),
        false => HostMount::read_write(source, "/in"),
    }];
}

fn store(policy: &mut CapabilityPolicy, spec: &mut SandboxSpec, name: &str, read_only: bool) {
    let storage = Storage::path("/opt/data").read_only();
    policy.storage.insert("data".into(), storage);
    spec.storage = vec![match read_only {
        true => StorageMount::read_only(name, "/in"),
        false => StorageMount::read_write(name, "/in"),
    }];
}

fn egress(policy: &mut CapabilityPolicy, spec: &mut SandboxSpec, asked: &str) {
    let rules = [
        "example.org",
        "*.example.com",
        "198.51.100.0/24:443 tcp",
        "api.example.net http GET /v1/*",
    ];
    let rules = rules.into_iter().filter_map(|rule| rule.parse().ok());
    policy.network = Some(NetworkPolicy::Allow(rules.collect()));
    spec.egress = Some(vec![asked.to_owned()]);
}
