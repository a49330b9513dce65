//! Reports what a cluster enforces of a plan.
//!
//! What the pod's fields request is reported as enforced: a node that cannot enforce it would not
//! run the pod. Before code runs, the report is compared with the kernel's state inside the pod
//! (see [`crate::observed`]).

use sandbox_agent::protocol::LandlockRules;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    Capability, CgroupController, CgroupLimit, CgroupVersion, Enforcement, EnforcementReport,
    LimitOwner, Mechanism, Mechanisms, Plan,
};
use sandbox_host::confinement::{self, Kernel, Mode};
use sandbox_lang::packages::{self, ProvisionNetwork};

use crate::cluster::ServerVersion;
use crate::config::PodProfile;
use crate::egress::{self, EgressFacts};
use crate::lowering::{PodStorage, takes_network_down};
use crate::network::NetworkDenial;
use crate::template::PodTemplate;

/// The first minor version whose kubelet limits the size of each memory volume.
const SIZED_MEMORY: u32 = 22;

/// Inputs of the report besides the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodFacts<'a> {
    pub profile: PodProfile,
    pub version: &'a ServerVersion,
    pub kernel: &'a Kernel,
    pub mode: Mode,
    pub storage: &'a PodStorage,
    /// Whether a NetworkPolicy was shown to deny the network, if the network is left to one.
    pub denial: Option<&'a NetworkDenial>,
    /// Whether code has its own user on the node.
    pub own_user: bool,
    pub template: Option<&'a PodTemplate>,
    /// The network of installations.
    pub provision: &'a ProvisionNetwork<'a>,
}

/// The enforcement of each demand of a plan.
pub(crate) fn report(plan: &Plan, facts: &PodFacts<'_>) -> EnforcementReport {
    let mut report = EnforcementReport::new();
    for demand in &plan.demands {
        report.set(demand.capability, entry(demand.capability, plan, facts));
    }
    report
}

/// Notes in the entry for processes that the sandbox came from a warm pool.
pub(crate) fn from_pool(report: &mut EnforcementReport, pod: &str) {
    let entry = report.get(Capability::Processes).cloned();
    if let Some(entry) = entry.filter(Enforcement::is_enforced) {
        let pod = Mechanism::WarmPoolPod(pod.to_owned());
        report.set(Capability::Processes, entry.and(pod));
    }
}

fn entry(capability: Capability, plan: &Plan, facts: &PodFacts<'_>) -> Enforcement {
    let PodFacts { kernel, mode, .. } = *facts;
    match capability {
        Capability::FilesystemReadRoots => {
            with_landlock(Mechanism::PodWithoutNodeFolders.into(), kernel)
        }
        Capability::FilesystemWriteRoots => with_landlock(
            [Mechanism::ReadOnlyRoot, Mechanism::PodVolumes].into(),
            kernel,
        ),
        Capability::NetworkAccess | Capability::Egress => network(plan, facts),
        Capability::Processes => Enforcement::enforced([
            Mechanism::PidAndIpcNamespaces,
            Mechanism::EndedByAgentOrKubelet,
        ]),
        Capability::Privileges => privileges(kernel, mode),
        Capability::Lifetime => Enforcement::enforced(Mechanism::PodDeadline),
        Capability::Memory => {
            limited(LimitOwner::Pod, CgroupController::Memory).and(Mechanism::KillsCountedInside)
        }
        Capability::Cpus => limited(LimitOwner::Pod, CgroupController::Quota),
        Capability::Pids => pids(facts),
        Capability::Disk => disk(plan, facts),
        Capability::PackageInstallation if plan.packages.is_empty() => {
            match network(plan, facts) {
                // A network that should be denied but is not allows package downloads.
                open @ Enforcement::Unenforced { .. } => open,
                _ => packages::denied(plan),
            }
        }
        Capability::PackageInstallation => packages::provisioned(facts.provision),
        Capability::Packages => packages::installed(),
        _ => confinement::by_agent(capability, kernel, mode),
    }
}

