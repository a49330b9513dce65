//! Engine findings for `sandbox doctor`, and the key of the matrix profile.

use sandbox_core::spi::Finding;
use sandbox_core::{Error, ErrorKind};

use crate::Tier;
use crate::config::ContainerConfig;
use crate::engine::{Engine, EngineFacts};
use crate::image::{self, RequestedImage};

/// The finding for an engine that was not found.
pub(crate) fn engine_missing(error: &Error) -> Finding {
    Finding {
        name: "engine".into(),
        present: false,
        detail: error.context().to_owned(),
        fix: error.fix().unwrap_or_default().to_owned(),
    }
}

/// The findings about an engine and the default image.
pub(crate) async fn findings(
    tier: Tier,
    engine: &Engine,
    config: &ContainerConfig,
) -> Vec<Finding> {
    let mut findings = engine_findings(engine);
    let image = match config.default_image.parse() {
        Ok(reference) => {
            let original = Some(config.default_image.as_str());
            image::find(
                tier,
                engine,
                &RequestedImage {
                    reference,
                    original,
                },
            )
            .await
        }
        Err(error) => Err(error),
    };
    let (present, detail, fix) = match image {
        Ok(_) => (true, config.default_image.clone(), String::new()),
        Err(error) if error.kind() == ErrorKind::ImageNotFound => (
            false,
            format!("{} is not there", config.default_image),
            error.fix().unwrap_or_default().to_owned(),
        ),
        Err(error) => (false, error.to_string(), String::new()),
    };
    findings.push(Finding {
        name: "default image".into(),
        present,
        detail,
        fix,
    });
    findings
}

fn engine_findings(engine: &Engine) -> Vec<Finding> {
    let facts = &engine.facts;
    let finding = |name: &str, present: bool, detail: String, fix: &str| Finding {
        name: name.to_owned(),
        present,
        detail,
        fix: if present {
            String::new()
        } else {
            fix.to_owned()
        },
    };
    let yes_no = |yes: bool, name: &str| {
        if yes {
            name.to_owned()
        } else {
            format!("no {name}")
        }
    };
    let (major, minor) = facts.api;
    let limits = [
        yes_no(facts.memory_limit, "memory"),
        yes_no(facts.swap_limit, "swap"),
        yes_no(facts.cpu_quota, "cpu quota"),
        yes_no(facts.pids_limit, "pids"),
    ];
    let all_limits = facts.memory_limit && facts.swap_limit && facts.cpu_quota && facts.pids_limit;
    vec![
        finding(
            "engine",
            true,
            format!(
                "{} (API {major}.{minor}) at {}",
                facts.version, engine.endpoint
            ),
            "",
        ),
        finding(
            "limits",
            all_limits,
            format!(
                "cgroup v{} ({}): {}",
                facts.cgroup,
                facts.cgroup_driver,
                limits.join(", ")
            ),
            "use a rootful engine, or cgroup v2 with delegated controllers; boot with swapaccount=1 for swap",
        ),
        finding(
            "seccomp",
            facts.seccomp,
            yes_no(facts.seccomp, "seccomp filters"),
            "use an engine built with seccomp on a kernel with CONFIG_SECCOMP_FILTER",
        ),
        finding(
            "isolation",
            true,
            format!(
                "{}, {}, storage {}, runtime {}",
                if facts.rootless {
                    "rootless"
                } else {
                    "rootful"
                },
                yes_no(facts.user_namespace || facts.rootless, "user namespace"),
                facts.storage,
                facts.runtime
            ),
            "",
        ),
    ]
}

fn security_module(facts: &EngineFacts) -> &'static str {
    match (facts.apparmor, facts.selinux) {
        (true, _) => "AppArmor",
        (_, true) => "SELinux",
        (false, false) => "none",
    }
}

/// The engine properties that change enforcement.
pub(crate) fn profile(tier: Tier, facts: &EngineFacts) -> Vec<(String, String)> {
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let mut limits = Vec::new();
    for (works, name) in [
        (facts.memory_limit, "memory"),
        (facts.swap_limit, "swap"),
        (facts.cpu_quota, "cpu"),
        (facts.pids_limit, "pids"),
    ] {
        if works {
            limits.push(name);
        }
    }
    if limits.is_empty() {
        limits.push("none");
    }
    let mut pairs = vec![
        ("backend", tier.into()),
        ("engine", facts.short_version()),
        ("runtime", facts.runtime.clone()),
        ("rootless", yes_no(facts.rootless)),
        ("user_namespace", yes_no(facts.user_namespace)),
        ("cgroup", format!("v{}", facts.cgroup)),
        ("limits", limits.join(",")),
        ("seccomp", yes_no(facts.seccomp)),
        ("security_module", security_module(facts).to_owned()),
    ];
    // All code then runs as the agent's user. Other values make no difference.
    if facts.ids == 1 {
        pairs.push(("users", "one".to_owned()));
    }
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
