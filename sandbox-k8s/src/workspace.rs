//! The workspace of a pod: a copy of a folder of this host, whose changes come back.

use std::path::Path;

use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::AgentInstance;
use sandbox_host::state::{self, resolved};

use crate::TIER;
use crate::config::KubernetesConfig;

/// Fails before a pod is created if the workspace is not a folder, or if a copy of it would show the
/// state folder, or bring back changes of installed packages.
pub(crate) fn check(plan: &Plan, config: &KubernetesConfig) -> Result<()> {
    let Some(workspace) = &plan.workspace else {
        return Ok(());
    };
    let path = &workspace.path;
    let invalid = |why: String| {
        let context = format!("workspace {}: {why}", path.display());
        Error::new(ErrorKind::InvalidSpec, "create sandbox", context).on(TIER)
    };
    let real = path.canonicalize();
    let real = real.map_err(|cause| invalid(cause.to_string()))?;
    if !real.is_dir() {
        return Err(invalid("it is not a folder".to_owned()));
    }
    let state = Some(state::folder(None, state::user()));
    // Without a cache folder in the environment there is none.
    let packages = config.packages.folder().ok();
    let packages = packages.filter(|_| !workspace.read_only);
    let shared = [
        ("the state folder", state, "name a folder without it"),
        (
            "installed packages in",
            packages,
            "name a folder without them, or set another XDG_CACHE_HOME",
        ),
    ];
    for (what, folder, fix) in shared {
        if let Some(folder) = folder.map(resolved).filter(|it| overlaps(&real, it)) {
            let context = format!(
                "the workspace {} shows {what} {}: a pod gets a copy, and its changes come back",
                path.display(),
                folder.display()
            );
            return Err(
                Error::new(ErrorKind::Unsupported, "create sandbox", context)
                    .on(TIER)
                    .with_fix(fix),
            );
        }
    }
    Ok(())
}

fn overlaps(workspace: &Path, folder: &Path) -> bool {
    folder.starts_with(workspace) || workspace.starts_with(folder)
}

pub(crate) async fn copy_in(plan: &Plan, instance: &mut AgentInstance) -> Result<()> {
    match &plan.workspace {
        Some(workspace) => instance.bring_workspace(workspace, plan.disk).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};
    use sandbox_lang::packages::PackageSettings;

    use super::*;

    fn checked(workspace: Workspace, cache: &Path) -> Result<()> {
        let spec = SandboxSpec::new("test").workspace(workspace);
        let plan = Plan::resolve(&spec, &CapabilityPolicy::new()).expect("a plan");
        let mut packages = PackageSettings::default();
        packages.folder = Some(cache.to_owned());
        check(&plan, &KubernetesConfig::default().packages(packages))
    }

    #[test]
    fn workspace_around_or_in_the_package_cache_is_refused_if_changes_come_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        let cache = base.join("cache/packages");
        for inner in ["cache/packages/entries", "project"] {
            std::fs::create_dir_all(base.join(inner)).expect("made");
        }
        for shown in [&base, &base.join("cache"), &cache.join("entries")] {
            let error = checked(Workspace::read_write(shown), &cache).expect_err("it is refused");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("installed packages"), "{error}");
            checked(Workspace::read_only(shown), &cache).expect("nothing comes back");
        }
        checked(Workspace::read_write(base.join("project")), &cache).expect("it is elsewhere");
    }

    #[test]
    fn workspace_that_is_no_folder_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let missing = file.path().with_extension("missing");
        for path in [file.path(), &missing] {
            let error = checked(Workspace::read_only(path), Path::new("/nowhere"));
            assert_eq!(error.expect_err("refused").kind(), ErrorKind::InvalidSpec);
        }
    }
}