/// By a limit of the specification. The cluster does not tell the version of the control groups.
pub(crate) fn limited(owner: LimitOwner, controller: CgroupController) -> Enforcement {
    let limit = CgroupLimit::new(CgroupVersion::Unknown, controller).owned_by(owner);
    Enforcement::enforced(Mechanism::Cgroup(limit))
}

const KEPT: &str = "the pod keeps its network";

fn network(plan: &Plan, facts: &PodFacts<'_>) -> Enforcement {
    let profile = facts.profile;
    match &plan.network {
        NetworkPolicy::Allow(rules) => {
            let egress = EgressFacts {
                profile,
                template: facts.template,
            };
            egress::report(network_down(), rules, egress)
        }
        NetworkPolicy::Full => Enforcement::enforced(Mechanism::PodNetwork),
        NetworkPolicy::None if takes_network_down(plan, profile) => network_down(),
        NetworkPolicy::None => match facts.denial {
            Some(NetworkDenial::Proven { .. }) => {
                Enforcement::enforced(Mechanism::ProvenNetworkPolicy)
            }
            Some(NetworkDenial::Unproven(why)) => Enforcement::unenforced(format!("{KEPT}: {why}")),
            None => Enforcement::unenforced(format!(
                "{KEPT}: the profile {} does not allow taking it down",
                profile.as_str()
            )),
        },
        _ => Enforcement::unenforced("this backend does not know the rule"),
    }
}

fn network_down() -> Enforcement {
    Enforcement::enforced([Mechanism::InterfacesDown, Mechanism::Seccomp])
}

fn privileges(kernel: &Kernel, mode: Mode) -> Enforcement {
    let of_agent = confinement::privileges(kernel, mode);
    match of_agent.is_enforced() {
        true => of_agent.and(Mechanism::RuntimeSeccompProfile),
        false => of_agent,
    }
}

/// File isolation, with Landlock as a second layer if the agent found it.
fn with_landlock(mechanisms: Mechanisms, kernel: &Kernel) -> Enforcement {
    let isolation = Enforcement::enforced(mechanisms);
    match kernel.landlock_abi {
        0..LandlockRules::LEAST_ABI => isolation,
        _ => isolation.and(Mechanism::Landlock),
    }
}

/// A pod cannot request a limit on processes, nor read its kubelet's.
fn pids(facts: &PodFacts<'_>) -> Enforcement {
    if !facts.own_user {
        return Enforcement::unenforced(
            "a pod cannot ask for a limit (`podPidsLimit` of the kubelet's), and the user that the specification names may have other processes on the node",
        );
    }
    let gap = match facts.mode {
        Mode::Split { .. } => {
            "counted for the code's user, who has no other processes, and not for the pod"
        }
        Mode::Shared => {
            "counted for the code's user, who is the agent's as well, and not for the pod"
        }
    };
    Enforcement::partial(Mechanism::RlimitNproc, gap)
}

/// The kubelet's last-message file is world-writable and on the node's disk. An agent without a
/// user of its own cannot close it.
pub(crate) const MESSAGE_GAP: &str = "the kubelet's file for the last message takes as much again, on the node's disk (RLIMIT_FSIZE)";

