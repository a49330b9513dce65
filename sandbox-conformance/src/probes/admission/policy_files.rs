//! Policy files, and the policies that they stand for.

use std::time::Duration;

use sandbox_core::policy::{NetworkPolicy, PolicyFile};
use sandbox_core::{Capability, CapabilityPolicy, ErrorKind};

use crate::probes::prelude::*;

/// The text of a file behind its version, and whether the policy is right.
type ValidFile = (&'static str, fn(&CapabilityPolicy) -> bool);

const VALID: &[ValidFile] = &[
    ("", |policy| *policy == CapabilityPolicy::new()),
    ("memory = \"512m\"", |policy| is_half_gibibyte(policy)),
    ("memory = \"512MB\"", |policy| is_half_gibibyte(policy)),
    ("memory = \"512MiB\"", |policy| is_half_gibibyte(policy)),
    ("memory = 536870912", |policy| is_half_gibibyte(policy)),
    ("timeout = \"1m 30s\"", |policy| {
        policy.timeout == Some(Duration::from_secs(90))
    }),
    (
        "timeout = 2\nlifetime = \"8h\"\nfile_timeout = \"20m\"",
        |policy| {
            let seconds = [policy.timeout, policy.lifetime, policy.file_timeout];
            seconds == [2, 8 * 3600, 1200].map(|count| Some(Duration::from_secs(count)))
        },
    ),
    ("cpus = 0.01", |policy| policy.cpus == Some(Cpus::milli(10))),
    ("network = \"none\"", |policy| {
        policy.network == Some(NetworkPolicy::None)
    }),
    ("network_access = false", |policy| {
        policy.network == Some(NetworkPolicy::None)
    }),
    ("egress = []", |policy| {
        policy.network == Some(NetworkPolicy::None)
    }),
    ("network = \"full\"", |policy| {
        policy.network == Some(NetworkPolicy::Full)
    }),
    ("network_access = true", |policy| {
        policy.network == Some(NetworkPolicy::Full)
    }),
    ("network = { allow = [\"example.org:22\"] }", allows_one),
    ("egress = [\"Example.ORG.:22 tcp\"]", allows_one),
    ("extends = \"strict\"", |policy| {
        policy.require_all
            && policy.network == Some(NetworkPolicy::None)
            && policy.package_installation == Some(false)
            && policy.timeout == Some(Duration::from_secs(30))
            && policy.memory == Some(ByteSize::mib(512))
    }),
    (
        "extends = \"strict\"\ntimeout = \"5s\"\nmemory = \"64MiB\"",
        |policy| {
            policy.require_all
                && policy.timeout == Some(Duration::from_secs(5))
                && policy.memory == Some(ByteSize::mib(64))
                && policy.pids == Some(256)
        },
    ),
    ("extends = \"workspace\"", |policy| {
        policy.network == Some(NetworkPolicy::None)
            && policy.timeout == Some(Duration::from_secs(600))
            && policy.allow_partial == [Capability::Disk]
            && policy.memory.is_none()
            && !policy.require_all
    }),
    ("extends = \"coding\"", |policy| {
        policy.network == Some(NetworkPolicy::None)
            && policy.timeout == Some(Duration::from_secs(1800))
            && (policy.memory, policy.disk)
                == (Some(ByteSize::mib(4096)), Some(ByteSize::mib(1024)))
            && (policy.pids, policy.open_files) == (Some(1024), Some(16_384))
    }),
    // Lists are replaced as a whole.
    (
        "extends = \"coding\"\nallow_partial = [\"pids\"]",
        |policy| policy.allow_partial == [Capability::Pids],
    ),
];

fn is_half_gibibyte(policy: &CapabilityPolicy) -> bool {
    policy.memory == Some(ByteSize::mib(512))
}

fn allows_one(policy: &CapabilityPolicy) -> bool {
    let rule = "example.org:22".parse();
    rule.is_ok_and(|rule| policy.network == Some(NetworkPolicy::Allow(vec![rule])))
}

/// The text of a file behind its version, and words of the error.
const INVALID: &[(&str, &[&str])] = &[
    ("memry = \"1MiB\"", &["line 2", "memry", "memory"]),
    ("memory = \"lots\"", &["line 2", "memory"]),
    ("memory = -1", &["line 2", "memory"]),
    ("memory = 1.5", &["line 2", "memory"]),
    ("pids = \"many\"", &["line 2", "pids"]),
    ("timeout = \"soon\"", &["timeout"]),
    ("timeout = -1", &["timeout"]),
    ("egress = [\"a b c\"]", &["line 2"]),
    ("network = \"some\"", &["network"]),
    ("network = \"none\"\negress = []", &["network", "egress"]),
    (
        "network_access = true\negress = []",
        &["network_access", "egress"],
    ),
    (
        "network = \"full\"\nnetwork_access = true",
        &["network", "network_access"],
    ),
    ("extends = \"lax\"", &["lax"]),
    ("extends = \"strict\"\npackages = [\"numpy\"]", &["package"]),
    ("images = [\"python:[3\"]", &["python:[3"]),
    (
        "packages = [\"git+https://example.org/package\"]",
        &["package"],
    ),
    ("allow_partial = [\"magic\"]", &["magic"]),
    (
        "allow_unenforced = [\"stdout_max_bytes\"]",
        &["stdout_max_bytes"],
    ),
    ("filesystem_read_roots = [\"data\"]", &["data"]),
    ("memory = 1\nmemory = 2", &["memory"]),
    ("memory = \"1023KiB\"", &["memory"]),
    ("cpus = 0.009", &["cpus"]),
    ("pids = 4294967296", &["pids"]),
    ("open_files = 7", &["open_files"]),
    ("disk = 4095", &["disk"]),
    ("secrets = [\"a/b\"]", &["a/b"]),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::compare(context, "read each", async |_| Ok(deviation())).await
}

fn deviation() -> Option<String> {
    let read = |text: &str| PolicyFile::from_toml(&format!("version = 1\n{text}\n"))?.resolve();
    for (text, is_right) in VALID {
        let wrong = match read(text) {
            Ok(policy) if is_right(&policy) => again(&policy),
            Ok(policy) => Some(format!("{policy:?}")),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            return Some(format!("{text:?}: {wrong}"));
        }
    }
    for (text, words) in INVALID {
        let told = match read(text) {
            Err(error) if error.kind() == ErrorKind::InvalidPolicy => error.to_string(),
            other => return Some(format!("{text:?}: {other:?}")),
        };
        if !words.iter().all(|word| told.contains(word)) {
            return Some(format!("{text:?}: {told}"));
        }
    }
    let versions = ["", "version = 2\n", "version = \"1\"\n"];
    let accepted = versions
        .iter()
        .find(|text| PolicyFile::from_toml(text).is_ok());
    accepted.map(|text| format!("{text:?} is accepted"))
}

/// What is wrong with the file of a policy, in the other format.
fn again(policy: &CapabilityPolicy) -> Option<String> {
    let text = serde_json::to_string(&PolicyFile::from(policy)).unwrap_or_default();
    match PolicyFile::from_json(&text).and_then(|file| file.resolve()) {
        Ok(same) if same == *policy => None,
        other => Some(format!("as JSON: {text}: {other:?}")),
    }
}
