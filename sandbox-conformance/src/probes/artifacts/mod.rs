//! What comes out of a sandbox as artifacts.

use crate::probes::prelude::*;

mod exported_again;
mod fifo;
mod file;
mod link;
mod output_link;
mod unlisted;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    exported_again::PROBE,
    fifo::PROBE,
    file::PROBE,
    link::PROBE,
    output_link::PROBE,
    unlisted::PROBE,
];

/// A sandbox of which text files in one folder may be exported.
fn exporting(grounds: &Grounds) -> Setting {
    let path = format!("{}/*.txt", grounds.export_folder());
    Setting::with(|policy| policy.artifact_export_paths = vec![path])
}

/// Both controls of what is made to be exported: the same outside, and at `path` inside. `what` is its kind and its length, as
/// the probe program takes them.
async fn make(stage: &mut Stage, path: &str, what: &[&str]) -> Result<(), Trouble> {
    let make = |path: &std::path::Path| {
        let call = Call::new(["make"]).and(path);
        what.iter().fold(call, |call, word| call.and(word))
    };
    let own = stage.outside()?.join("own");
    stage.host_control(&make(&own)).await?;
    stage.allow_control(&make(path.as_ref())).await;
    Ok(())
}
