//! Ending what the node's runtime still holds when nobody starts containers any more.

use std::process::Command;

use super::layout::Layout;
use super::output;

/// The runtime's namespace in which the kubelet's containers are.
pub const NAMESPACE: &str = "k8s.io";

/// The runtime's own command.
pub fn ctr(layout: &Layout) -> Command {
    let mut command = Command::new("ctr");
    command.arg("-a").arg(layout.containerd());
    command.args(["-n", NAMESPACE]);
    command
}

/// Ends and removes every container of the runtime, as far as that goes: what is left is removed with the runtime's folders.
pub fn remove_all(layout: &Layout) {
    if !layout.containerd().exists() {
        return;
    }
    let list = |of: &str| output(ctr(layout).args([of, "ls", "-q"])).unwrap_or_default();
    for task in list("tasks").lines() {
        say(output(ctr(layout).args(["tasks", "rm", "-f", task])), task);
    }
    for container in list("containers").lines() {
        say(
            output(ctr(layout).args(["containers", "rm", container])),
            container,
        );
    }
}

fn say(removed: crate::failure::Result<String>, what: &str) {
    if let Err(failure) = removed {
        eprintln!("k8s: container {what} is left to the runtime's end: {failure}");
    }
}
