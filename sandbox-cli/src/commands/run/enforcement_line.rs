//! What was enforced, in one line.

use sandbox::policy::NetworkPolicy;
use sandbox::{Enforcement, EnforcementReport};

use sandbox::spi::escape;

/// Capabilities that share one name in the line if all of them are enforced.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "filesystem",
        &["filesystem_read_roots", "filesystem_write_roots"],
    ),
    ("network", &["network_access"]),
    ("environment", &["env_var_access"]),
    ("output", &["stdout_max_bytes", "stderr_max_bytes"]),
    ("artifacts", &["artifact_export_paths"]),
];

/// `local: enforced filesystem, network; partial: memory (sampled); not enforced: cpus (no cgroup
/// rights); network open`.
pub fn enforcement_line(tier: &str, report: &EnforcementReport, network: &NetworkPolicy) -> String {
    let parts = match common_reason(report) {
        Some(reason) => vec![format!("nothing is enforced ({reason})")],
        None => {
            let mut parts = parts(report);
            parts.extend(opening(network));
            parts
        }
    };
    escape(&format!("{tier}: {}", parts.join("; ")))
}

/// What of the network is open.
fn opening(network: &NetworkPolicy) -> Option<String> {
    const MAX_NAMED: usize = 8;
    match network {
        NetworkPolicy::Full => Some("network open".to_owned()),
        NetworkPolicy::Allow(rules) => {
            let names = rules.iter().take(MAX_NAMED).map(ToString::to_string);
            let mut text = format!("network only {}", names.collect::<Vec<_>>().join(", "));
            if rules.len() > MAX_NAMED {
                text += &format!(" and {} more rules", rules.len() - MAX_NAMED);
            }
            Some(text)
        }
        _ => None,
    }
}

/// The reason why nothing is enforced, if all capabilities have the same.
fn common_reason(report: &EnforcementReport) -> Option<&str> {
    let mut reasons = report.iter().map(|(_, enforcement)| match enforcement {
        Enforcement::Unenforced { reason } => Some(reason.as_str()),
        _ => None,
    });
    let first = reasons.next().flatten()?;
    reasons.all(|reason| reason == Some(first)).then_some(first)
}

fn parts(report: &EnforcementReport) -> Vec<String> {
    let mut partial = Vec::new();
    let mut unenforced = Vec::new();
    for (capability, enforcement) in report.iter() {
        match enforcement {
            Enforcement::Enforced { .. } => {}
            Enforcement::Partial { gap, .. } => {
                partial.push(format!("{capability} ({})", brief(gap)))
            }
            Enforcement::Unenforced { reason } => {
                unenforced.push(format!("{capability} ({})", brief(reason)))
            }
        }
    }
    let parts = [
        ("enforced", enforced(report)),
        ("partial:", partial),
        ("not enforced:", unenforced),
    ];
    let sections = parts.into_iter().filter(|(_, names)| !names.is_empty());
    sections
        .map(|(label, names)| format!("{label} {}", names.join(", ")))
        .collect()
}

fn enforced(report: &EnforcementReport) -> Vec<String> {
    let mut names = report
        .enforced_capabilities()
        .iter()
        .map(|c| c.as_str())
        .collect::<Vec<_>>();
    for (group, members) in GROUPS {
        if members.iter().all(|member| names.contains(member)) {
            let position = names.iter().position(|name| members.contains(name));
            names.retain(|name| !members.contains(name));
            names.insert(position.unwrap_or(names.len()), group);
        }
    }
    names.into_iter().map(str::to_owned).collect()
}

/// The first clause; `sandbox check` and JSON output contain the rest.
fn brief(reason: &str) -> &str {
    let end = [reason.find("; "), reason.find(" (")]
        .into_iter()
        .flatten()
        .min();
    &reason[..end.unwrap_or(reason.len())]
}

#[cfg(test)]
mod tests {
    use sandbox::Capability;

    use super::*;

    #[test]
    fn fully_enforced_groups_are_abbreviated() {
        let mut report = EnforcementReport::new();
        for capability in [
            Capability::FilesystemReadRoots,
            Capability::FilesystemWriteRoots,
            Capability::NetworkAccess,
            Capability::StdoutMaxBytes,
            Capability::Pids,
        ] {
            report.set(capability, Enforcement::enforced("x"));
        }
        report.set(
            Capability::Memory,
            Enforcement::partial("sampler", "sampled (every 100 ms)"),
        );
        report.set(
            Capability::Cpus,
            Enforcement::unenforced("no cgroup rights; fix: delegate one"),
        );
        assert_eq!(
            enforcement_line("local", &report, &NetworkPolicy::None),
            "local: enforced filesystem, network, stdout_max_bytes, pids; partial: memory (sampled); \
             not enforced: cpus (no cgroup rights)"
        );
    }

    #[test]
    fn unenforced_report_prints_common_reason_once() {
        let report = EnforcementReport::nothing("this tier applies no policy");
        let line = enforcement_line("x_unsafe", &report, &NetworkPolicy::Full);
        assert_eq!(
            line,
            "x_unsafe: nothing is enforced (this tier applies no policy)"
        );
    }

    #[test]
    fn open_network_is_named() {
        let mut report = EnforcementReport::new();
        report.set(Capability::Pids, Enforcement::enforced("x"));
        let line = |network: &NetworkPolicy| enforcement_line("local", &report, network);
        assert_eq!(
            line(&NetworkPolicy::Full),
            "local: enforced pids; network open"
        );
        let rules = |number: usize| {
            let rules = (0..number).map(|number| format!("h{number}.org").parse().unwrap());
            NetworkPolicy::Allow(rules.collect())
        };
        assert_eq!(
            line(&rules(2)),
            "local: enforced pids; network only h0.org, h1.org"
        );
        let many = line(&rules(10));
        assert!(many.ends_with("h6.org, h7.org and 2 more rules"), "{many}");
        assert_eq!(line(&NetworkPolicy::None), "local: enforced pids");
    }
}
