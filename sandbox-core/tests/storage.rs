//! Storage that a policy names.

use sandbox_core::policy::PolicyFile;
use sandbox_core::{
    CapabilityPolicy, ErrorKind, HostMount, Plan, Result, SandboxSpec, Storage, StorageMount,
    StoragePlace, Workspace,
};

fn policy() -> CapabilityPolicy {
    // The names are no roots, and the roots no limit for them.
    CapabilityPolicy::new()
        .filesystem_read_root("/data")
        .storage("lab", Storage::path("/srv/lab"))
        .storage("models", Storage::path("/srv/models").read_only())
        .storage("cache", Storage::volume("build-cache"))
}

fn with(storage: &[StorageMount]) -> Result<Plan> {
    let mut spec = SandboxSpec::new("sb");
    spec.storage = storage.to_vec();
    Plan::resolve(&spec, &policy())
}

#[test]
fn names_become_what_they_stand_for() {
    let plan = with(&[
        StorageMount::read_write("lab", "/workspace"),
        StorageMount::read_only("models", "/models"),
        StorageMount::read_only("lab", "/lab"),
        StorageMount::read_write("cache", "/cache"),
    ]);
    let plan = plan.expect("a plan");
    assert_eq!(plan.workspace, Some(Workspace::read_write("/srv/lab")));
    assert_eq!(
        plan.mounts,
        [
            HostMount::read_only("/srv/models", "/models"),
            HostMount::read_only("/srv/lab", "/lab"),
        ]
    );
    assert_eq!(plan.volumes.len(), 1);
    assert_eq!(
        plan.volumes[0].place,
        StoragePlace::Volume("build-cache".into())
    );
    assert_eq!(plan.volumes[0].target, std::path::Path::new("/cache"));
}

#[test]
fn policy_is_the_ceiling() {
    for (mount, says) in [
        (
            StorageMount::read_only("other", "/a"),
            "the policy has cache, lab, models",
        ),
        (StorageMount::read_write("models", "/a"), "read-only"),
    ] {
        let error = with(&[mount]).expect_err(says);
        assert_eq!(error.kind(), ErrorKind::PolicyExceeded);
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn targets_of_storage_follow_the_rules_of_mounts() {
    for mounts in [
        &[StorageMount::read_only("lab", "/proc")][..],
        &[StorageMount::read_only("lab", "/workspace/deep")],
        &[StorageMount::read_only("lab", "/data/deep")],
        &[
            StorageMount::read_only("lab", "/a"),
            StorageMount::read_only("lab", "/a/b"),
        ],
        &[StorageMount::read_only("../lab", "/a")],
    ] {
        let error = with(mounts).expect_err("invalid");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
    }
    let spec = SandboxSpec::new("sb")
        .workspace(Workspace::read_only("/srv"))
        .storage(StorageMount::read_only("lab", "/workspace"));
    let error = Plan::resolve(&spec, &policy()).expect_err("two workspaces");
    assert!(
        error.to_string().contains("already has a workspace"),
        "{error}"
    );
}

#[test]
fn policy_file_has_one_place_for_each_name() {
    let read = |table: &str| {
        let text = format!("version = 1\n[storage]\nlab = {table}");
        PolicyFile::from_toml(&text).and_then(|file| file.resolve())
    };
    let policy = read("{ path = '/srv/lab', read_only = true }").expect("a policy");
    assert_eq!(policy.storage["lab"], Storage::path("/srv/lab").read_only());
    let text = toml::to_string(&PolicyFile::from(&policy)).expect("a file");
    let again = PolicyFile::from_toml(&text).and_then(|file| file.resolve());
    assert_eq!(again.expect("the same"), policy);
    assert_eq!(
        read("{ claim = 'lab' }").expect("a policy").storage["lab"],
        Storage::claim("lab")
    );
    for bad in [
        "{ }",
        "{ path = '/a', volume = 'b' }",
        "{ path = 'relative' }",
        "{ path = '/a/../b' }",
        "{ volume = '/var/lib' }",
        "{ volume = '' }",
        "{ claim = 'a b' }",
        "{ path = '/a', mode = 1 }",
    ] {
        let error = read(bad).expect_err(bad);
        assert_eq!(error.kind(), ErrorKind::InvalidPolicy, "{error}");
    }
    let error = CapabilityPolicy::new()
        .storage("a/b", Storage::path("/a"))
        .validate()
        .expect_err("a path");
    assert!(error.to_string().contains("a name has"), "{error}");
}
