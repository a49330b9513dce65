//! Lowering of roots, the workspace and packages to mounts.

use sandbox_core::{CapabilityPolicy, ErrorKind, Workspace};

use super::render::render;
use super::samples::{Sample, file, folder, link, plan};
use super::spec;
use crate::host::{FileKind, Isolation, MountedRoot, Root};

#[test]
fn private_read_root_is_refused_as_root() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec!["/secret".into()]);
    let mut sample = Sample::root();
    let mut secret = folder("/secret");
    secret.mode = 0o700;
    sample.host_paths.read = vec![secret];
    let error = sample.lower(&plan(&spec(), &policy)).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
    assert!(
        error.to_string().contains("read root /secret has mode 700"),
        "{error}"
    );
    sample.isolation = Isolation::UserNamespace;
    assert!(
        sample.lower(&plan(&spec(), &policy)).is_ok(),
        "the caller may read it"
    );
}

#[test]
fn links_to_mounted_paths_are_created() {
    let mut sample = Sample::root();
    sample.host_paths.read = vec![
        link("/srv/current", "releases/7", folder("/srv/releases/7")),
        link("/usr/local/data", "/big/data", folder("/big/data")),
        file("/etc/special.conf"),
    ];
    let text = render(
        &sample
            .lower(&plan(&spec(), &CapabilityPolicy::new()))
            .expect("lowered"),
    );
    assert!(text.contains("link /srv/current -> releases/7\n"), "{text}");
    assert!(text.contains("ro /srv/releases/7\n"), "{text}");
    // The bind of `/usr` contains it already.
    assert!(!text.contains("link /usr/local/data"), "{text}");
    assert!(text.contains("ro /etc/special.conf\n"), "{text}");
}

#[test]
fn roots_in_reserved_paths_are_refused() {
    for (path, reason) in [
        ("/proc/sys", "/proc"),
        ("/dev", "/dev"),
        ("/workspace/a", "workspace"),
        ("/packages", "packages"),
        ("/tmp", "/tmp"),
        ("/run/sandbox/uids", "state folder"),
    ] {
        let mut sample = Sample::root();
        sample.host_paths.read = vec![folder(path)];
        let error = sample
            .lower(&plan(&spec(), &CapabilityPolicy::new()))
            .expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPolicy, "{path}");
        assert!(
            error.to_string().contains(reason) && error.fix().is_some(),
            "{error}"
        );
    }
}

#[test]
fn state_folder_is_masked_or_refused() {
    let mut sample = Sample::root();
    sample.host_paths.read = vec![folder("/run")];
    sample.host_paths.workspace = Some(folder("/run"));
    let spec = spec().workspace(Workspace::read_only("/run"));
    let text = render(
        &sample
            .lower(&plan(&spec, &CapabilityPolicy::new()))
            .expect("lowered"),
    );
    assert!(
        text.contains("mask /run/sandbox\n") && text.contains("mask /workspace/sandbox\n"),
        "{text}"
    );

    let mut sample = Sample::landlock();
    sample.host_paths.read = vec![folder("/run")];
    let error = sample
        .lower(&plan(&spec, &CapabilityPolicy::new()))
        .expect_err("cannot be hidden");
    assert!(error.to_string().contains("state folder"), "{error}");
}

#[test]
fn package_cache_in_a_writable_root_is_masked_or_refused() {
    let cache = "/home/me/.cache/sandbox/packages";
    let mut sample = Sample::root();
    sample.host_paths.cache = Some(cache.into());
    sample.host_paths.write = vec![folder("/home/me")];
    sample.host_paths.workspace = Some(folder("/home/me/.cache"));
    let spec = spec().workspace(Workspace::read_write("/home/me/.cache"));
    let lowered = sample.lower(&plan(&spec, &CapabilityPolicy::new()));
    let text = render(&lowered.expect("lowered"));
    assert!(text.contains(&format!("mask {cache}\n")), "{text}");
    assert!(
        text.contains("mask /workspace/sandbox/packages\n"),
        "{text}"
    );

    let mut sample = Sample::landlock();
    sample.host_paths.cache = Some(cache.into());
    sample.host_paths.write = vec![folder("/home/me")];
    let error = sample.lower(&plan(&super::spec(), &CapabilityPolicy::new()));
    let error = error.expect_err("cannot be hidden");
    assert!(error.to_string().contains("installed packages"), "{error}");
    assert!(error.fix().is_some());
    // An installation writes below the cache and sees nothing of the rest.
    sample.host_paths.write = vec![folder("/home/me/.cache/sandbox/packages/staging/x/work")];
    sample
        .lower(&plan(&super::spec(), &CapabilityPolicy::new()))
        .expect("lowered");
}

