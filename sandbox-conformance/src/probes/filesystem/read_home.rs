//! The home of the user who runs the sandbox.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::read_home",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file in the user's home",
    setting: plain,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let home = std::env::var_os("HOME").ok_or_else(|| Trouble::new("HOME is not set"))?;
    let folder = Temporary(std::path::Path::new(&home).join(format!(".{}", stage.token())));
    std::fs::create_dir(&folder.0)?;
    let canary = Canary::plant(&folder.0.join("canary"), 0o644)?;
    super::read(stage, &canary).await
}

/// A folder in somebody's home, which does not stay there.
struct Temporary(std::path::PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}
