//! Applies the operator's engine options to a lowered plan, after checking that each only tightens.

use std::collections::BTreeSet;

use bollard::models::{ContainerCreateBody, HostConfig, ResourcesUlimits};
use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::disk_split::is_below;

use crate::Tier;
use crate::engine::EngineFacts;
use crate::family::PathOptions;
use crate::options::{EngineOptions, Ulimit};

/// The paths that an engine hides by default. A request with its own list loses the defaults, so
/// they are added to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DefaultPaths {
    pub masked: Vec<String>,
    pub read_only: Vec<String>,
}

/// Hidden by every engine with Docker's API. Newer ones hide more: see [`DefaultPaths`].
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Made read-only by every engine with Docker's API.
const READ_ONLY: &[&str] = &[
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Default processor weight of a cgroup.
const DEFAULT_CPU_SHARES: u16 = 1024;

/// Default disk weight of a cgroup.
const DEFAULT_IO_WEIGHT: u16 = 500;

/// Default byte limit of a user's message queues (`MQ_BYTES_MAX`).
const DEFAULT_MESSAGE_QUEUES: u64 = 819_200;

/// Descriptors for the agent and a few concurrent executions.
const AGENT_MIN_OPEN_FILES: u64 = 256;

/// Stack for a program's arguments and first functions, in bytes.
const MIN_STACK: u64 = 64 << 10;

/// Adds the options to a lowered container.
///
/// # Errors
///
/// `InvalidSpec` for a value that is invalid or would loosen the sandbox, `Unsupported` for an
/// option that the engine lacks.
pub(super) fn tighten(
    tier: Tier,
    plan: &Plan,
    facts: &EngineFacts,
    options: &EngineOptions,
    default_paths: &DefaultPaths,
    body: &mut ContainerCreateBody,
) -> Result<()> {
    let check = OptionCheck { tier };
    if let Some(name) = &options.hostname {
        check.require(is_host_name(name), "hostname", name, "is no name of a host")?;
        body.hostname = Some(name.clone());
    }
    let host = body.host_config.get_or_insert_default();
    ulimits(check, options, host)?;
    security(check, facts, options, host)?;
    paths(check, options, default_paths, host)?;
    shares(check, facts, options, host)?;
    if options.private_users {
        users(check, plan, facts, host)?;
    }
    Ok(())
}

/// Checks of one option's value.
#[derive(Debug, Clone, Copy)]
struct OptionCheck {
    tier: Tier,
}

impl OptionCheck {
    fn require(self, good: bool, option: &str, value: &str, why: &str) -> Result<()> {
        if good {
            return Ok(());
        }
        let context = format!("engine option {option}: {value:?} {why}");
        Err(
            Error::new(ErrorKind::InvalidSpec, "create sandbox", context)
                .on(self.tier)
                .with_fix(
                    "engine options only tighten a sandbox: leave it out, or choose another value",
                ),
        )
    }

    fn unsupported(self, option: &str, why: &str) -> Error {
        let context = format!("engine option {option}: {why}");
        Error::new(ErrorKind::Unsupported, "create sandbox", context)
            .on(self.tier)
            .with_fix("leave it out, or use another engine")
    }
}

fn ulimits(check: OptionCheck, options: &EngineOptions, host: &mut HostConfig) -> Result<()> {
    let ulimits = host.ulimits.get_or_insert_default();
    for (resource, value) in &options.ulimits {
        let (name, text) = (resource.name(), value.to_string());
        let limit = i64::try_from(*value).unwrap_or(i64::MAX);
        check.require(limit < i64::MAX, name, &text, "is no limit")?;
        let least = match resource {
            Ulimit::OpenFiles => AGENT_MIN_OPEN_FILES,
            Ulimit::Stack => MIN_STACK,
            _ => 0,
        };
        check.require(*value >= least, name, &text, "is less than the agent needs")?;
        let more = "is more than a sandbox has without it";
        if *resource == Ulimit::MessageQueues {
            check.require(*value <= DEFAULT_MESSAGE_QUEUES, name, &text, more)?;
        }
        match ulimits
            .iter_mut()
            .find(|limit| limit.name.as_deref() == Some(name))
        {
            Some(existing) => {
                check.require(
                    existing.hard.is_none_or(|hard| limit <= hard),
                    name,
                    &text,
                    more,
                )?;
                (existing.soft, existing.hard) = (Some(limit), Some(limit));
            }
            None => ulimits.push(ResourcesUlimits {
                name: Some(name.into()),
                soft: Some(limit),
                hard: Some(limit),
            }),
        }
    }
    Ok(())
}

fn security(
    check: OptionCheck,
    facts: &EngineFacts,
    options: &EngineOptions,
    host: &mut HostConfig,
) -> Result<()> {
    let security = host.security_opt.get_or_insert_default();
    if let Some(profile) = &options.apparmor {
        let named = is_word(profile) && profile != "unconfined";
        check.require(named, "apparmor", profile, "confines nothing")?;
        if !facts.apparmor {
            return Err(
                check.unsupported("apparmor", "the engine's kernel does not enforce AppArmor")
            );
        }
        security.push(format!("apparmor={profile}"));
    }
    if let Some(level) = &options.selinux_level {
        let known = is_selinux_level(level);
        check.require(
            known,
            "selinux_level",
            level,
            "is not one sensitivity with one or two categories",
        )?;
        if !facts.selinux {
            return Err(check.unsupported(
                "selinux_level",
                "the engine's kernel does not enforce SELinux",
            ));
        }
        security.push(format!("label=level:{level}"));
    }
    Ok(())
}

fn paths(
    check: OptionCheck,
    options: &EngineOptions,
    default_paths: &DefaultPaths,
    host: &mut HostConfig,
) -> Result<()> {
    let (masked, read_only) = (&options.masked_paths, &options.read_only_paths);
    for path in masked.iter().chain(read_only) {
        let plain = path.starts_with('/')
            && path.len() > 1
            && !path.contains([':', ',', '\0'])
            && !path.split('/').any(|part| part == "..");
        check.require(
            plain,
            "path",
            path,
            "is not an absolute path without special characters",
        )?;
        let agents = is_below(crate::volume::FOLDER, path) || is_below(path, crate::volume::FOLDER);
        check.require(!agents, "path", path, "would take the agent away")?;
    }
    let with = |always: &[&str], default_paths: &[String], more: &BTreeSet<String>| {
        let mut all = always
            .iter()
            .map(|path| (*path).to_owned())
            .collect::<Vec<_>>();
        for path in default_paths.iter().chain(more) {
            if !all.contains(path) {
                all.push(path.clone());
            }
        }
        Some(all)
    };
    match check.tier.family.path_options {
        PathOptions::Lists => {
            if !masked.is_empty() {
                host.masked_paths = with(MASKED, &default_paths.masked, masked);
            }
            if !read_only.is_empty() {
                host.readonly_paths = with(READ_ONLY, &default_paths.read_only, read_only);
            }
        }
        PathOptions::Masks => {
            if !read_only.is_empty() {
                let engine = check.tier.family.engine;
                return Err(
                    check.unsupported("read_only_paths", &format!("{engine} has no such option"))
                );
            }
            if !masked.is_empty() {
                let list = masked
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(":");
                let security = host.security_opt.get_or_insert_default();
                security.push(format!("mask={list}"));
            }
        }
    }
    Ok(())
}

fn shares(
    check: OptionCheck,
    facts: &EngineFacts,
    options: &EngineOptions,
    host: &mut HostConfig,
) -> Result<()> {
    let more = "is more than everybody's";
    for (option, list, field) in [
        ("processors", &options.processors, &mut host.cpuset_cpus),
        ("memory_nodes", &options.memory_nodes, &mut host.cpuset_mems),
    ] {
        if let Some(list) = list {
            check.require(is_list(list), option, list, "is not a list like 0-2,4")?;
            if !facts.cpuset {
                return Err(check.unsupported(
                    option,
                    "the engine cannot choose processors (no cpuset controller)",
                ));
            }
            *field = Some(list.clone());
        }
    }
    let any = options.cpu_shares.is_some() || options.io_weight.is_some();
    if any && !facts.cpu_quota {
        return Err(check.unsupported(
            "cpu_shares, io_weight",
            "the engine has no control groups to share by",
        ));
    }
    if let Some(shares) = options.cpu_shares {
        let text = shares.to_string();
        check.require(shares <= DEFAULT_CPU_SHARES, "cpu_shares", &text, more)?;
        check.require(
            shares >= 2,
            "cpu_shares",
            &text,
            "is less than the kernel's least, 2",
        )?;
        host.cpu_shares = Some(shares.into());
    }
    if let Some(weight) = options.io_weight {
        let text = weight.to_string();
        check.require(weight <= DEFAULT_IO_WEIGHT, "io_weight", &text, more)?;
        check.require(
            weight >= 10,
            "io_weight",
            &text,
            "is less than the kernel's least, 10",
        )?;
        host.blkio_weight = Some(weight);
    }
    if let Some(adjustment) = options.oom_score_adj {
        let text = adjustment.to_string();
        check.require(
            adjustment <= 1000,
            "oom_score_adj",
            &text,
            "is more than the kernel's most, 1000",
        )?;
        host.oom_score_adj = Some(adjustment.into());
    }
    Ok(())
}

fn users(
    check: OptionCheck,
    plan: &Plan,
    facts: &EngineFacts,
    host: &mut HostConfig,
) -> Result<()> {
    if !check.tier.family.private_users {
        let engine = check.tier.family.engine;
        let why = format!(
            "{engine} gives users of their own to all containers or to none (userns-remap)"
        );
        return Err(check.unsupported("private_users", &why));
    }
    let writable = plan
        .workspace
        .as_ref()
        .is_some_and(|folder| !folder.read_only);
    if writable || !plan.write_roots.is_empty() {
        return Err(check.unsupported(
            "private_users",
            "such users could not write to folders of the host",
        ));
    }
    if facts.rootless {
        return Err(check.unsupported(
            "private_users",
            "an engine without root has no users to give away",
        ));
    }
    host.userns_mode = Some("auto".into());
    Ok(())
}

fn is_word(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"._-/".contains(&c);
    !text.is_empty() && text.len() <= 255 && text.bytes().all(plain)
}

fn is_host_name(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'.';
    let ends = !text.starts_with(['-', '.']) && !text.ends_with(['-', '.']);
    !text.is_empty() && text.len() <= 63 && ends && text.bytes().all(plain)
}

/// One sensitivity and one or two single categories. A range would include other containers'
/// categories.
fn is_selinux_level(text: &str) -> bool {
    let number = |part: &str, letter: char| {
        let digits = part.strip_prefix(letter).unwrap_or_default();
        (1..=4).contains(&digits.len()) && digits.bytes().all(|c| c.is_ascii_digit())
    };
    let Some((sensitivity, categories)) = text.split_once(':') else {
        return false;
    };
    let categories = categories.split(',').collect::<Vec<_>>();
    number(sensitivity, 's') && categories.len() <= 2 && categories.iter().all(|c| number(c, 'c'))
}

/// Numbers and ranges, in the kernel's list format.
fn is_list(text: &str) -> bool {
    let number = |part: &str| part.len() <= 5 && part.parse::<u32>().is_ok();
    let piece = |piece: &str| match piece.split_once('-') {
        Some((first, last)) => number(first) && number(last),
        None => number(piece),
    };
    text.len() <= 256 && text.split(',').all(piece)
}
