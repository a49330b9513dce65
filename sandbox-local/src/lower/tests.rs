//! Lowering of plans on different hosts.

mod render;
mod roots;
mod samples;

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Enforcement, EnforcementReport, ErrorKind,
    ImageRetention, Mechanism, SandboxSpec, Workspace,
};

use render::render;
use samples::{Sample, folder, plan};

use crate::host::{Availability, Cgroups};

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
    sample.host_paths.read = vec![folder("/data")];
    sample.host_paths.write = vec![folder("/data/cache")];
    sample.host_paths.workspace = Some(folder("/home/user/project"));
    sample.host_paths.names = Some((
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
    sample.host_paths.workspace = Some(folder("/home/user/project"));
    insta::assert_snapshot!(render(
        &sample.lower(&plan(&spec, &policy)).expect("lowered")
    ));
}

#[test]
fn reports_are_read_back() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec!["/data".into()]);
    policy.subprocess_execution = Some(false);
    for mut sample in [Sample::root(), Sample::user(), Sample::landlock()] {
        sample.host_paths.read = vec![folder("/data")];
        let report = sample
            .lower(&plan(&spec(), &policy))
            .expect("lowered")
            .report;
        let json = serde_json::to_value(&report).expect("JSON");
        let read: EnforcementReport = serde_json::from_value(json).expect("a report");
        assert_eq!(read, report);
    }
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
        Some(&Enforcement::enforced([
            Mechanism::MountNamespace,
            Mechanism::PivotRoot
        ]))
    );
    for capability in [Capability::NetworkAccess, Capability::Privileges] {
        assert_eq!(
            report.get(capability).map(Enforcement::status),
            Some("partial")
        );
    }
}

#[test]
fn writable_folders_are_id_mapped_as_root() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_write_roots = Some(vec!["/srv/a".into(), "/home/user/project/b".into()]);
    let spec = spec().workspace(Workspace::read_write("/home/user/project"));
    let mut sample = Sample::root();
    sample.host_paths.write = vec![folder("/srv/a"), folder("/home/user/project/b")];
    sample.host_paths.workspace = Some(folder("/home/user/project"));
    let lowered = sample.lower(&plan(&spec, &policy)).expect("lowered");
    let mapped = lowered
        .mapped
        .iter()
        .map(|mapped| mapped.path.display().to_string());
    assert_eq!(mapped.collect::<Vec<_>>(), ["/home/user/project", "/srv/a"]);
}

#[test]
fn private_read_only_workspace_is_id_mapped() {
    for (mode, mapped) in [(0o755, 0), (0o700, 1)] {
        let spec = spec().workspace(Workspace::read_only("/home/user/project"));
        let mut sample = Sample::root();
        let mut workspace = folder("/home/user/project");
        workspace.mode = mode;
        sample.host_paths.workspace = Some(workspace);
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
fn invalid_export_pattern_is_refused() {
    let mut policy = CapabilityPolicy::new();
    policy.artifact_export_paths = vec!["/output/[a".into()];
    let error = Sample::root()
        .lower(&plan(&spec(), &policy))
        .expect_err("no pattern");
    assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
    assert!(error.to_string().contains("/output/[a"), "{error}");
}

#[test]
fn image_fields_are_refused() {
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
fn only_possible_users_are_accepted() {
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
fn missing_cgroups_are_reported() {
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
    for (sample, egress) in [
        (Sample::root(), "enforced"),
        (Sample::user(), "enforced"),
        (Sample::landlock(), "unenforced"),
    ] {
        let report = sample.lower(&plan).expect("lowered").report;
        for demand in &plan.demands {
            assert!(
                report.get(demand.capability).is_some(),
                "{}",
                demand.capability
            );
        }
        for (capability, status) in [
            (Capability::Egress, egress),
            (Capability::Secrets, "enforced"),
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
fn root_only_proc_files_are_masked_for_host_root() {
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
fn without_procfs_no_proc_restrictions_are_claimed() {
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

fn sample_missing() -> Availability {
    Availability::Missing {
        reason: "masked".into(),
        fix: "unmask it".into(),
    }
}
