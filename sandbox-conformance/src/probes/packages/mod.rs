//! Packages that a policy names.

use crate::probe::{Probe, Setting};
use crate::stage::Stage;
use crate::{evidence::Step, grounds::Grounds, wheel};

mod forged;
mod forged_before;
mod installed;
mod missing;
mod no_registry;
mod poison;
mod read_only;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    forged::PROBE,
    forged_before::PROBE,
    installed::PROBE,
    missing::PROBE,
    no_registry::PROBE,
    read_only::PROBE,
];

/// A sandbox with the suite's own package.
fn with_package(_: &Grounds) -> Setting {
    Setting::with(|policy| policy.packages = vec![wheel::NAME.replace('_', "-")])
}

/// The host's own pip finds the package, so that a sandbox that does not has no excuse.
async fn pip_finds_it(stage: &mut Stage) {
    let found = tokio::process::Command::new("/usr/bin/python3")
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            "/dev/null",
            wheel::NAME,
        ])
        .args(["--disable-pip-version-check", "--no-cache-dir"])
        .output()
        .await;
    let failure = match found {
        // It is found, and cannot be kept there.
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("No matching") => {
            Some(String::from_utf8_lossy(&output.stderr).into_owned())
        }
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("No module named pip") => {
            Some("the host's Python has no pip".to_owned())
        }
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    let step: Step = super::shapes::control("the host's pip looks for the package", failure);
    stage.host_control_was(step);
}
