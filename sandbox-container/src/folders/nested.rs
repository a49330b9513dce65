//! Refuses mount points nested in a writable folder.
//!
//! A mount point itself cannot be renamed, but its parent folders can, with the mount in them. The
//! host and the next sandbox would mistake a replacement for the mounted folder.

use std::path::{Path, PathBuf};

use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::WORK_FOLDER;

use crate::Tier;

/// A mounted or hidden path in the sandbox.
#[derive(Debug)]
struct CoveredPath<'a> {
    what: &'a str,
    target: &'a Path,
    fix: &'a str,
}

/// Refuses read roots and `hidden` paths that are nested more than one level deep in a writable
/// folder.
///
/// # Errors
///
/// `Unsupported` with both paths.
pub(crate) fn check(tier: Tier, plan: &Plan, hidden: &[String]) -> Result<()> {
    let roots = plan.read_roots.iter();
    let roots = roots.filter(|root| !plan.write_roots.contains(root));
    let roots = roots.map(|root| CoveredPath {
        what: "the read root",
        target: root,
        fix: "put it directly into the folder that code can write to, or elsewhere",
    });
    let hidden = hidden.iter().map(|path| CoveredPath {
        what: "the folder of packages or state",
        target: Path::new(path),
        fix: APART,
    });
    for point in roots.chain(hidden) {
        let above = writable_paths(plan).find(|folder| {
            point.target.starts_with(folder)
                && point.target != *folder
                && point.target.parent() != Some(folder)
        });
        if let Some(folder) = above {
            let CoveredPath { what, target, fix } = point;
            let context = format!(
                "{what} {} is more than one level below {}, which code can write to: code could replace the folders between",
                target.display(),
                folder.display()
            );
            return Err(refused(tier, context).with_fix(fix));
        }
    }
    Ok(())
}

const APART: &str = "name folders that do not contain it, or only to be read; or set another folder for packages or state";

fn refused(tier: Tier, context: String) -> Error {
    Error::new(ErrorKind::Unsupported, "create sandbox", context).on(tier)
}

/// The paths in a sandbox that map to writable host folders.
fn writable_paths(plan: &Plan) -> impl Iterator<Item = &Path> {
    let workspace = plan.workspace.iter().filter(|it| !it.read_only);
    let workspace = workspace.map(|_| Path::new(WORK_FOLDER));
    let mounts = plan.mounts.iter().filter(|it| !it.read_only);
    let roots = plan.write_roots.iter();
    let roots = roots.chain(mounts.map(|it| &it.target));
    roots.map(PathBuf::as_path).chain(workspace)
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

    use super::*;
    use crate::family::samples::TIER;
    use crate::lowering::samples::plan;

    fn of(read: &[&str], hidden: &[&str]) -> Result<()> {
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_read_roots = Some(read.iter().map(Into::into).collect());
        policy.filesystem_write_roots = Some(vec!["/data".into()]);
        let spec = SandboxSpec::new("sb").workspace(Workspace::read_write("/home/me"));
        let text = |paths: &[&str]| {
            paths
                .iter()
                .map(|&path| path.to_owned())
                .collect::<Vec<_>>()
        };
        let plan = plan(&spec, &policy);
        check(TIER, &plan, &text(hidden))
    }

    #[test]
    fn nested_mount_point_in_a_writable_folder_is_refused() {
        for fine in ["/data", "/data/ro", "/database/a/b", "/home/me/a/b"] {
            of(&[fine], &[]).expect(fine);
        }
        let error = of(&["/data/a/ro"], &[]).expect_err("deep");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("/data/a/ro"), "{error}");
        of(&[], &["/workspace/state"]).expect("directly in it");
        let deep = "/workspace/.cache/sandbox";
        assert!(of(&[], &[deep]).is_err());
    }
}
