use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

/// A folder without links in its path.
fn place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let base = place.path().canonicalize().expect("a path");
    (place, base)
}

fn identity(path: &Path) -> Identity {
    Identity::of_paths([path])[0]
}

#[test]
fn a_path_without_links_is_opened_as_it_is() {
    let (_place, base) = place();
    std::fs::create_dir_all(base.join("a/b")).expect("made");
    std::fs::write(base.join("a/file"), "content").expect("written");
    let rule = LinkRule::default();
    let folder = rule
        .open(&base.join("a/./x/../b"))
        .expect_err("x is missing");
    assert!(folder.to_string().contains("a/x: No such file"), "{folder}");
    let folder = rule.open(&base.join("a/b/../b")).expect("opened");
    assert_eq!(folder.path, base.join("a/b"));
    assert_eq!(folder.kind(), FileType::Directory);
    assert_eq!(folder.identity(), identity(&base.join("a/b")));
    assert!(folder.is_within(identity(&base)));
    assert!(folder.is_within(folder.identity()));
    let above = folder.path.ancestors().map(identity).collect::<Vec<_>>();
    assert!(folder.way().iter().rev().eq(&above));
    let file = rule.open(&base.join("a/file")).expect("opened");
    let mut content = String::new();
    let mut reading = std::fs::File::from(file.open_for_reading().expect("readable"));
    reading.read_to_string(&mut content).expect("read");
    assert_eq!(
        (content.as_str(), file.kind()),
        ("content", FileType::RegularFile)
    );
    for bad in ["a/file/x", "a/file/..", "a/missing"] {
        assert!(rule.open(&base.join(bad)).is_err(), "{bad}");
    }
    assert_eq!(
        rule.open(Path::new("/")).expect("opened").path,
        Path::new("/")
    );
}

#[test]
fn a_link_that_stays_in_its_folder_is_followed() {
    let (_place, base) = place();
    std::fs::create_dir_all(base.join("v/1")).expect("made");
    symlink("v/1", base.join("current")).expect("a link");
    symlink(base.join("v"), base.join("absolute")).expect("a link");
    symlink("current/../../v", base.join("around")).expect("a link");
    symlink(".", base.join("same")).expect("a link");
    let rule = LinkRule::default();
    for (path, real) in [
        ("current", "v/1"),
        ("absolute/1", "v/1"),
        ("same/same/v", "v"),
        // As in the kernel, the first two dots refer to the parent of v/1.
        ("around", "v"),
    ] {
        let opened = rule.open(&base.join(path)).expect(path);
        assert_eq!(opened.path, base.join(real));
    }
    let opened = rule.open(&base.join("same/current")).expect("opened");
    assert_eq!(opened.links.len(), 2);
    assert_eq!(opened.links[1].at, base.join("current"));
    assert_eq!(opened.links[1].target, Path::new("v/1"));
}

