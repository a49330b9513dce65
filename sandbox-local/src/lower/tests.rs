//! Lowering of plans on different hosts.

mod render;
mod samples;

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Enforcement, ErrorKind, ImageRetention, SandboxSpec,
    Workspace,
};

use render::render;
use samples::{Sample, file, folder, link, plan};

use crate::host::{Cgroups, Isolation, Kind, Support};

fn spec() -> SandboxSpec {
    SandboxSpec::new("sample")
}

#[test]
fn as_root_with_every_default() {
    let plan = plan(&spec(), &CapabilityPolicy::new());
    insta::assert_snapshot!(render(&Sample::root().lower(&plan).expect("lowered")));
}

#[test]
fn as_a_user_with_folders_of_the_host() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec!["/data".into()]);
    policy.filesystem_write_roots = Some(vec!["/data/cache".into()]);
    policy.artifact_export_paths = vec![
        "/output/*.csv".into(),
        "/tmp/x".into(),
        "/data/cache/y".into(),
    ];
    policy.network = Some(NetworkPolicy::Full);
    policy.subprocess_execution = Some(false);
    let spec = spec().workspace(Workspace::read_write("/home/user/project"));
    let mut sample = Sample::user();
    sample.material.read = vec![folder("/data")];
    sample.material.write = vec![folder("/data/cache")];
    sample.material.workspace = Some(folder("/home/user/project"));
    sample.material.names = Some((
        b"10.0.0.1 server\n".to_vec(),
        b"nameserver 10.0.0.2\n".to_vec(),
    ));
    insta::assert_snapshot!(render(
        &sample.lower(&plan(&spec, &policy)).expect("lowered")
    ));
}

#[test]
fn without_namespaces() {
    let mut policy = CapabilityPolicy::new();
    policy.artifact_export_paths = vec!["/home/user/project/out/*".into()];
    let spec = spec().workspace(Workspace::read_write("/home/user/project"));
    let mut sample = Sample::landlock();
    sample.material.workspace = Some(folder("/home/user/project"));
    insta::assert_snapshot!(render(
        &sample.lower(&plan(&spec, &policy)).expect("lowered")
    ));
}

#[test]
fn on_a_kernel_without_landlock_and_seccomp() {
    let mut sample = Sample::user();
    sample.host.landlock_abi = 0;
    sample.host.seccomp.filters = false;
    let lowered = sample
        .lower(&plan(&spec(), &CapabilityPolicy::new()))
        .expect("lowered");
    assert_eq!(lowered.confinement.landlock, None);
    assert!(lowered.confinement.seccomp.is_empty());
    let report = lowered.report;
    assert_eq!(
        report.get(Capability::FilesystemReadRoots),
        Some(&Enforcement::enforced("mount namespace, pivot_root"))
    );
    for capability in [Capability::NetworkAccess, Capability::Privileges] {
        assert_eq!(
            report.get(capability).map(Enforcement::status),
            Some("partial")
        );
    }
}

#[test]
fn as_root_folders_that_code_writes_are_mapped_to_it() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_write_roots = Some(vec!["/srv/a".into(), "/home/user/project/b".into()]);
    let spec = spec().workspace(Workspace::read_write("/home/user/project"));
    let mut sample = Sample::root();
    sample.material.write = vec![folder("/srv/a"), folder("/home/user/project/b")];
    sample.material.workspace = Some(folder("/home/user/project"));
    let lowered = sample.lower(&plan(&spec, &policy)).expect("lowered");
    let mapped = lowered
        .mapped
        .iter()
        .map(|mapped| mapped.path.display().to_string());
    assert_eq!(mapped.collect::<Vec<_>>(), ["/home/user/project", "/srv/a"]);
}

