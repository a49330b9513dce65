//! Whether this host's Python can install packages.

use std::process::Command;

use crate::requirements::is_required;

/// Why `/usr/bin/python3` cannot install packages; `None` if it can.
///
/// # Panics
///
/// If there is no pip and `SANDBOX_REQUIRE` names `local`.
pub fn missing() -> Option<&'static str> {
    let output = Command::new("/usr/bin/python3")
        .args(["-m", "pip", "--version"])
        .output();
    if output.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let reason = "/usr/bin/python3 has no pip (Debian: apt-get install python3-pip)";
    assert!(
        !is_required("local"),
        "SANDBOX_REQUIRE names local, but {reason}"
    );
    Some(reason)
}
