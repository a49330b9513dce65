//! Sample hosts and sample paths of the host.

use std::path::Path;
use std::sync::Arc;

use sandbox_core::{CapabilityPolicy, Plan, Result, SandboxSpec};
use sandbox_lang::packages::ProvisionNetwork;

use super::super::{LocalPlan, LoweringContext, lower};
use crate::host::cgroup::{Swap, V1, V2};
use crate::host::{
    Availability, Cgroups, FileKind, Host, Isolation, PlanPaths, Root, Seccomp, Stamp, User,
};

pub(super) struct Sample {
    pub(super) host: Host,
    pub(super) isolation: Isolation,
    pub(super) host_paths: PlanPaths,
}

impl Sample {
    /// Root with cgroup v1.
    pub(super) fn root() -> Self {
        let folder = |name: &str| Some(Path::new("/sys/fs/cgroup").join(name));
        Self {
            host: Host {
                user: User {
                    id: 0,
                    group: 0,
                    can_map_ids: true,
                },
                namespaces: Availability::Present,
                proc_mount: Availability::Present,
                id_mapped_mounts: Availability::Present,
                cgroups: Cgroups::V1(V1 {
                    memory: folder("memory"),
                    cpu: folder("cpu"),
                    pids: folder("pids"),
                    swap: Swap::Limited,
                    markers: Vec::new(),
                }),
                landlock_abi: 7,
                seccomp: Seccomp {
                    filters: true,
                    notification: true,
                },
                lone_python3: None,
            },
            isolation: Isolation::Privileged,
            host_paths: PlanPaths {
                platform: platform(),
                ..PlanPaths::default()
            },
        }
    }

    /// An ordinary user whose systemd delegates memory and pids on cgroup v2.
    pub(super) fn user() -> Self {
        let mut sample = Self::root();
        sample.host.user = User {
            id: 1234,
            group: 1234,
            can_map_ids: false,
        };
        sample.host.cgroups = Cgroups::V2(V2 {
            folder: "/sys/fs/cgroup/user.slice/app.slice".into(),
            memory: true,
            cpu: false,
            pids: true,
            swap: Swap::Limited,
            scope: None,
        });
        sample.isolation = Isolation::UserNamespace;
        sample
    }

    /// An ordinary user on a host without user namespaces and control groups.
    pub(super) fn landlock() -> Self {
        let mut sample = Self::user();
        let missing = Availability::Missing {
            reason: "denied".into(),
            fix: "allow them".into(),
        };
        sample.host.namespaces = missing.clone();
        sample.host.proc_mount = missing;
        sample.host.cgroups = Cgroups::None {
            reason: "no delegation".into(),
            fix: "delegate".into(),
        };
        sample.isolation = Isolation::Landlock;
        sample
    }

    pub(super) fn lower(&self, plan: &Plan) -> Result<LocalPlan> {
        let landlock = self.isolation == Isolation::Landlock;
        lower(
            plan,
            &LoweringContext {
                tier: "local",
                host: &self.host,
                isolation: self.isolation,
                host_paths: &self.host_paths,
                state: Path::new("/run/sandbox"),
                private: Path::new("/run/sandbox/private-1"),
                agent: if landlock { 4321 } else { 1 },
                user_tasks: 40,
                provision: &ProvisionNetwork::Full,
            },
        )
    }
}

pub(super) fn plan(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Plan {
    Plan::resolve(spec, policy).expect("a plan")
}

pub(super) fn folder(path: &str) -> Root {
    Root {
        requested: path.into(),
        object: None,
        links: Vec::new(),
        path: path.into(),
        kind: FileKind::Folder,
        owner: (1234, 1234),
        mode: 0o755,
        named: true,
        stamp: None,
    }
}

pub(super) fn file(path: &str) -> Root {
    Root {
        kind: FileKind::File,
        mode: 0o644,
        ..folder(path)
    }
}

pub(super) fn link(at: &str, says: &str, root: Root) -> Root {
    Root {
        links: vec![(at.into(), says.into())],
        ..root
    }
}

/// A small platform with a merged `/usr`.
fn platform() -> Arc<[Root]> {
    Arc::new([
        folder("/usr"),
        link("/bin", "usr/bin", folder("/usr/bin")),
        link("/lib64", "usr/lib64", folder("/usr/lib64")),
        file("/etc/ld.so.cache"),
        Root {
            stamp: Some(Stamp::sample()),
            ..file("/etc/services")
        },
        folder("/etc/ssl/certs"),
        link(
            "/etc/localtime",
            "/usr/share/zoneinfo/Etc/UTC",
            file("/usr/share/zoneinfo/Etc/UTC"),
        ),
    ])
}
