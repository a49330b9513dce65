use super::*;
use crate::backend::kernel;
use crate::engine::KernelIsolation;
use crate::family::samples::{FAMILY, OTHER, TIER};
use crate::lowering::samples::plan;
use crate::quota::LayerQuota;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

const SPLIT: Mode = Mode::Split {
    uid: 1000,
    gid: 1000,
};

fn report_of(spec: &SandboxSpec, facts: &EngineFacts, mode: Mode) -> EnforcementReport {
    let plan = plan(spec, &CapabilityPolicy::new());
    let quota = match plan.writable_root {
        true => LayerQuota::Missing("no quota on extfs".into()),
        false => LayerQuota::NotNeeded,
    };
    let storage = StorageSplit::new(&plan, &[], &quota);
    let kernel = kernel(TIER, facts).expect("kernel");
    let report = report(
        FAMILY,
        &plan,
        facts,
        &kernel,
        mode,
        &storage,
        &ProvisionNetwork::Full,
    );
    for demand in &plan.demands {
        assert!(
            report.get(demand.capability).is_some(),
            "{:?}",
            demand.capability
        );
    }
    let json = serde_json::to_value(&report).expect("JSON");
    let read: EnforcementReport = serde_json::from_value(json).expect("a report");
    assert_eq!(read, report);
    report
}

fn spec() -> SandboxSpec {
    SandboxSpec::new("sb")
}

#[test]
fn full_engine_enforces_every_default() {
    let report = report_of(&spec(), &EngineFacts::sample(), SPLIT);
    assert_eq!(report.unenforced_capabilities(), []);
    insta::assert_json_snapshot!(report);
}

#[test]
fn additional_layers_are_reported() {
    let facts = EngineFacts {
        apparmor: true,
        user_namespace: true,
        ..EngineFacts::sample()
    };
    let report = report_of(&spec(), &facts, SPLIT);
    let privileges = report.get(Capability::Privileges).expect("an entry");
    for layer in [
        Mechanism::ContainerSeccompProfile,
        Mechanism::AppArmor,
        Mechanism::UserNamespace,
    ] {
        assert!(privileges.mechanisms().contains(&layer), "{privileges}");
    }
}

#[test]
fn separate_kernel_is_reported_with_its_gaps() {
    let facts = EngineFacts {
        runtime: "runsc".into(),
        kernel_isolation: KernelIsolation::UserKernel,
        ..EngineFacts::sample()
    };
    let mut policy = CapabilityPolicy::new();
    policy.subprocess_execution = Some(false);
    let plan = plan(&spec(), &policy);
    let kernel = kernel(TIER, &facts).expect("kernel");
    let storage = StorageSplit::new(&plan, &[], &LayerQuota::NotNeeded);
    let report = report(
        FAMILY,
        &plan,
        &facts,
        &kernel,
        SPLIT,
        &storage,
        &ProvisionNetwork::Full,
    );
    let entry = |capability| report.get(capability).expect("an entry");
    assert!(
        !kernel.seccomp_notify,
        "the host's kernel cannot be asked about its calls"
    );
    assert_eq!(entry(Capability::SubprocessExecution).status(), "partial");
    assert_eq!(entry(Capability::Pids).status(), "partial");
    for capability in [Capability::Privileges, Capability::Memory, Capability::Cpus] {
        let text = entry(capability).to_string();
        assert!(text.contains("runsc"), "{text}");
        assert!(!text.contains("profile of the container"), "{text}");
    }
}

