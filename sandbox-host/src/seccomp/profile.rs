//! Converts a filter to an OCI seccomp profile, the format of Docker and Podman.
//!
//! A [`Filter`] refuses what its rules name. A profile lists by name what is allowed, so unknown
//! calls are refused. Both use the same rules and tables.

use std::collections::BTreeMap;

use sandbox_agent::syscall_numbers::{AARCH64, X86_64};
use serde::Serialize;

use super::region::{Product, Region};
use super::{Action, Arch, Errno, Filter, Rule};

/// A filter in the OCI format.
///
/// It decides like [`Filter::decide`], with one exception. If only some arguments of a call are
/// refused, the error is always `ENOSYS`, since a profile has a single default error. Engines that
/// do not support a default error (Docker before 23.0) return `EPERM`. A filter that a program
/// installs for itself runs first, and its error wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineProfile {
    default_action: &'static str,
    default_errno_ret: u16,
    architectures: Vec<&'static str>,
    syscalls: Vec<Group>,
}

/// System calls with the same action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    names: Vec<&'static str>,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno_ret: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<Comparison>,
}

/// A masked comparison of one argument: `value` is the mask, `value_two` the expected bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    index: usize,
    value: u64,
    value_two: u64,
    op: &'static str,
}

const ALLOW: &str = "SCMP_ACT_ALLOW";
const REFUSE: &str = "SCMP_ACT_ERRNO";
const MASKED: &str = "SCMP_CMP_MASKED_EQ";

impl EngineProfile {
    /// Converts a filter.
    #[must_use]
    pub fn new(filter: &Filter) -> Self {
        let (table, architectures) = match filter.arch() {
            // The same calls under other numbers. A filter returns `ENOSYS` for them, as a kernel
            // without x32 does; without this entry engines kill the process.
            Arch::X86_64 => (X86_64, vec!["SCMP_ARCH_X86_64", "SCMP_ARCH_X32"]),
            Arch::Aarch64 => (AARCH64, vec!["SCMP_ARCH_AARCH64"]),
        };
        let mut allowed = Vec::new();
        let mut refused = BTreeMap::<u16, Vec<&'static str>>::new();
        let mut partly = Vec::new();
        for (name, number) in table {
            let rules = filter.rules().iter();
            let rules = rules
                .filter(|rule| rule.syscall().number(filter.arch()) == Some(*number))
                .collect::<Vec<_>>();
            let region = match filter.beyond(*number) {
                Some(_) => continue,
                None => Region::allowed(&rules),
            };
            if region.is_everything() {
                allowed.push(*name);
            } else if region.products().is_empty() {
                refused.entry(error(&rules)).or_default().push(*name);
            } else {
                partly.extend(
                    region
                        .products()
                        .iter()
                        .map(|product| allow_some(name, product)),
                );
            }
        }
        let mut syscalls = vec![Group {
            names: allowed,
            action: ALLOW,
            errno_ret: None,
            args: Vec::new(),
        }];
        syscalls.extend(partly);
        // Listed explicitly although it is the default: some engines do not support a default
        // error.
        syscalls.extend(refused.into_iter().map(|(errno, names)| Group {
            names,
            action: REFUSE,
            errno_ret: Some(errno),
            args: Vec::new(),
        }));
        Self {
            default_action: REFUSE,
            default_errno_ret: Errno::ENOSYS.0,
            architectures,
            syscalls,
        }
    }

    /// The profile as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data without maps")
    }
}

/// The error of a call that is refused with any arguments.
fn error(rules: &[&Rule]) -> u16 {
    let last = rules.iter().find(|rule| rule.conditions().is_empty());
    match last.map(|rule| rule.action()) {
        Some(Action::Errno(Errno(number))) => number,
        // Several rules that together refuse everything, or a kill, which must not end the agent.
        _ => Errno::EPERM.0,
    }
}

fn allow_some(name: &'static str, Product(arguments): &Product) -> Group {
    let comparisons = arguments
        .iter()
        .enumerate()
        .filter(|(_, bits)| bits.mask != 0);
    Group {
        names: vec![name],
        action: ALLOW,
        errno_ret: None,
        args: comparisons
            .map(|(index, bits)| Comparison {
                index,
                value: bits.mask,
                value_two: bits.value,
                op: MASKED,
            })
            .collect(),
    }
}

#[cfg(test)]
impl EngineProfile {
    /// Whether an engine with this profile allows the call.
    pub(super) fn allows(&self, name: &str, arguments: &[u64; 6]) -> bool {
        self.syscalls.iter().any(|group| {
            group.action == ALLOW
                && group.names.contains(&name)
                && group.args.iter().all(|comparison| {
                    arguments[comparison.index] & comparison.value == comparison.value_two
                })
        })
    }

    /// Whether no rule names an argument twice, which some engines treat as alternatives.
    pub(super) fn names_arguments_once(&self) -> bool {
        self.syscalls.iter().all(|group| {
            let mut places = group
                .args
                .iter()
                .map(|comparison| comparison.index)
                .collect::<Vec<_>>();
            places.dedup();
            places.len() == group.args.len()
        })
    }
}
