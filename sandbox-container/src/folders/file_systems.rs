//! Refuses host folders with other file systems mounted below them.
//!
//! Engines disagree: some show these file systems, some leave an empty folder, and some leave them
//! writable below a read-only mount. So containers get none of them, unless it is named by itself.

use std::path::Path;

use sandbox_core::{Error, ErrorKind, Plan, Result};

use super::{HostFolders, host_mounts};
use crate::Tier;
use crate::verify::mounts::{escaped, parse_mounts};

impl HostFolders {
    /// Refuses folders of the plan with a file system of this host below them.
    ///
    /// # Errors
    ///
    /// `Unsupported` with the folder and the file system.
    pub(crate) fn check_file_systems(&self, tier: Tier, plan: &Plan) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let table = std::fs::read_to_string("/proc/self/mountinfo").map_err(|cause| {
            let context = format!("/proc/self/mountinfo: {cause}");
            Error::new(ErrorKind::Io, "create sandbox", context).on(tier)
        })?;
        let shown = host_mounts(plan).map(|(path, target)| (self.source(path), target));
        match find_below(&shown.collect::<Vec<_>>(), &table) {
            None => Ok(()),
            Some((folder, mount)) => {
                let context = format!(
                    "{} contains another file system, at {mount}: a container does not get it",
                    folder.display()
                );
                let fix = "name folders without other file systems; a root may be named together with that folder";
                Err(
                    Error::new(ErrorKind::Unsupported, "create sandbox", context)
                        .on(tier)
                        .with_fix(fix),
                )
            }
        }
    }
}

/// The first folder with a mount below it that is not also shown at its place, and that mount.
/// `shown` has the path on the host and in the sandbox.
fn find_below<'a>(shown: &[(&'a Path, &Path)], table: &str) -> Option<(&'a Path, String)> {
    let mounts = parse_mounts(table);
    let text = |path: &Path| escaped(&path.to_string_lossy());
    let named: Vec<_> = shown
        .iter()
        .map(|(path, target)| (text(path), text(target)))
        .collect();
    shown
        .iter()
        .zip(&named)
        .find_map(|((folder, _), (path, target))| {
            let is_lost = |mount: &&str| {
                let below = mount.strip_prefix(path.as_str());
                let below = below.filter(|below| below.starts_with('/'));
                below.is_some_and(|below| {
                    let place = format!("{target}{below}");
                    !named
                        .iter()
                        .any(|(path, target)| path == *mount && *target == place)
                })
            };
            let mut targets = mounts.iter().map(|mount| mount.target.as_str());
            let lost = targets.find(is_lost)?;
            Some((*folder, lost.to_owned()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
20 1 254:1 / / rw - ext4 /dev/vda rw
21 20 0:20 / /data/my\\040disk rw - tmpfs none rw
22 20 0:21 / /data2 rw - tmpfs none rw
";

    fn below(shown: &[(&'static str, &'static str)]) -> Option<String> {
        let paths =
            |(path, target): &(&'static str, &'static str)| (Path::new(*path), Path::new(*target));
        find_below(&shown.iter().map(paths).collect::<Vec<_>>(), TABLE).map(|(_, mount)| mount)
    }

    #[test]
    fn file_system_below_a_folder_is_found_unless_it_is_shown_at_its_place() {
        let disk = ("/data/my disk", "/workspace/my disk");
        let lost = Some("/data/my\\040disk".to_owned());
        assert_eq!(below(&[("/data", "/workspace")]), lost);
        assert_eq!(below(&[("/data", "/workspace"), disk]), None);
        assert_eq!(
            below(&[("/data", "/data"), disk]),
            lost,
            "it is shown elsewhere"
        );
        assert_eq!(below(&[disk]), None, "it is a file system of its own");
        assert_eq!(below(&[("/data/other", "/workspace")]), None);
    }
}
