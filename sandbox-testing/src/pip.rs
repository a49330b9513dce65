//! Whether this host's Python can install packages.

use std::process::Command;

use crate::requirements::is_required;

/// Whether `/usr/bin/python3` has pip. If not, prints that the caller's tests did not run, and why.
///
/// # Panics
///
/// If there is no pip and `SANDBOX_REQUIRE` names `local`.
pub fn has_pip() -> bool {
    let output = Command::new("/usr/bin/python3")
        .args(["-m", "pip", "--version"])
        .output();
    if output.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let reason = "/usr/bin/python3 has no pip (Debian: apt-get install python3-pip)";
    assert!(
        !is_required("local"),
        "the local tier is required, and {reason}"
    );
    println!("NOT RUN: packages: {reason}");
    false
}
