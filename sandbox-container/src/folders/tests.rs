use std::os::unix::fs::symlink;

use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

use super::*;
use crate::family::samples::TIER;
use crate::lower::samples::plan;

fn place() -> (tempfile::TempDir, PathBuf) {
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

fn open(plan: &Plan) -> Result<Folders> {
    Folders::open(TIER, plan, &EngineFacts::sample())
}

#[test]
fn a_link_where_code_can_write_is_refused_and_others_need_to_be_asked_for() {
    let (_place, base) = place();
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
    let placed = folders.placed(&plan);
    let targets = placed.iter().map(|it| it.path.as_slice());
    let link = link.as_os_str().as_encoded_bytes();
    assert_eq!(targets.collect::<Vec<_>>(), [link, &b"/workspace"[..]]);
}

#[test]
fn a_folder_that_is_not_there_is_told() {
    let (_place, base) = place();
    let error = open(&with(&base.join("missing"), &base, false)).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    assert!(
        error.to_string().contains("missing is not there"),
        "{error}"
    );
}

#[test]
fn what_was_opened_stays_what_it_was() {
    let (_place, base) = place();
    std::fs::create_dir(base.join("data")).expect("made");
    let (read, work) = (base.join("data"), base.join("work"));
    std::fs::create_dir(&work).expect("made");
    let plan = with(&read, &work, false);
    let folders = open(&plan).expect("opened");
    let before = folders.placed(&plan);
    std::fs::rename(&read, base.join("old")).expect("renamed");
    std::fs::create_dir(&read).expect("made");
    assert_eq!(folders.placed(&plan), before);
    let trusted = vouch::trusted(&EngineFacts::sample()).expect("users");
    let doubt = vouch::doubt(&folders.0[&read], &trusted).expect("exchanged");
    assert!(doubt.to_string().contains("was exchanged"), "{doubt}");
    assert_eq!(vouch::doubt(&folders.0[&work], &trusted), None);
}
