//! A filter as container engines take it: the `linux.seccomp` of an OCI runtime, which Docker's and Podman's profiles are.
//!
//! A [`Filter`] refuses what its rules name; a profile says what is allowed, by name, so that what neither knows is refused. Both
//! come from the same rules and the same table.

use std::collections::BTreeMap;

use sandbox_freestanding::numbers::{AARCH64, X86_64};
use serde::Serialize;

use super::region::{Product, Region};
use super::{Action, Arch, Errno, Filter, Rule};

/// A filter as container engines take it.
///
/// It decides as [`Filter::decide`] does, but for this: where only some arguments of a call are refused, the error is `ENOSYS`
/// whatever the rule says, since a profile has one error for all that it does not name. An engine that knows no such default
/// (Docker before 23.0) gives `EPERM`. A filter that a program installs for itself is asked first, and of two errors its counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineProfile {
    default_action: &'static str,
    default_errno_ret: u16,
    architectures: Vec<&'static str>,
    syscalls: Vec<Group>,
}

/// System calls of one fate.
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

/// One argument under a mask. (`value` is the mask, `value_two` what the bits are.)
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
    /// The profile of a filter.
    #[must_use]
    pub fn new(filter: &Filter) -> Self {
        let (table, architectures) = match filter.arch() {
            // The same calls under other numbers: a filter answers them as a kernel without them does, an engine that is not
            // told of them kills.
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
        // `ENOSYS` too is said although it is the default: not every engine knows the default.
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

    /// The profile as its file would hold it.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data without maps")
    }
}

/// The error of a call that is refused whatever its arguments are.
fn error(rules: &[&Rule]) -> u16 {
    let last = rules.iter().find(|rule| rule.conditions().is_empty());
    match last.map(|rule| rule.action()) {
        Some(Action::Errno(Errno(number))) => number,
        // Several rules that leave nothing, or one that kills, which an agent should not die of.
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
    /// Whether an engine with this profile carries the call out.
    pub(super) fn allows(&self, name: &str, arguments: &[u64; 6]) -> bool {
        self.syscalls.iter().any(|group| {
            group.action == ALLOW
                && group.names.contains(&name)
                && group.args.iter().all(|comparison| {
                    arguments[comparison.index] & comparison.value == comparison.value_two
                })
        })
    }

    /// No rule of an engine names an argument twice: some take that for an alternative.
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