#[test]
fn a_link_that_leaves_its_folder_is_refused_unless_links_are_followed() {
    let (_place, base) = place();
    std::fs::create_dir_all(base.join("proj/sub")).expect("made");
    std::fs::create_dir_all(base.join("private/deep")).expect("made");
    symlink("../private", base.join("proj/relative")).expect("a link");
    symlink(base.join("private"), base.join("proj/absolute")).expect("a link");
    symlink("sub/../..", base.join("proj/up")).expect("a link");
    symlink("relative", base.join("proj/chain")).expect("a link");
    let follow = LinkRule::new(true);
    for (path, real) in [
        ("relative", "private"),
        ("absolute/deep", "private/deep"),
        ("up/private", "private"),
        ("chain", "private"),
    ] {
        let path = base.join("proj").join(path);
        let error = LinkRule::default().open(&path).expect_err("it leaves");
        assert!(
            matches!(
                error,
                PathError::Link {
                    reason: LinkReason::LeavesFolder,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.fix().is_some_and(|fix| fix.contains("--follow")));
        assert_eq!(follow.open(&path).expect("followed").path, base.join(real));
    }
}

#[test]
fn a_link_in_a_writable_folder_is_refused_whatever_the_folder_is_called() {
    let (_place, base) = place();
    std::fs::create_dir_all(base.join("work/sub")).expect("made");
    symlink("sub", base.join("work/inner")).expect("a link");
    symlink("..", base.join("work/sub/up")).expect("a link");
    symlink("work", base.join("alias")).expect("a link");
    let writable = identity(&base.join("alias"));
    let rule = LinkRule::new(true).writable([writable]);
    for bad in ["work/inner", "work/sub/up", "alias/inner"] {
        let error = rule.open(&base.join(bad)).expect_err(bad);
        assert!(
            error
                .to_string()
                .contains("in a folder that the code can write to"),
            "{error}"
        );
        let opened = LinkRule::new(true).open(&base.join(bad)).expect(bad);
        assert!(opened.refuse_links_in(&[writable]).is_err());
    }
    let fine = rule
        .open(&base.join("alias/sub"))
        .expect("the caller's own link");
    assert!(fine.refuse_links_in(&[writable]).is_ok());
}

#[test]
fn the_systems_own_links_are_followed() {
    let rule = LinkRule::default();
    for path in ["/bin/sh", "/usr/bin/env"] {
        let opened = rule.open(Path::new(path)).expect(path);
        assert_eq!(opened.path, Path::new(path).canonicalize().expect(path));
    }
    let (_place, base) = place();
    let found = |path: &Path| rustix::fs::lstat(path).expect("there");
    symlink("/", base.join("link")).expect("a link");
    let own = is_system_link(&base, &found(&base), &found(&base.join("link")));
    assert!(!own, "it does not stand in a folder of the system");
    std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o777)).expect("set");
    let link = found(&base.join("link"));
    assert!(!is_system_link(Path::new("/etc"), &found(&base), &link));
}

#[test]
fn folders_are_made_where_no_refused_link_leads() {
    let (_place, base) = place();
    std::fs::create_dir_all(base.join("proj")).expect("made");
    symlink("../outside/new", base.join("proj/out")).expect("a link");
    symlink("inside/new", base.join("proj/in")).expect("a link");
    let rule = LinkRule::default();
    assert!(rule.open_or_make(&base.join("proj/out/deep")).is_err());
    assert!(!base.join("outside").exists());
    let made = rule.open_or_make(&base.join("proj/in/deep")).expect("made");
    assert_eq!(made.path, base.join("proj/inside/new/deep"));
    assert!(made.path.is_dir());
    std::fs::write(base.join("file"), "").expect("written");
    for bad in ["file", "file/x"] {
        assert!(rule.open_or_make(&base.join(bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_loop_is_an_error() {
    let (_place, base) = place();
    symlink("b", base.join("a")).expect("a link");
    symlink("a", base.join("b")).expect("a link");
    let error = LinkRule::new(true)
        .open(&base.join("a"))
        .expect_err("a loop");
    assert!(
        error.to_string().contains("levels of symbolic links"),
        "{error}"
    );
}

#[test]
fn what_is_read_is_what_was_opened() {
    let (_place, base) = place();
    std::fs::write(base.join("file"), "").expect("written");
    let opened = LinkRule::default()
        .open(&base.join("file"))
        .expect("opened");
    std::fs::remove_file(base.join("file")).expect("removed");
    std::fs::write(base.join("file"), "").expect("written");
    let error = opened.open_for_reading().expect_err("another file");
    assert!(error.to_string().contains("was replaced"), "{error}");
}

#[test]
fn what_is_exchanged_meanwhile_is_one_of_the_two_or_an_error() {
    const ROUNDS: usize = 2000;
    let (_place, base) = place();
    std::fs::create_dir_all(base.join("proj/data/inner")).expect("made");
    std::fs::create_dir_all(base.join("secret/inner")).expect("made");
    symlink(base.join("secret"), base.join("proj/other")).expect("a link");
    let secret = identity(&base.join("secret"));
    let (data, other) = (base.join("proj/data"), base.join("proj/other"));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                renameat_with(CWD, &data, CWD, &other, RenameFlags::EXCHANGE).expect("exchanged");
            }
        });
        for _ in 0..ROUNDS {
            if let Ok(opened) = LinkRule::default().open(&data.join("inner")) {
                assert!(!opened.is_within(secret), "{}", opened.path.display());
            }
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