#[test]
fn rules_are_enforced_unless_something_hinders() {
    let mut policy = CapabilityPolicy::new();
    let rule = "example.org".parse().expect("rule");
    policy.network = Some(NetworkPolicy::Allow(vec![rule]));
    let of = |spec: SandboxSpec, facts: &EngineFacts| {
        let plan = plan(&spec, &policy);
        let kernel = kernel(TIER, facts).expect("kernel");
        egress::report(network(&kernel), &plan, facts)
    };
    let rules = of(spec(), &EngineFacts::sample());
    assert!(rules.is_enforced(), "{rules}");
    assert!(
        rules
            .mechanisms()
            .contains(&Mechanism::HostDialsAllowedNames),
        "{rules}"
    );
    let on = |runtime: &str, kernel_isolation| EngineFacts {
        runtime: runtime.into(),
        kernel_isolation,
        ..EngineFacts::sample()
    };
    let gvisor = of(spec(), &on("runsc", KernelIsolation::UserKernel));
    assert!(gvisor.is_enforced(), "{gvisor}");
    let machine = on("kata", KernelIsolation::Machine);
    let old = EngineFacts {
        kernel: (4, 10),
        ..EngineFacts::sample()
    };
    for (facts, reason) in [(&machine, "kata"), (&old, "4.11")] {
        let entry = of(spec(), facts);
        assert_eq!(entry.status(), "unenforced");
        assert!(entry.to_string().contains(reason), "{entry}");
    }
}

#[test]
fn missing_engine_features_are_not_reported_as_enforced() {
    let facts = EngineFacts {
        memory_limit: false,
        cpu_quota: false,
        pids_limit: false,
        seccomp: false,
        rootless: true,
        ..EngineFacts::sample()
    };
    let report = report_of(&spec(), &facts, SPLIT);
    let status = |capability| report.get(capability).map(Enforcement::status);
    for capability in [Capability::Memory, Capability::Cpus, Capability::Pids] {
        assert_eq!(status(capability), Some("unenforced"));
    }
    assert_eq!(status(Capability::Privileges), Some("partial"));
    assert_eq!(status(Capability::NetworkAccess), Some("partial"));

    let facts = EngineFacts {
        swap_limit: false,
        ..EngineFacts::sample()
    };
    let memory = report_of(&spec(), &facts, SPLIT);
    assert_eq!(
        memory.get(Capability::Memory).map(Enforcement::status),
        Some("partial")
    );
}

#[test]
fn writable_workspace_makes_disk_partial() {
    let spec = spec().workspace(Workspace::read_write("/work"));
    let report = report_of(&spec, &EngineFacts::sample(), SPLIT);
    assert_eq!(
        report.get(Capability::Disk).map(Enforcement::status),
        Some("partial")
    );
}

#[test]
fn writable_root_without_quota_makes_disk_partial() {
    let report = report_of(&spec().writable_root(true), &EngineFacts::sample(), SPLIT);
    let disk = report.get(Capability::Disk).map(ToString::to_string);
    let disk = disk.expect("an entry");
    assert!(
        disk.contains("partial") && disk.contains("image's files") && disk.contains("extfs"),
        "{disk}"
    );
    let files = report.get(Capability::FilesystemWriteRoots);
    assert_eq!(files.map(Enforcement::status), Some("enforced"));
}

#[test]
fn writable_root_with_quota_keeps_disk_enforced() {
    let plan = plan(&spec().writable_root(true), &CapabilityPolicy::new());
    let storage = StorageSplit::new(&plan, &[], &LayerQuota::Works);
    let disk = disk(FAMILY, &EngineFacts::sample(), SPLIT, &storage);
    assert!(disk.is_enforced(), "{disk}");
    assert!(disk.to_string().contains("quota"), "{disk}");
}

#[test]
fn code_with_the_agents_user_makes_its_limits_partial() {
    let report = report_of(&spec(), &EngineFacts::sample(), Mode::Shared);
    for capability in [Capability::Timeout, Capability::OpenFiles, Capability::Disk] {
        assert_eq!(
            report.get(capability).map(Enforcement::status),
            Some("partial")
        );
    }
    assert_eq!(
        report
            .get(Capability::StdoutMaxBytes)
            .map(Enforcement::status),
        Some("enforced")
    );
}

#[test]
fn empty_files_need_an_inode_or_memory_limit() {
    let plan = plan(&spec(), &CapabilityPolicy::new());
    let storage = StorageSplit::new(&plan, &[], &LayerQuota::NotNeeded);
    let of = |family, memory_limit| {
        let facts = EngineFacts {
            memory_limit,
            ..EngineFacts::sample()
        };
        disk(family, &facts, SPLIT, &storage).status()
    };
    assert_eq!(of(FAMILY, false), "enforced");
    assert_eq!(of(OTHER, true), "enforced");
    assert_eq!(of(OTHER, false), "partial");
}