#[test]
fn folders_above_a_mount_point_in_a_writable_folder_are_pinned() {
    let mut sample = Sample::user();
    sample.host_paths.read = vec![
        folder("/srv/d/a/b/ro"),
        folder("/srv/d/top"),
        folder("/data/x/y"),
    ];
    sample.host_paths.write = vec![folder("/srv/d"), folder("/srv/d/a/b/ro/c/rw")];
    sample.host_paths.cache = Some("/home/me/.cache/sandbox/packages".into());
    sample.host_paths.workspace = Some(folder("/home/me"));
    let spec = spec().workspace(Workspace::read_write("/home/me"));
    let lowered = sample.lower(&plan(&spec, &CapabilityPolicy::new()));
    let text = render(&lowered.expect("lowered"));
    let pinned = text.lines().filter(|line| line.starts_with("pin "));
    assert_eq!(
        pinned.collect::<Vec<_>>(),
        [
            "pin /srv/d/a",
            "pin /srv/d/a/b",
            "pin /workspace/.cache",
            "pin /workspace/.cache/sandbox",
        ]
    );
}

#[test]
fn packages_are_mounted_read_only() {
    let mut plan = plan(&spec(), &CapabilityPolicy::new());
    plan.provided_folders = vec![sandbox_core::ProvidedFolder {
        source: "/home/me/.cache/sandbox/packages/entries/1/base".into(),
        target: "/packages".into(),
    }];
    for sample in [Sample::root(), Sample::user(), Sample::landlock()] {
        let text = render(&sample.lower(&plan).expect("lowered"));
        let wanted = match sample.isolation {
            Isolation::Landlock => "0x000d /home/me/.cache/sandbox/packages/entries/1/base",
            _ => "ro /home/me/.cache/sandbox/packages/entries/1/base -> /packages",
        };
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn procfs_in_a_root_is_masked_or_refused() {
    let mut sample = Sample::root();
    sample.host_paths.read = vec![folder("/srv")];
    sample.host_paths.workspace = Some(folder("/srv/chroot"));
    sample.host_paths.processes = vec!["/srv/chroot/proc".into()];
    let spec = spec().workspace(Workspace::read_only("/srv/chroot"));
    let lowered = sample.lower(&plan(&spec, &CapabilityPolicy::new()));
    let text = render(&lowered.expect("lowered"));
    for mask in ["mask /srv/chroot/proc\n", "mask /workspace/proc\n"] {
        assert!(text.contains(mask), "{text}");
    }
    let mut sample = Sample::landlock();
    sample.host_paths.read = vec![folder("/srv")];
    sample.host_paths.processes = vec!["/srv/chroot/proc".into()];
    let error = sample.lower(&plan(&super::spec(), &CapabilityPolicy::new()));
    let error = error.expect_err("cannot be hidden");
    assert!(error.to_string().contains("host's processes"), "{error}");

    for path in ["/proc", "/proc/1", "/dev"] {
        let mut sample = Sample::user();
        sample.host_paths.workspace = Some(folder(path));
        let spec = super::spec().workspace(Workspace::read_only(path));
        let error = sample.lower(&plan(&spec, &CapabilityPolicy::new()));
        let error = error.expect_err("no files to show");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    }
}

#[test]
fn export_folders_do_not_hide_the_platform() {
    let exporting = |path: &str| {
        let mut policy = CapabilityPolicy::new();
        policy.artifact_export_paths = vec![path.to_owned()];
        render(
            &Sample::root()
                .lower(&plan(&spec(), &policy))
                .expect("lowered"),
        )
    };
    let made = |text: &str| text.matches("rw /run/sandbox/scratch/").count();
    let none = made(&exporting("/workspace/x"));
    for hidden in [
        "/etc/passwd",
        "/bin/x",
        "/lib64/deep/x",
        "/usr/x",
        "/usr/lib/x",
        "/*.txt",
    ] {
        assert_eq!(made(&exporting(hidden)), none, "{hidden}");
    }
    for own in ["/out/x", "/etc/own/x", "/var/x"] {
        assert_eq!(made(&exporting(own)), none + 1, "{own}");
    }
}

#[test]
fn write_root_can_replace_tmp() {
    let mut sample = Sample::user();
    sample.host_paths.write = vec![folder("/tmp")];
    let lowered = sample
        .lower(&plan(&spec(), &CapabilityPolicy::new()))
        .expect("lowered");
    let text = render(&lowered);
    assert!(
        text.contains("rw /tmp\n") && !text.contains("-> /tmp\n"),
        "{text}"
    );
}

#[test]
fn private_socket_as_read_root_is_refused() {
    let mut sample = Sample::root();
    let mut socket = file("/run/docker.sock");
    socket.kind = FileKind::Other;
    socket.mode = 0o660;
    sample.host_paths.read = vec![socket];
    assert!(
        sample
            .lower(&plan(&spec(), &CapabilityPolicy::new()))
            .is_err(),
        "code may not use it"
    );
}

fn mounted(sample: &mut Sample, root: Root, target: &str, read_only: bool) {
    let target = target.into();
    sample.host_paths.mounts.push(MountedRoot {
        root,
        target,
        read_only,
    });
}

#[test]
fn mounts_come_last_and_belong_to_the_code_where_it_may_write() {
    let mut sample = Sample::root();
    mounted(&mut sample, folder("/srv/in"), "/output/in", true);
    mounted(&mut sample, folder("/srv/out"), "/tmp/out", false);
    mounted(&mut sample, file("/srv/conf"), "/app.conf", true);
    let mut private = folder("/home/me/private");
    private.mode = 0o700;
    mounted(&mut sample, private, "/private", true);
    let policy = CapabilityPolicy::new().artifact_export_path("/output/*");
    let lowered = sample.lower(&plan(&spec(), &policy)).expect("lowered");
    let text = render(&lowered);
    let line = |line: &str| {
        let found = text.lines().position(|it| it == line);
        found.unwrap_or_else(|| panic!("{line:?} in {text}"))
    };
    let scratch = |target: &str| {
        let found = text.lines().position(|it| it.ends_with(target));
        found.unwrap_or_else(|| panic!("{target:?} in {text}"))
    };
    // A mount would be hidden by one above it that comes later.
    assert!(line("ro /srv/in -> /output/in") > scratch(" -> /output"));
    assert!(line("rw /srv/out -> /tmp/out") > scratch(" -> /tmp"));
    assert!(line("ro /srv/conf -> /app.conf") < line("read-only /"));
    assert!(text.contains("mapped /srv/out of (1234, 1234)\n"), "{text}");
    assert!(text.contains("mapped /home/me/private of"), "{text}");
    assert!(!text.contains("mapped /srv/in "), "{text}");
    assert!(text.contains("mounts unbounded"), "{text}");
}

#[test]
fn state_folder_and_package_cache_are_masked_in_mounts() {
    let mut sample = Sample::root();
    sample.host_paths.cache = Some("/home/me/cache/packages".into());
    mounted(&mut sample, folder("/run"), "/a", true);
    mounted(&mut sample, folder("/home/me"), "/b", false);
    mounted(&mut sample, folder("/home"), "/c", true);
    let lowered = sample.lower(&plan(&spec(), &CapabilityPolicy::new()));
    let text = render(&lowered.expect("lowered"));
    assert!(text.contains("mask /a/sandbox\n"), "{text}");
    assert!(text.contains("mask /b/cache/packages\n"), "{text}");
    // Code could rename it with the mask.
    assert!(text.contains("pin /b/cache\n"), "{text}");
    // Code cannot change it there.
    assert!(!text.contains("mask /c"), "{text}");
}

#[test]
fn taken_targets_and_odd_sources_are_refused() {
    let refused = |sample: &Sample, says: &str| {
        let error = sample.lower(&plan(&spec(), &CapabilityPolicy::new()));
        let error = error.expect_err(says);
        assert!(
            error.to_string().contains(says) && error.fix().is_some(),
            "{error}"
        );
        error.kind()
    };
    for (source, target, says) in [
        ("/srv", "/usr/share/mine", "overlaps /usr"),
        ("/srv", "/etc/mine", "overlaps /etc"),
        ("/srv", "/lib64/mine", "overlaps /lib64"),
        ("/srv", "/data/deep", "overlaps /data"),
        ("/run/sandbox", "/a", "state folder"),
        ("/proc", "/a", "processes"),
    ] {
        let mut sample = Sample::root();
        sample.host_paths.read = vec![link("/current", "data", folder("/data"))];
        mounted(&mut sample, folder(source), target, true);
        assert_eq!(refused(&sample, says), ErrorKind::InvalidSpec, "{target}");
    }
    let mut sample = Sample::root();
    let mut socket = file("/run/docker.sock");
    socket.kind = FileKind::Other;
    mounted(&mut sample, socket, "/docker.sock", false);
    assert_eq!(refused(&sample, "neither a folder"), ErrorKind::InvalidSpec);
    let mut sample = Sample::landlock();
    mounted(&mut sample, folder("/srv"), "/a", true);
    assert_eq!(refused(&sample, "mount namespace"), ErrorKind::Unsupported);
}
