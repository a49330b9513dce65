//! Hides the keys of detached sandboxes from sandboxes that see host folders.

use std::path::{Path, PathBuf};

use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::WORK_FOLDER;
use sandbox_host::state::resolved;

use crate::Tier;

/// Whether a plan mounts any host folder.
pub(crate) fn mounts_host_folders(plan: &Plan) -> bool {
    host_mounts(plan).next().is_some()
}

/// The paths in a sandbox that would expose the state folder.
///
/// # Errors
///
/// `Unsupported` for a mounted folder inside the state folder.
pub(crate) fn state_folder_paths(tier: Tier, plan: &Plan, state: &Path) -> Result<Vec<String>> {
    let state = resolved(state.to_owned());
    let inside = |shown: &(PathBuf, PathBuf)| resolved(shown.0.clone()).starts_with(&state);
    if let Some((source, _)) = host_mounts(plan).find(inside) {
        let context = format!(
            "{} shows the state folder {}",
            source.display(),
            state.display()
        );
        return Err(
            Error::new(ErrorKind::Unsupported, "create sandbox", context)
                .on(tier)
                .with_fix("name another folder, or set another state folder"),
        );
    }
    Ok(paths_showing(plan, &state))
}

/// The paths in a sandbox that would expose `folder`, a path without links.
pub(crate) fn paths_showing(plan: &Plan, folder: &Path) -> Vec<String> {
    let seen = host_mounts(plan).filter_map(|(source, target)| {
        let below = folder.strip_prefix(resolved(source)).ok()?;
        // Roots that are not UTF-8 are refused elsewhere.
        target.join(below).to_str().map(ToOwned::to_owned)
    });
    let mut seen = seen.collect::<Vec<_>>();
    seen.sort();
    seen.dedup();
    seen
}

/// The host folders that a plan mounts, each with its path in the sandbox.
fn host_mounts(plan: &Plan) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let roots = plan.read_roots.iter().chain(&plan.write_roots);
    let roots = roots.map(|root| (root.clone(), root.clone()));
    let workspace = plan.workspace.iter();
    let workspace = workspace.map(|it| (it.path.clone(), WORK_FOLDER.into()));
    let mounts = plan.mounts.iter();
    let mounts = mounts.map(|it| (it.source.clone(), it.target.clone()));
    roots.chain(workspace).chain(mounts)
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

    use super::*;
    use crate::family::samples::TIER;
    use crate::lowering::samples::plan;

    #[test]
    fn state_folder_is_hidden_or_refused() {
        let place = tempfile::tempdir().expect("a folder");
        let place = place.path().canonicalize().expect("there");
        let state = place.join("state");
        std::fs::create_dir_all(state.join("containers")).expect("made");
        std::os::unix::fs::symlink(&place, place.join("link")).expect("made");
        let hidden_of = |root: &Path, workspace: Option<&Path>| {
            let mut policy = CapabilityPolicy::new();
            policy.filesystem_read_roots = Some(vec![root.into()]);
            let mut spec = SandboxSpec::new("sb");
            if let Some(path) = workspace {
                spec = spec.workspace(Workspace::read_write(path));
            }
            state_folder_paths(TIER, &plan(&spec, &policy), &state)
        };
        let seen = |path: &Path| path.to_str().expect("text").to_owned();
        assert_eq!(hidden_of(&place, None).expect("hidden"), [seen(&state)]);
        let link = place.join("link");
        assert_eq!(
            hidden_of(&link, Some(&place)).expect("hidden"),
            [seen(&link.join("state")), "/workspace/state".to_owned()]
        );
        assert!(hidden_of(Path::new("/usr"), None).expect("fine").is_empty());
        for inside in [state.clone(), state.join("containers"), link.join("state")] {
            let error = hidden_of(&inside, None).expect_err("inside");
            assert!(error.to_string().contains("state folder"), "{error}");
        }
    }
}
