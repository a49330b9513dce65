//! Memory of the processes that one sandbox needs.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// One process of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Its name in the kernel.
    pub name: String,
    /// It is process 1 of a namespace of its own: the agent.
    pub first: bool,
    /// Resident memory in bytes, shared pages included.
    pub resident: u64,
    /// Resident memory in bytes, each shared page divided by those who share it; `None` where the
    /// kernel does not tell it to us.
    pub proportional: Option<u64>,
}

/// Every process below `ancestor`, by process number.
pub fn below(ancestor: u32) -> BTreeMap<u32, Footprint> {
    let mut parents = BTreeMap::new();
    let mut found = BTreeMap::new();
    for pid in pids() {
        if let Some((parent, footprint)) = footprint(pid) {
            parents.insert(pid, parent);
            found.insert(pid, footprint);
        }
    }
    found.retain(|pid, _| descends(*pid, ancestor, &parents));
    found
}

fn descends(pid: u32, ancestor: u32, parents: &BTreeMap<u32, u32>) -> bool {
    let mut next = pid;
    // Bounded, because the numbers were not read at one instant.
    for _ in 0..parents.len() {
        match parents.get(&next) {
            Some(parent) if *parent == ancestor => return true,
            Some(parent) => next = *parent,
            None => return false,
        }
    }
    false
}

fn pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The parent and the rest; `None` for a process that is gone or has no memory of its own.
fn footprint(pid: u32) -> Option<(u32, Footprint)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |text: &str, key: &str| -> Option<String> {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(|rest| rest.trim().to_owned())
    };
    let bytes = |text: String| {
        text.trim_end_matches(" kB")
            .parse()
            .ok()
            .map(|kib: u64| kib << 10)
    };
    let numbers = field(&status, "NSpid:")?;
    let proportional = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .ok()
        .and_then(|text| field(&text, "Pss:"))
        .and_then(bytes);
    let footprint = Footprint {
        name: field(&status, "Name:")?,
        first: numbers.split_whitespace().count() > 1 && numbers.ends_with("\t1"),
        resident: field(&status, "VmRSS:").and_then(bytes)?,
        proportional,
    };
    Some((field(&status, "PPid:")?.parse().ok()?, footprint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_child_is_found_with_its_memory() {
        let mut child = Command::new("sleep").arg("30").spawn().expect("sleep");
        let found = below(std::process::id());
        child.kill().expect("kill");
        child.wait().expect("wait");
        let footprint = found.get(&child.id()).expect("the child");
        assert!(footprint.resident > 0 && !footprint.first, "{footprint:?}");
    }
}
