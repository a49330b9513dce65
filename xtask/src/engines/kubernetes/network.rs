//! The node's network: a bridge that carries the node's address, from which nothing leads further.

use std::fs;
use std::process::Command;

use super::layout::{BRIDGE, NODE_ADDRESS, NODE_HARDWARE_ADDRESS, SERVICE_RANGE, SERVICES};
use super::output;
use crate::failure::{Context, Result};
use crate::programs;

const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// The rules, as iptables takes them behind what it is to do. Other engines set the default for what is forwarded to dropping,
/// and bridged traffic passes these rules where the kernel is told so.
const RULES: [&[&str]; 2] = [
    &["FORWARD", "!", "-o", BRIDGE, "-i", BRIDGE, "-j", "REJECT"],
    &["FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT"],
];

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let path = programs::find(program).unwrap_or_else(|| program.into());
    output(Command::new(path).args(arguments)).map(drop)
}

fn ip(arguments: &[&str]) -> Result<()> {
    run("ip", arguments)
}

fn bridge(name: &str) -> Result<()> {
    if ip(&["link", "show", name]).is_err() {
        ip(&["link", "add", name, "type", "bridge"])?;
    }
    ip(&["link", "set", name, "up"])
}

/// Makes the interfaces, routes and rules that are missing.
///
/// # Errors
/// When the kernel refuses one.
pub fn up() -> Result<()> {
    bridge(BRIDGE)?;
    // Else it takes the lowest address of its ports, another one with each pod that comes or goes, and every pod that remembers
    // the one before reaches nobody for up to a minute.
    ip(&["link", "set", BRIDGE, "address", NODE_HARDWARE_ADDRESS])?;
    ip(&[
        "addr",
        "replace",
        &format!("{NODE_ADDRESS}/24"),
        "dev",
        BRIDGE,
    ])?;
    bridge(SERVICES)?;
    ip(&["route", "replace", SERVICE_RANGE, "dev", SERVICES])?;
    fs::write(FORWARDING, "1").context(|| format!("cannot write {FORWARDING}"))?;
    for rule in RULES {
        let with = |action| [&["-w", action], rule].concat();
        if run("iptables", &with("-C")).is_err() {
            run("iptables", &with("-I"))?;
        }
    }
    Ok(())
}

/// Removes all of it, and says whether there was anything. Forwarding stays: others may use it.
///
/// # Errors
/// When something is there and cannot be removed.
pub fn down() -> Result<bool> {
    let mut found = false;
    for rule in RULES {
        let with = |action| [&["-w", action], rule].concat();
        if run("iptables", &with("-C")).is_ok() {
            run("iptables", &with("-D"))?;
            found = true;
        }
    }
    for name in [SERVICES, BRIDGE] {
        if ip(&["link", "show", name]).is_ok() {
            ip(&["link", "del", name])?;
            found = true;
        }
    }
    Ok(found)
}
