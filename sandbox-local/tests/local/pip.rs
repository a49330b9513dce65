//! Whether packages can be installed on this machine. The command's tests ask as well.

use std::process::Command;

/// Whether sandboxes here have a Python with pip. A test that cannot run says so, and fails where the local tier is required.
pub fn pip() -> bool {
    let output = Command::new("/usr/bin/python3")
        .args(["-m", "pip", "--version"])
        .output();
    if output.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let reason = "/usr/bin/python3 has no pip (Debian: apt-get install python3-pip)";
    let required = std::env::var("SANDBOX_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|name| name.trim() == "local"));
    assert!(!required, "the local tier is required, and {reason}");
    println!("NOT RUN: packages: {reason}");
    false
}
