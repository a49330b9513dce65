//! Installed packages in a sandbox, and out of the reach of others.

use std::path::PathBuf;

use sandbox_core::{Plan, Provided};

use super::{PackageSettings, TARGET, USER_BASE};

/// The plan with a folder of [`super::provide`], which code sees as `seen`, and the variables that make Python and the packages'
/// programs be found there: behind what `path` (as in `PATH`) leads to. What the specification sets of these is left.
#[must_use]
pub fn shown(plan: &Plan, source: PathBuf, seen: String, path: &str) -> Plan {
    let mut plan = plan.clone();
    let path = format!("{path}:{seen}/bin");
    plan.env.entry("PATH".into()).or_insert(path);
    plan.env.entry(USER_BASE.into()).or_insert(seen);
    plan.provided.push(Provided {
        source,
        target: TARGET.into(),
    });
    plan
}

/// The folder that keeps installed packages, where code of a plan might write to it because it may write to some folder of the
/// host: what it left there would run in other sandboxes. `None` where it may write to none, and where there is no such folder.
#[must_use]
pub fn in_reach(plan: &Plan, settings: &PackageSettings) -> Option<PathBuf> {
    let writable = plan.workspace.as_ref().is_some_and(|it| !it.read_only);
    if plan.write_roots.is_empty() && !writable {
        return None;
    }
    // Where the environment names none, there is none.
    settings.folder().ok()?.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

    use super::*;

    fn plan(spec: &SandboxSpec) -> Plan {
        Plan::resolve(spec, &CapabilityPolicy::new()).expect("a plan")
    }

    #[test]
    fn what_the_specification_sets_is_left() {
        let spec = SandboxSpec::new("test").env("PATH", "/mine");
        let shown = shown(&plan(&spec), "/cache/base".into(), TARGET.into(), "/bin");
        assert_eq!(shown.env["PATH"], "/mine");
        assert_eq!(shown.env[USER_BASE], TARGET);
        assert_eq!(shown.provided.len(), 1);
    }

    #[test]
    fn the_cache_is_in_reach_of_writers_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("sandbox/packages");
        let settings = PackageSettings {
            folder: Some(cache.clone()),
            ..PackageSettings::default()
        };
        let of = |workspace| {
            let spec = SandboxSpec::new("test").workspace(workspace);
            in_reach(&plan(&spec), &settings)
        };
        assert_eq!(in_reach(&plan(&SandboxSpec::new("test")), &settings), None);
        assert_eq!(of(Workspace::read_write("/home/me")), None);
        std::fs::create_dir_all(&cache).expect("made");
        assert_eq!(of(Workspace::read_only("/home/me")), None);
        assert_eq!(
            of(Workspace::read_write("/home/me")),
            Some(cache.canonicalize().expect("made"))
        );
    }
}
