//! The values and demands of plans, by policy and specification.

use std::time::Duration;

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Capability, CapabilityPolicy, ErrorKind, Level, Plan, SandboxSpec};

use super::Change;
use crate::probes::prelude::*;

/// What was changed, the change, and whether the plan is right.
type PlanCase = (&'static str, Change, fn(&Plan) -> bool);

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

const CASES: &[PlanCase] = &[
    ("nothing", |_, _| (), is_default),
    (
        "a detached sandbox",
        |_, spec| spec.detached = true,
        |plan| (plan.lifetime, plan.timeout) == (Some(HOUR), HOUR),
    ),
    (
        "a lifetime",
        |policy, _| policy.lifetime = Some(90 * SECOND),
        |plan| (plan.lifetime, plan.timeout) == (Some(90 * SECOND), 30 * SECOND),
    ),
    (
        "a lifetime, detached",
        |policy, spec| (policy.lifetime, spec.detached) = (Some(90 * SECOND), true),
        |plan| (plan.lifetime, plan.timeout) == (Some(90 * SECOND), 90 * SECOND),
    ),
    (
        "a lifetime above the default, detached",
        |policy, spec| (policy.lifetime, spec.detached) = (Some(8 * HOUR), true),
        |plan| (plan.lifetime, plan.timeout) == (Some(8 * HOUR), 8 * HOUR),
    ),
    (
        "a shorter lifetime than the policy's, detached",
        |policy, spec| {
            (policy.lifetime, spec.lifetime) = (Some(8 * HOUR), Some(90 * SECOND));
            spec.detached = true;
        },
        |plan| (plan.lifetime, plan.timeout) == (Some(90 * SECOND), 90 * SECOND),
    ),
    (
        "the specification's lifetime alone",
        |_, spec| spec.lifetime = Some(2 * HOUR),
        |plan| (plan.lifetime, plan.timeout) == (Some(2 * HOUR), 30 * SECOND),
    ),
    (
        "the specification's lifetime alone, detached",
        |_, spec| (spec.lifetime, spec.detached) = (Some(2 * HOUR), true),
        |plan| (plan.lifetime, plan.timeout) == (Some(2 * HOUR), 2 * HOUR),
    ),
    (
        "a time limit above the lifetime, detached",
        |policy, spec| {
            (policy.timeout, policy.lifetime) = (Some(2 * HOUR), Some(HOUR));
            spec.detached = true;
        },
        |plan| (plan.lifetime, plan.timeout) == (Some(HOUR), 2 * HOUR),
    ),
    (
        "each limit",
        |policy, _| {
            for (_, set) in LIMITS {
                set(policy);
            }
        },
        |plan| {
            (plan.timeout, plan.file_timeout) == (7 * SECOND, 9 * SECOND)
                && (plan.stdout_max, plan.stderr_max) == (ByteSize::kib(3), ByteSize::kib(5))
                && (plan.memory, plan.disk) == (ByteSize::mib(70), ByteSize::mib(11))
                && (plan.cpus, plan.pids, plan.open_files) == (Cpus::milli(130), 17, 19)
        },
    ),
    (
        "less than the policy's",
        |policy, spec| {
            (policy.memory, policy.cpus) = (Some(ByteSize::mib(70)), Some(Cpus::milli(500)));
            (spec.memory, spec.cpus) = (Some(ByteSize::mib(50)), Some(Cpus::milli(200)));
        },
        |plan| (plan.memory, plan.cpus) == (ByteSize::mib(50), Cpus::milli(200)),
    ),
    (
        "more than the default",
        |_, spec| (spec.memory, spec.cpus) = (Some(ByteSize::mib(600)), Some(Cpus::whole(2))),
        |plan| (plan.memory, plan.cpus) == (ByteSize::mib(600), Cpus::whole(2)),
    ),
    (
        "an empty list of destinations",
        |policy, spec| {
            policy.network = rules(&["example.org"]);
            spec.egress = Some(Vec::new());
        },
        |plan| plan.network == NetworkPolicy::None,
    ),
    (
        "no list of destinations",
        |policy, _| policy.network = rules(&["example.org", "!a.example.org"]),
        |plan| Some(&plan.network) == rules(&["example.org", "!a.example.org"]).as_ref(),
    ),
    (
        "fewer destinations than the policy's, which denies one",
        |policy, spec| {
            policy.network = rules(&["*.example.org", "!a.example.org"]);
            spec.egress = Some(vec!["b.example.org:443".into()]);
        },
        |plan| {
            Some(&plan.network) == rules(&["b.example.org:443", "!a.example.org"]).as_ref()
                && Some(&plan.network_ceiling)
                    == rules(&["*.example.org", "!a.example.org"]).as_ref()
        },
    ),
    (
        "destinations under an open network",
        |policy, spec| {
            policy.network = Some(NetworkPolicy::Full);
            spec.egress = Some(vec!["example.org".into()]);
        },
        |plan| Some(&plan.network) == rules(&["example.org"]).as_ref(),
    ),
    (
        "packages of both",
        |policy, spec| {
            (policy.packages, spec.packages) = (vec!["six".into()], vec!["toml==1".into()]);
            policy.package_installation = Some(true);
        },
        |plan| plan.packages.len() == 2,
    ),
    (
        "links and variables",
        |policy, spec| {
            (policy.follow_links, policy.subprocess_execution) = (Some(true), Some(false));
            spec.env.insert("A".into(), "b".into());
        },
        |plan| {
            (plan.follow_links, plan.subprocess) == (true, false)
                && plan.env.len() == 1
                && is_required(plan, Capability::SubprocessExecution)
        },
    ),
    (
        "every demand",
        |policy, _| policy.require_all = true,
        |plan| {
            plan.demands
                .iter()
                .all(|demand| demand.level == Level::Required)
        },
    ),
    (
        "no packages",
        |policy, _| policy.package_installation = Some(false),
        |plan| is_required(plan, Capability::PackageInstallation),
    ),
    (
        "an export and a secret",
        |policy, spec| {
            policy.artifact_export_paths = vec!["out/*".into()];
            policy.secrets = vec!["A".into(), "B".into()];
            spec.secrets = vec!["B".into()];
        },
        |plan| {
            plan.secrets == ["B"]
                && is_required(plan, Capability::ArtifactExportPaths)
                && is_required(plan, Capability::Secrets)
        },
    ),
];

/// A limit of a policy, and a value that is no default.
type Limit = (Capability, fn(&mut CapabilityPolicy));

/// Those that a file may leave out. The limit of file operations is no demand.
const LIMITS: &[Limit] = &[
    (Capability::Timeout, |policy| {
        (policy.timeout, policy.file_timeout) = (Some(7 * SECOND), Some(9 * SECOND));
    }),
    (Capability::StdoutMaxBytes, |policy| {
        policy.stdout_max_bytes = Some(ByteSize::kib(3));
    }),
    (Capability::StderrMaxBytes, |policy| {
        policy.stderr_max_bytes = Some(ByteSize::kib(5));
    }),
    (Capability::Memory, |policy| {
        policy.memory = Some(ByteSize::mib(70));
    }),
    (Capability::Cpus, |policy| {
        policy.cpus = Some(Cpus::milli(130));
    }),
    (Capability::Pids, |policy| policy.pids = Some(17)),
    (Capability::Disk, |policy| {
        policy.disk = Some(ByteSize::mib(11));
    }),
    (Capability::OpenFiles, |policy| policy.open_files = Some(19)),
];

/// Isolation, which no file has to state.
const ISOLATION: [Capability; 6] = [
    Capability::FilesystemReadRoots,
    Capability::FilesystemWriteRoots,
    Capability::NetworkAccess,
    Capability::EnvVarAccess,
    Capability::Processes,
    Capability::Privileges,
];

fn is_default(plan: &Plan) -> bool {
    plan.network == NetworkPolicy::None
        && (plan.subprocess, plan.follow_links, plan.detached) == (true, false, false)
        && (plan.lifetime, plan.timeout, plan.file_timeout) == (None, 30 * SECOND, 600 * SECOND)
        && (plan.stdout_max, plan.stderr_max) == (ByteSize::mib(64), ByteSize::mib(64))
        && (plan.memory, plan.disk) == (ByteSize::mib(512), ByteSize::mib(256))
        && (plan.cpus, plan.pids, plan.open_files) == (Cpus::whole(1), 256, 1024)
        && (plan.images.is_none(), plan.packages.is_empty()) == (true, true)
}

fn is_required(plan: &Plan, capability: Capability) -> bool {
    let demand = plan.demand(capability);
    demand.is_some_and(|demand| demand.level == Level::Required)
}

fn rules(rules: &[&str]) -> Option<NetworkPolicy> {
    let rules = rules.iter().filter_map(|rule| rule.parse().ok());
    Some(NetworkPolicy::Allow(rules.collect()))
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::compare(context, "plan each", async |context| {
        for (what, change, is_right) in CASES {
            let deviation = match context.plan(change) {
                Ok(plan) if is_right(&plan) => continue,
                Ok(plan) => format!("{plan:?}"),
                // Only a backend without detached sandboxes refuses a case.
                Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                Err(error) => error.to_string(),
            };
            return Ok(Some(format!("{what}: {deviation}")));
        }
        for stated in LIMITS {
            if let Some(wrong) = other_levels(context, stated)? {
                return Ok(Some(wrong));
            }
        }
        admitted(context).await
    })
    .await
}

/// The first demand with another level than documented, where the policy states one limit.
fn other_levels(
    context: &ProbeContext,
    (stated, set): &Limit,
) -> Result<Option<String>, ProbeError> {
    let plan = context.plan(|policy, _| set(policy))?;
    let limits = LIMITS.iter().map(|(limit, _)| (*limit, limit == stated));
    let mut demands = limits.chain(ISOLATION.map(|capability| (capability, true)));
    let wrong = demands.find(|(capability, required)| {
        plan.demand(*capability).is_none() || is_required(&plan, *capability) != *required
    });
    Ok(wrong.map(|(capability, _)| format!("{capability} where {stated} is stated")))
}

/// A specification is accepted if this host meets each demand that is required.
async fn admitted(context: &ProbeContext) -> Result<Option<String>, ProbeError> {
    let changes: [fn(&mut CapabilityPolicy, &mut SandboxSpec); 3] = [
        |_, _| (),
        |policy, _| policy.require_all = true,
        |policy, _| {
            for (_, set) in LIMITS {
                set(policy);
            }
        },
    ];
    for change in changes {
        let support = context.check(change).await?;
        let required = support.demands.iter();
        let required = required.filter(|it| it.demand.level == Level::Required);
        let is_met = required.clone().all(|it| it.enforcement.is_enforced());
        if support.applies_policy && support.is_accepted() != is_met {
            return Ok(Some(format!(
                "{:?} for {:?}",
                support.answer, support.demands
            )));
        }
        if required.count() == 0 {
            return Ok(Some("nothing is required".to_owned()));
        }
    }
    Ok(None)
}