fn disk(plan: &Plan, facts: &PodFacts<'_>) -> Enforcement {
    let mut gaps = Vec::new();
    if plan.volumes.iter().any(|volume| !volume.read_only) {
        gaps.push("claims are writable without a bound of the sandbox");
    }
    if facts.mode == Mode::Shared {
        gaps.push(MESSAGE_GAP);
    }
    if !facts.version.kubelets_at_least(SIZED_MEMORY) {
        gaps.push(
            "a kubelet older than 1.22 may give a volume in memory no size of its own: then the memory limit bounds it, and an eviction some seconds later",
        );
    }
    let storage = Enforcement::enforced(facts.storage.mechanisms());
    match gaps.is_empty() {
        true => storage,
        false => storage.weakened(gaps.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::tests::plan;
    use sandbox_core::policy::EgressRules;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};
    use sandbox_host::seccomp::Arch;

    fn kernel() -> Kernel {
        Kernel {
            arch: Arch::X86_64,
            landlock_abi: 0,
            seccomp: true,
            seccomp_notify: false,
        }
    }

    fn report_of(policy: &CapabilityPolicy, profile: PodProfile, minor: u32) -> EnforcementReport {
        report_under(policy, profile, minor, None)
    }

    fn report_under(
        policy: &CapabilityPolicy,
        profile: PodProfile,
        minor: u32,
        denial: Option<&NetworkDenial>,
    ) -> EnforcementReport {
        let plan = plan(&SandboxSpec::new("sb"), policy);
        let storage = PodStorage::new(&plan, &[]);
        let version = ServerVersion {
            major: 1,
            minor,
            text: String::new(),
        };
        let facts = PodFacts {
            profile,
            version: &version,
            kernel: &kernel(),
            mode: match profile {
                PodProfile::Hardened => Mode::Split { uid: 7, gid: 7 },
                PodProfile::Restricted => Mode::Shared,
            },
            storage: &storage,
            denial,
            own_user: true,
            template: None,
            provision: &ProvisionNetwork::Full,
        };
        let report = report(&plan, &facts);
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

    #[test]
    fn hardened() {
        let report = report_of(&CapabilityPolicy::new(), PodProfile::Hardened, 33);
        let gaps = report.unenforced_capabilities();
        assert_eq!(gaps, [Capability::Pids]);
        let older = report_of(&CapabilityPolicy::new(), PodProfile::Hardened, 20);
        let disk = older.get(Capability::Disk).expect("an entry").to_string();
        assert!(
            disk.contains("older") && !disk.contains("last message"),
            "{disk}"
        );
        insta::assert_json_snapshot!(report);
    }

    #[test]
    fn restricted() {
        let report = report_of(&CapabilityPolicy::new(), PodProfile::Restricted, 20);
        let status = |capability| report.get(capability).map(Enforcement::status);
        assert_eq!(status(Capability::NetworkAccess), Some("unenforced"));
        assert_eq!(status(Capability::Timeout), Some("partial"));
        assert_eq!(status(Capability::Disk), Some("partial"));
        insta::assert_json_snapshot!(report);
    }

    #[test]
    fn landlock_is_reported_if_found() {
        let words = |landlock_abi| {
            let kernel = Kernel {
                landlock_abi,
                ..kernel()
            };
            with_landlock(Mechanism::ImageRoot.into(), &kernel).to_string()
        };
        assert!(!words(0).contains("Landlock") && !words(1).contains("Landlock"));
        assert!(words(2).contains("root, Landlock"), "{}", words(2));
    }

    #[test]
    fn network_is_denied_only_if_proven() {
        let policy = CapabilityPolicy::new();
        let network = |denial: NetworkDenial| {
            let report = report_under(&policy, PodProfile::Restricted, 33, Some(&denial));
            report
                .get(Capability::NetworkAccess)
                .expect("an entry")
                .clone()
        };
        let witnesses = vec!["10.96.0.1:443".parse().expect("an address")];
        let proven = network(NetworkDenial::Proven { witnesses });
        assert!(
            proven.is_enforced() && proven.to_string().contains("canary"),
            "{proven}"
        );
        let unproven = network(NetworkDenial::Unproven("a pod under it reaches x".into()));
        assert_eq!(unproven.status(), "unenforced");
        assert!(unproven.to_string().contains("reaches x"), "{unproven}");
    }

    #[test]
    fn rules_are_enforced_where_the_agent_takes_the_network_down() {
        let rules = EgressRules::parse(["one.test:443", "*.wild.test"]).expect("rules");
        let mut policy = CapabilityPolicy::new();
        policy.network = Some(NetworkPolicy::Allow(rules.into_rules()));
        let report = report_of(&policy, PodProfile::Hardened, 33);
        let entries = [Capability::NetworkAccess, Capability::Egress]
            .map(|capability| report.get(capability));
        insta::assert_json_snapshot!(entries);
        let report = report_of(&policy, PodProfile::Restricted, 33);
        for capability in [Capability::NetworkAccess, Capability::Egress] {
            let entry = report.get(capability).expect("an entry");
            assert_eq!(entry.status(), "unenforced");
            assert!(entry.to_string().contains("restricted"), "{entry}");
        }
    }
}
