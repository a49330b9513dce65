//! Mounts of a specification: their form, and what a policy allows.

use sandbox_core::{
    Capability, CapabilityPolicy, Error, ErrorKind, HostMount, MAX_MOUNTS, MountSource, Plan,
    Result, SandboxSpec,
};

fn with(mounts: &[HostMount], policy: &CapabilityPolicy) -> Result<Plan> {
    let mut spec = SandboxSpec::new("test");
    spec.mounts = mounts.to_vec();
    Plan::resolve(&spec, policy)
}

#[track_caller]
fn invalid(mounts: &[HostMount]) -> Error {
    let error = with(mounts, &CapabilityPolicy::new()).expect_err("invalid");
    assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
    error
}

#[test]
fn targets_are_absolute_normal_and_not_the_sandboxs_own() {
    for target in [
        "relative",
        "",
        "/",
        "/a/../b",
        "/a//b",
        "/a/./b",
        "/a/",
        "/a\0b",
        "/proc/x",
        "/sys",
        "/dev/shm/x",
        "/run/x",
        "/var/run/docker.sock",
        "/packages",
        "/workspace",
        "/workspace/x",
        "/.sandbox-agent/agent",
        "/tmp",
        "/usr",
        "/etc",
        "/lib64",
        "/etc/passwd",
        "/etc/hosts",
    ] {
        let error = invalid(&[HostMount::read_only("/srv", target)]);
        assert!(error.to_string().contains("mount target"), "{error}");
    }
    for target in [
        "/a",
        "/tmp/a",
        "/etc/app.conf",
        "/usr/local/app",
        "/procs",
        "/home/me/x",
    ] {
        let plan = with(
            &[HostMount::read_only("/srv", target)],
            &CapabilityPolicy::new(),
        );
        plan.expect(target);
    }
}

#[test]
fn sources_are_absolute_without_parents() {
    for source in ["relative", "", "/a/../b", "/a\0b"] {
        let error = invalid(&[HostMount::read_only(source, "/a")]);
        assert!(error.to_string().contains("source"), "{error}");
    }
}

#[test]
fn targets_do_not_overlap() {
    for other in ["/data", "/data/deep", "/"] {
        invalid(&[
            HostMount::read_only("/srv", "/data"),
            HostMount::read_only("/var", other),
        ]);
    }
    let beside = [
        HostMount::read_only("/srv", "/data"),
        HostMount::read_write("/srv", "/database"),
    ];
    with(&beside, &CapabilityPolicy::new()).expect("beside each other");
    let policy = CapabilityPolicy::new()
        .filesystem_read_root("/srv")
        .filesystem_write_root("/srv");
    for target in ["/srv", "/srv/deep"] {
        let error = with(&[HostMount::read_only("/srv/x", target)], &policy);
        let error = error.expect_err("over a root");
        assert!(error.to_string().contains("root of the policy"), "{error}");
    }
}

#[test]
fn number_of_mounts_is_bounded() {
    let mount = |number| HostMount::read_only("/srv", format!("/m{number}"));
    let mounts = (0..=MAX_MOUNTS).map(mount).collect::<Vec<_>>();
    with(&mounts[1..], &CapabilityPolicy::new()).expect("the maximum");
    assert!(invalid(&mounts).to_string().contains("maximum of 64"));
}

#[test]
fn sources_are_below_what_the_policy_allows() {
    let policy = CapabilityPolicy::new()
        .filesystem_read_root("/data")
        .filesystem_write_root("/scratch")
        .mount_source(MountSource::read_only("/tests"))
        .mount_source(MountSource::read_write("/results"));
    for (source, read_only, read_write) in [
        ("/data/a", true, false),
        ("/scratch/a", true, true),
        ("/tests", true, false),
        ("/results/a", true, true),
        ("/database", false, false),
        ("/", false, false),
    ] {
        for (mount, allowed) in [
            (HostMount::read_only(source, "/x"), read_only),
            (HostMount::read_write(source, "/x"), read_write),
        ] {
            assert_eq!(policy.allows_mount(&mount), allowed, "{mount}");
            match with(std::slice::from_ref(&mount), &policy) {
                Ok(plan) => assert_eq!((plan.mounts, allowed), (vec![mount], true)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::PolicyExceeded, "{error}");
                    assert!(!allowed && error.fix().is_some(), "{error}");
                    assert!(error.to_string().contains("/scratch, "), "{error}");
                }
            }
        }
    }
    // A policy that says nothing of files allows any mount, and an empty list none.
    let any = HostMount::read_write("/home", "/x");
    assert!(CapabilityPolicy::new().allows_mount(&any));
    let mut none = CapabilityPolicy::new();
    none.mount_sources = Some(Vec::new());
    assert!(!none.allows_mount(&any));
}

#[test]
fn demands_list_the_mounts() {
    let mounts = [
        HostMount::read_only("/srv", "/data"),
        HostMount::read_write("/var/x", "/results"),
    ];
    let plan = with(&mounts, &CapabilityPolicy::new()).expect("a plan");
    let value = |capability| plan.demand(capability).expect("a demand").value.clone();
    let read = value(Capability::FilesystemReadRoots);
    assert_eq!(read, "platform, /srv at /data");
    assert_eq!(
        value(Capability::FilesystemWriteRoots),
        "/var/x at /results"
    );
    let writable = plan.writable_sources().collect::<Vec<_>>();
    assert_eq!(writable, [std::path::Path::new("/var/x")]);
}
