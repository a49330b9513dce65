//! Variables, descriptors, and the folder to start in.

use crate::grounds::SECRET_VARIABLE;
use crate::probes::prelude::*;

mod descriptors;
mod exact_set;
mod host_variable;
mod others_variables;
mod working_folder;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    descriptors::PROBE,
    exact_set::PROBE,
    host_variable::PROBE,
    others_variables::PROBE,
    working_folder::PROBE,
];

/// A sandbox with one variable of its own.
fn named(_: &Grounds) -> Setting {
    let mut setting = Setting::default();
    setting.env.insert("PROBE_VISIBLE".into(), "yes".into());
    setting
}

/// The host's secret, which the suite's own environment holds.
fn secret(stage: &Stage) -> Result<String, Trouble> {
    let secret = stage.grounds().secret();
    if secret.is_empty() {
        return Err(Trouble::new(format!(
            "{SECRET_VARIABLE} is not set in the suite's own environment"
        )));
    }
    Ok(secret.to_owned())
}