#[test]
fn a_workspace_that_is_only_read_is_mapped_when_it_is_private() {
    for (mode, mapped) in [(0o755, 0), (0o700, 1)] {
        let spec = spec().workspace(Workspace::read_only("/home/user/project"));
        let mut sample = Sample::root();
        let mut workspace = folder("/home/user/project");
        workspace.mode = mode;
        sample.material.workspace = Some(workspace);
        let lowered = sample
            .lower(&plan(&spec, &CapabilityPolicy::new()))
            .expect("lowered");
        assert_eq!(lowered.mapped.len(), mapped);
        assert!(
            lowered
                .report
                .get(Capability::Disk)
                .is_some_and(Enforcement::is_enforced)
        );
    }
}

#[test]
fn a_private_read_root_is_refused_as_root() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec!["/secret".into()]);
    let mut sample = Sample::root();
    let mut secret = folder("/secret");
    secret.mode = 0o700;
    sample.material.read = vec![secret];
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
fn links_lead_to_what_is_mounted() {
    let mut sample = Sample::root();
    sample.material.read = vec![
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
fn paths_that_every_sandbox_has_of_its_own_are_refused() {
    for (path, reason) in [
        ("/proc/sys", "/proc"),
        ("/dev", "/dev"),
        ("/workspace/a", "workspace"),
        ("/packages", "packages"),
        ("/tmp", "/tmp"),
        ("/run/sandbox/uids", "state folder"),
    ] {
        let mut sample = Sample::root();
        sample.material.read = vec![folder(path)];
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
fn the_state_folder_is_hidden_or_refused() {
    let mut sample = Sample::root();
    sample.material.read = vec![folder("/run")];
    sample.material.workspace = Some(folder("/run"));
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
    sample.material.read = vec![folder("/run")];
    let error = sample
        .lower(&plan(&spec, &CapabilityPolicy::new()))
        .expect_err("cannot be hidden");
    assert!(error.to_string().contains("state folder"), "{error}");
}

#[test]
fn installed_packages_cannot_be_written_through_a_root_around_them() {
    let cache = "/home/me/.cache/sandbox/packages";
    let mut sample = Sample::root();
    sample.material.cache = Some(cache.into());
    sample.material.write = vec![folder("/home/me")];
    sample.material.workspace = Some(folder("/home/me/.cache"));
    let spec = spec().workspace(Workspace::read_write("/home/me/.cache"));
    let lowered = sample.lower(&plan(&spec, &CapabilityPolicy::new()));
    let text = render(&lowered.expect("lowered"));
    assert!(text.contains(&format!("mask {cache}\n")), "{text}");
    assert!(
        text.contains("mask /workspace/sandbox/packages\n"),
        "{text}"
    );

    let mut sample = Sample::landlock();
    sample.material.cache = Some(cache.into());
    sample.material.write = vec![folder("/home/me")];
    let error = sample.lower(&plan(&self::spec(), &CapabilityPolicy::new()));
    let error = error.expect_err("cannot be hidden");
    assert!(error.to_string().contains("installed packages"), "{error}");
    assert!(error.fix().is_some());
    // An installation writes below the cache and sees nothing of the rest.
    sample.material.write = vec![folder("/home/me/.cache/sandbox/packages/staging/x/work")];
    sample
        .lower(&plan(&self::spec(), &CapabilityPolicy::new()))
        .expect("lowered");
}

#[test]
fn folders_above_a_mount_point_in_a_writable_folder_are_pinned() {
    let mut sample = Sample::user();
    sample.material.read = vec![
        folder("/srv/d/a/b/ro"),
        folder("/srv/d/top"),
        folder("/data/x/y"),
    ];
    sample.material.write = vec![folder("/srv/d"), folder("/srv/d/a/b/ro/c/rw")];
    sample.material.cache = Some("/home/me/.cache/sandbox/packages".into());
    sample.material.workspace = Some(folder("/home/me"));
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
fn packages_are_mounted_read_only_at_a_place_of_their_own() {
    let mut plan = plan(&spec(), &CapabilityPolicy::new());
    plan.provided = vec![sandbox_core::Provided {
        source: "/home/me/.cache/sandbox/packages/entries/1/base".into(),
        target: "/packages".into(),
    }];
    for sample in [Sample::root(), Sample::user(), Sample::landlock()] {
        let text = render(&sample.lower(&plan).expect("lowered"));
        let wanted = match sample.isolation {
            crate::host::Isolation::Landlock => {
                "0x000d /home/me/.cache/sandbox/packages/entries/1/base"
            }
            _ => "ro /home/me/.cache/sandbox/packages/entries/1/base -> /packages",
        };
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn the_hosts_processes_are_hidden_where_they_are_mounted_in_a_root() {
    let mut sample = Sample::root();
    sample.material.read = vec![folder("/srv")];
    sample.material.workspace = Some(folder("/srv/chroot"));
    sample.material.processes = vec!["/srv/chroot/proc".into()];
    let spec = spec().workspace(Workspace::read_only("/srv/chroot"));
    let lowered = sample.lower(&plan(&spec, &CapabilityPolicy::new()));
    let text = render(&lowered.expect("lowered"));
    for mask in ["mask /srv/chroot/proc\n", "mask /workspace/proc\n"] {
        assert!(text.contains(mask), "{text}");
    }
    let mut sample = Sample::landlock();
    sample.material.read = vec![folder("/srv")];
    sample.material.processes = vec!["/srv/chroot/proc".into()];
    let error = sample.lower(&plan(&self::spec(), &CapabilityPolicy::new()));
    let error = error.expect_err("cannot be hidden");
    assert!(error.to_string().contains("host's processes"), "{error}");

    for path in ["/proc", "/proc/1", "/dev"] {
        let mut sample = Sample::user();
        sample.material.workspace = Some(folder(path));
        let spec = self::spec().workspace(Workspace::read_only(path));
        let error = sample.lower(&plan(&spec, &CapabilityPolicy::new()));
        let error = error.expect_err("no files to show");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    }
}

#[test]
fn exported_paths_hide_nothing_of_the_platform() {
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
fn a_pattern_that_cannot_be_read_is_refused_before_anything_runs() {
    let mut policy = CapabilityPolicy::new();
    policy.artifact_export_paths = vec!["/output/[a".into()];
    let error = Sample::root()
        .lower(&plan(&spec(), &policy))
        .expect_err("no pattern");
    assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
    assert!(error.to_string().contains("/output/[a"), "{error}");
}

#[test]
fn a_folder_can_replace_the_own_tmp() {
    let mut sample = Sample::user();
    sample.material.write = vec![folder("/tmp")];
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
fn what_only_images_have_is_refused() {
    for (field, spec) in [
        ("image", spec().image("python")),
        (
            "image_retention",
            spec().image_retention(ImageRetention::Remove),
        ),
        ("writable_root", spec().writable_root(true)),
    ] {
        let error = Sample::root()
            .lower(&plan(&spec, &CapabilityPolicy::new()))
            .expect_err(field);
        assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        assert!(
            error.context().starts_with(&format!("{field}: ")),
            "{error}"
        );
        assert!(error.fix().is_some(), "{error}");
    }
}

#[test]
fn users_are_those_that_can_be() {
    let user = |sample: &Sample, user: &str| {
        sample
            .lower(&plan(&spec().user(user), &CapabilityPolicy::new()))
            .map(|lowered| lowered.confinement.identity)
    };
    let root = Sample::root();
    assert_eq!(user(&root, "5:6").ok(), Some(Some((5, 6))));
    for refused in ["0", "0:5", "5:0", "65534", "70000"] {
        assert_eq!(
            user(&root, refused).expect_err(refused).kind(),
            ErrorKind::InvalidSpec
        );
    }
    assert_eq!(user(&Sample::user(), "65534").ok(), Some(None));
    assert!(user(&Sample::user(), "1000").is_err());
    assert!(user(&Sample::landlock(), "65534").is_err());
}

#[test]
fn what_the_host_lacks_is_not_claimed() {
    let plan = plan(&spec(), &CapabilityPolicy::new());
    let mut sample = Sample::root();
    sample.host.cgroups = Cgroups::None {
        reason: "none here".into(),
        fix: "do something".into(),
    };
    let lowered = sample.lower(&plan).expect("lowered");
    let status = |capability| lowered.report.get(capability).map(Enforcement::status);
    assert_eq!(status(Capability::Memory), Some("partial"));
    assert_eq!(status(Capability::Cpus), Some("unenforced"));
    assert_eq!(status(Capability::Pids), Some("enforced"));
    assert_eq!(lowered.sampled_memory, Some(ByteSize::mib(512).as_u64()));
    assert_eq!(lowered.groups, crate::cgroup::Limits::default());
    assert!(
        lowered
            .report
            .get(Capability::Cpus)
            .is_some_and(|e| e.to_string().contains("do something"))
    );
}

#[test]
fn every_demand_has_an_entry() {
    let mut policy = CapabilityPolicy::new();
    policy.network = Some(NetworkPolicy::Allow(vec![
        "example.org".parse().expect("a rule"),
    ]));
    policy.packages = vec!["numpy".into()];
    policy.secrets = vec!["token".into()];
    policy.subprocess_execution = Some(false);
    policy.artifact_export_paths = vec!["/output/*".into()];
    let mut spec = spec();
    spec.secrets = vec!["token".into()];
    let plan = plan(&spec, &policy);
    for sample in [Sample::root(), Sample::user(), Sample::landlock()] {
        let report = sample.lower(&plan).expect("lowered").report;
        for demand in &plan.demands {
            assert!(
                report.get(demand.capability).is_some(),
                "{}",
                demand.capability
            );
        }
        for (capability, status) in [
            (Capability::Egress, "unenforced"),
            (Capability::Secrets, "unenforced"),
            (Capability::Packages, "enforced"),
            (Capability::PackageInstallation, "partial"),
        ] {
            assert_eq!(
                report.get(capability).map(Enforcement::status),
                Some(status)
            );
        }
    }
}

#[test]
fn the_hosts_root_in_a_container_does_not_get_at_its_files_of_proc() {
    let mut sample = Sample::user();
    let plan = plan(&spec(), &CapabilityPolicy::new());
    let lowered = |sample: &Sample| render(&sample.lower(&plan).expect("lowered"));
    let restricted = ["mask /proc/kcore\n", "read-only part /proc/irq\n"];
    let text = lowered(&sample);
    assert!(!restricted.iter().any(|line| text.contains(line)), "{text}");
    sample.host.user.id = 0;
    let text = lowered(&sample);
    assert!(restricted.iter().all(|line| text.contains(line)), "{text}");
}

#[test]
fn without_a_procfs_there_is_nothing_to_restrict_in_it() {
    let mut sample = Sample::user();
    sample.host.proc_mount = sample_missing();
    let lowered = sample
        .lower(&plan(&spec(), &CapabilityPolicy::new()))
        .expect("lowered");
    assert_eq!(lowered.setup.user_limits, []);
    let text = render(&lowered);
    for claim in [
        "mask /proc",
        "read-only part",
        "/proc/sys",
        "limits of inotify",
    ] {
        assert!(!text.contains(claim), "{claim}: {text}");
    }
}

fn sample_missing() -> Support {
    Support::Missing {
        reason: "masked".into(),
        fix: "unmask it".into(),
    }
}

#[test]
fn a_socket_is_no_folder() {
    let mut sample = Sample::root();
    let mut socket = file("/run/docker.sock");
    socket.kind = Kind::Other;
    socket.mode = 0o660;
    sample.material.read = vec![socket];
    assert!(
        sample
            .lower(&plan(&spec(), &CapabilityPolicy::new()))
            .is_err(),
        "code may not use it"
    );
}
