use std::os::unix::fs::symlink;

use sandbox_core::{CapabilityPolicy, HostMount, SandboxSpec, Workspace};

use super::*;
use crate::family::samples::TIER;
use crate::lowering::samples::plan;

fn temporary_folder() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let base = place.path().canonicalize().expect("a path");
    (place, base)
}

fn with(read: &Path, workspace: &Path, follow: bool) -> Plan {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec![read.to_owned()]);
    policy.follow_links = Some(follow);
    let spec = SandboxSpec::new("sb").workspace(Workspace::read_write(workspace));
    plan(&spec, &policy)
}

fn open(plan: &Plan) -> Result<HostFolders> {
    HostFolders::open(TIER, plan, &EngineFacts::sample())
}

#[test]
fn link_in_a_writable_folder_is_refused_and_others_need_follow_links() {
    let (_place, base) = temporary_folder();
    for folder in ["proj", "secret", "data"] {
        std::fs::create_dir(base.join(folder)).expect("made");
    }
    symlink(base.join("secret"), base.join("proj/data")).expect("a link");
    symlink("../data", base.join("proj/../elsewhere")).expect("a link");
    let proj = base.join("proj");
    for follow in [false, true] {
        let planted = with(&base.join("proj/data"), &proj, follow);
        let error = open(&planted).expect_err("code could have made it");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
        assert!(error.to_string().contains("code can write to"), "{error}");
    }
    std::fs::remove_file(base.join("elsewhere")).expect("removed");
    std::fs::create_dir(base.join("links")).expect("made");
    symlink(base.join("data"), base.join("links/data")).expect("a link");
    let link = base.join("links/data");
    let error = open(&with(&link, &proj, false)).expect_err("leaves its folder");
    assert!(
        error.fix().is_some_and(|fix| fix.contains("--follow")),
        "{error}"
    );
    let plan = with(&link, &proj, true);
    let folders = open(&plan).expect("asked for");
    assert_eq!(folders.source(&link), base.join("data"));
    let placed = folders.expected_objects(&plan);
    let targets = placed.iter().map(|it| it.path.as_slice());
    let link = link.as_os_str().as_encoded_bytes();
    assert_eq!(targets.collect::<Vec<_>>(), [link, &b"/workspace"[..]]);
}

#[test]
fn missing_folder_is_reported() {
    let (_place, base) = temporary_folder();
    let error = open(&with(&base.join("missing"), &base, false)).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    assert!(
        error.to_string().contains("missing is not there"),
        "{error}"
    );
}

#[test]
fn replaced_folder_is_detected() {
    let (_place, base) = temporary_folder();
    std::fs::create_dir(base.join("data")).expect("made");
    let (read, work) = (base.join("data"), base.join("work"));
    std::fs::create_dir(&work).expect("made");
    let plan = with(&read, &work, false);
    let folders = open(&plan).expect("opened");
    let before = folders.expected_objects(&plan);
    std::fs::rename(&read, base.join("old")).expect("renamed");
    std::fs::create_dir(&read).expect("made");
    assert_eq!(folders.expected_objects(&plan), before);
    let trusted = trusted_path::trusted_users(&EngineFacts::sample()).expect("users");
    let untrusted = trusted_path::find_untrusted(&folders.0[&read], &trusted).expect("exchanged");
    assert!(
        untrusted.to_string().contains("was exchanged"),
        "{untrusted}"
    );
    assert_eq!(
        trusted_path::find_untrusted(&folders.0[&work], &trusted),
        None
    );
}

#[test]
fn mounts_are_opened_and_expected_at_their_targets() {
    let (_place, base) = temporary_folder();
    std::fs::create_dir(base.join("data")).expect("made");
    let source = base.join("data");
    let spec = SandboxSpec::new("sb").mount(HostMount::read_write(&source, "/target"));
    let plan = plan(&spec, &CapabilityPolicy::new());
    let folders = open(&plan).expect("opened");
    let placed = folders.expected_objects(&plan);
    assert_eq!(placed.len(), 1);
    assert_eq!(placed[0].path, b"/target");
    assert_eq!(
        folders.writable_folders(&plan),
        [folders.0[&source].identity()]
    );
    // What is at the path now does not count.
    std::fs::rename(&source, base.join("old")).expect("renamed");
    std::fs::create_dir(&source).expect("made");
    assert_eq!(folders.expected_objects(&plan), placed);
    let trusted = trusted_path::trusted_users(&EngineFacts::sample()).expect("users");
    assert!(trusted_path::find_untrusted(&folders.0[&source], &trusted).is_some());
}
