//! The mounted objects are those that the client checked, and mount points cannot be moved.

use std::os::unix::fs::MetadataExt;

use sandbox_agent::protocol::HostObject;

use super::*;

fn object(path: &Path) -> Option<HostObject> {
    let found = std::fs::metadata(path).unwrap();
    Some(HostObject {
        device: found.dev(),
        inode: found.ino(),
    })
}

fn bind_of(path: &Path, target: &str, read_only: bool, wanted: &Path) -> Mount {
    let mut mount = bind(path.to_str().unwrap(), target, read_only);
    if let Mount::Bind { object: of, .. } = &mut mount {
        *of = object(wanted);
    }
    mount
}

/// The standard root with these mounts before it becomes read-only.
fn with(mounts: Vec<Mount>) -> Setup {
    let mut setup = standard_root();
    let at = setup.mounts.len() - 1;
    setup.mounts.splice(at..at, mounts);
    setup
}

pub fn replaced_object_is_not_mounted() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (one, other) = (temp_dir.path().join("one"), temp_dir.path().join("other"));
    for folder in [&one, &other] {
        std::fs::create_dir_all(folder.join("hidden")).unwrap();
    }
    let mask = |wanted: &Path| Mount::Mask {
        target: b"/data/hidden".to_vec(),
        object: object(wanted),
    };
    for missing in [&[][..], SINCE_5_2, &[libc::SYS_mount_setattr]] {
        let try_with = |mounts| {
            let mut client = FirstClient::launch_without(NAMESPACES, &["--setup"], missing);
            establish(&mut client, &with(mounts), &split(1234))
        };
        let fine = bind_of(&one, "/data", true, &one);
        try_with(vec![fine.clone(), mask(&one.join("hidden"))]).unwrap();
        for wrong in [
            vec![bind_of(&one, "/data", true, &other)],
            vec![fine, mask(&other.join("hidden"))],
        ] {
            let failure = try_with(wrong).unwrap_err();
            assert_eq!(failure.step, FailStep::Setup);
            assert!(failure.detail.contains("was replaced"), "{failure:?}");
        }
    }
}

pub fn pinned_folder_is_writable_and_cannot_be_renamed() {
    let temp_dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(temp_dir.path().join("a/b/ro")).unwrap();
    let pin = |target: &str| Mount::Pin {
        target: target.into(),
    };
    for missing in [&[][..], SINCE_5_2, &[libc::SYS_mount_setattr]] {
        let mut client = FirstClient::launch_without(NAMESPACES, &["--setup"], missing);
        let inner = temp_dir.path().join("a/b/ro");
        let setup = with(vec![
            bind_of(temp_dir.path(), "/data", false, temp_dir.path()),
            bind_of(&inner, "/data/a/b/ro", true, &inner),
            pin("/data/a"),
            pin("/data/a/b"),
        ]);
        establish(&mut client, &setup, &split(0)).unwrap();
        for moved in ["/data/a", "/data/a/b", "/data/a/b/ro"] {
            // Across mounts, `mv` copies and then cannot remove the mount point. The copy is
            // removed first.
            let script = format!("rm -rf /data/x; mv {moved} /data/x");
            refused(&mut client, &script, "busy");
        }
        output(&mut client, "touch /data/a/b/new && rm /data/a/b/new");
        let touch = "touch /data/a/b/ro/new";
        refused(&mut client, touch, "Read-only file system");
    }
}
