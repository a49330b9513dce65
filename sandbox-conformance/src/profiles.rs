//! The committed profiles: reading, writing, and comparing them with a measurement.
//!
//! Each profile belongs to the package of its backend. A path of profiles may contain [`BACKEND`],
//! as in `sandbox-{backend}/matrix`. It then names one folder for each backend.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::path::{Path, PathBuf};

use sandbox_core::matrix::{Profile, Verdict};
use sandbox_core::registry;

use crate::finding::Report;
use crate::probe::ProbeError;

/// The placeholder for a backend's name in a path of profiles.
pub const BACKEND: &str = "{backend}";

/// The existing folders that a path of profiles names, sorted by name.
///
/// # Errors
///
/// If the parent of the folders cannot be read. A missing folder holds no profiles.
pub fn folders(pattern: &Path) -> Result<Vec<PathBuf>, ProbeError> {
    let mut parent = PathBuf::new();
    let mut components = pattern.components();
    while let Some(component) = components.next() {
        let component = component.as_os_str();
        let Some((prefix, suffix)) = component.to_str().and_then(|c| c.split_once(BACKEND)) else {
            parent.push(component);
            continue;
        };
        if parent == Path::new("") {
            parent.push(".");
        }
        let is_backend = |name: &OsStr| {
            name.to_str()
                .and_then(|name| name.strip_prefix(prefix)?.strip_suffix(suffix))
                .is_some_and(|backend| !backend.is_empty())
        };
        let mut folders = Vec::new();
        let entries = match fs::read_dir(&parent) {
            Ok(entries) => entries,
            // The default path is relative, and the suite runs in any working folder.
            Err(error) if matches!(error.kind(), NotFound | PermissionDenied) => {
                return Ok(folders);
            }
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let entry = entry?;
            let folder = entry.path().join(components.as_path());
            if is_backend(&entry.file_name()) && folder.is_dir() {
                folders.push(folder);
            }
        }
        folders.sort();
        return Ok(folders);
    }
    let exists = pattern.exists();
    Ok(exists.then(|| pattern.to_owned()).into_iter().collect())
}

/// The folder of a tier's profiles.
fn folder_of(pattern: &Path, tier: &str) -> Result<PathBuf, ProbeError> {
    let text = pattern.to_string_lossy();
    if !text.contains(BACKEND) {
        return Ok(pattern.to_owned());
    }
    let backend = registry::tier(tier)?.backend;
    Ok(text.replace(BACKEND, backend).into())
}

/// The profiles of a path with their names, sorted by name.
///
/// # Errors
///
/// If a folder or a profile in it cannot be read. A missing folder holds no profiles.
pub fn load(pattern: &Path) -> Result<Vec<(String, Profile)>, ProbeError> {
    let mut profiles = Vec::new();
    for folder in folders(pattern)? {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension() != Some(OsStr::new("json")) {
                continue;
            }
            let stem = path.file_stem().unwrap_or_default();
            let name = stem.to_string_lossy().into_owned();
            let text = fs::read_to_string(&path)?;
            profiles.push((name.clone(), Profile::from_json(&name, &text)?));
        }
    }
    profiles.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(profiles)
}

/// The name of a profile: the tier, the `user` or `profile` in its key, and eight digits of a hash
/// of the key.
#[must_use]
pub fn name(profile: &Profile) -> String {
    let mut hasher = blake3::Hasher::new();
    for (key, value) in &profile.key {
        hasher.update(format!("{key}={value}\n").as_bytes());
    }
    let hash = &hasher.finalize().to_hex()[..8];
    let kind = profile.key_value("user").or(profile.key_value("profile"));
    match kind {
        Some(kind) => format!("{}-{kind}-{hash}", profile.tier),
        None => format!("{}-{hash}", profile.tier),
    }
}

/// Writes the measured profile into the tier's folder and returns its name.
///
/// # Errors
///
/// If some probes did not run, if the tier belongs to no backend, or if the file cannot be written.
pub fn store(pattern: &Path, report: &Report) -> Result<String, ProbeError> {
    let profile = report.profile();
    if let Some(reason) = &report.unavailable {
        return Err(ProbeError::new(format!(
            "{}: not measured: {reason}",
            report.tier
        )));
    }
    let missing = registered()
        .difference(&profile.probes.keys().cloned().collect())
        .count();
    if missing > 0 {
        return Err(ProbeError::new(format!(
            "{}: {missing} probes did not run; measure without --filter",
            report.tier
        )));
    }
    let folder = folder_of(pattern, &report.tier)?;
    fs::create_dir_all(&folder)?;
    let name = name(&profile);
    fs::write(folder.join(format!("{name}.json")), profile.to_json()?)?;
    Ok(name)
}

fn registered() -> BTreeSet<String> {
    crate::probes::all()
        .iter()
        .map(|probe| probe.id.to_owned())
        .collect()
}

/// The differences between a measurement and the committed profile with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileComparison {
    /// No profile of this tier and key is committed.
    UnknownKey,
    /// The committed profile belongs to another suite.
    OtherSuite,
    /// The probes that differ: id, committed, measured. Empty if they are equal.
    Same(Vec<(String, String, String)>),
}

/// The committed profile with the measurement's tier and key.
#[must_use]
pub fn of_this_host<'a>(
    committed: &'a [(String, Profile)],
    measured: &Profile,
) -> Option<&'a Profile> {
    let same_host = |p: &&Profile| p.tier == measured.tier && p.key == measured.key;
    committed.iter().map(|(_, profile)| profile).find(same_host)
}

/// Compares a measurement with the committed profile of the same tier and key.
#[must_use]
pub fn compare(committed: &[(String, Profile)], measured: &Profile) -> ProfileComparison {
    let Some(profile) = of_this_host(committed, measured) else {
        return ProfileComparison::UnknownKey;
    };
    if profile.suite != measured.suite {
        return ProfileComparison::OtherSuite;
    }
    let names: BTreeSet<_> = profile
        .probes
        .keys()
        .chain(measured.probes.keys())
        .collect();
    let text = |profile: &Profile, name: &String| match profile.probes.get(name) {
        None => "no such probe".to_owned(),
        Some(seen) => match &seen.declared {
            None => seen.verdict.to_string(),
            Some(declared) => format!("{}, declared {declared}", seen.verdict),
        },
    };
    let differing = names
        .into_iter()
        .filter(|name| profile.probes.get(*name) != measured.probes.get(*name));
    ProfileComparison::Same(
        differing
            .map(|n| (n.clone(), text(profile, n), text(measured, n)))
            .collect(),
    )
}

/// The defects of committed profiles that are visible without measuring: another suite, a flaky
/// verdict, a wrong name, and tiers without a profile.
#[must_use]
pub fn lacks(committed: &[(String, Profile)], suite: &str, tiers: &[&str]) -> Vec<String> {
    let mut lacks = Vec::new();
    for (name, profile) in committed {
        if profile.suite != suite {
            lacks.push(format!(
                "{name}: of suite {}, the compiled one is {suite}",
                profile.suite
            ));
        }
        if profile.with_verdict(Verdict::Flaky).next().is_some() {
            lacks.push(format!("{name}: holds a flaky verdict"));
        }
        if *name != self::name(profile) {
            lacks.push(format!(
                "{name}: its key belongs to {}",
                self::name(profile)
            ));
        }
    }
    for tier in tiers {
        if !committed.iter().any(|(_, profile)| profile.tier == **tier) {
            lacks.push(format!("{tier}: has no committed profile"));
        }
    }
    lacks
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sandbox_core::Capability;
    use sandbox_core::matrix::{Observation, Subject};

    use super::*;

    fn profile(verdict: Verdict) -> Profile {
        let subject = Subject::Capability(Capability::Memory);
        let observation = Observation {
            subject,
            verdict,
            declared: None,
        };
        Profile {
            tier: "local".into(),
            suite: "s".into(),
            key: vec![("user".into(), "root".into())],
            probes: BTreeMap::from([("memory::a".to_owned(), observation)]),
        }
    }

    #[test]
    fn placeholder_names_one_folder_for_each_backend() {
        let top = tempfile::tempdir().expect("a folder");
        for folder in [
            "sandbox-a/matrix",
            "sandbox-b/matrix",
            "sandbox-c",
            "other/matrix",
        ] {
            fs::create_dir_all(top.path().join(folder)).expect("a folder");
        }
        let profile = profile(Verdict::Enforced);
        let file = top.path().join("sandbox-b/matrix/x.json");
        fs::write(file, profile.to_json().expect("JSON")).expect("a profile");
        let pattern = top.path().join("sandbox-{backend}/matrix");
        let expected = ["sandbox-a/matrix", "sandbox-b/matrix"].map(|name| top.path().join(name));
        assert_eq!(folders(&pattern).expect("folders"), expected);
        let loaded = load(&pattern).expect("profiles");
        assert_eq!(loaded, [("x".to_owned(), profile)]);
        assert!(
            load(&top.path().join("missing"))
                .expect("profiles")
                .is_empty()
        );
    }

    #[test]
    fn only_profiles_with_equal_keys_are_compared() {
        let committed = vec![("x".to_owned(), profile(Verdict::Enforced))];
        assert_eq!(
            compare(&committed, &profile(Verdict::Enforced)),
            ProfileComparison::Same(vec![])
        );
        let ProfileComparison::Same(differing) = compare(&committed, &profile(Verdict::Leaked))
        else {
            panic!("the same key");
        };
        assert_eq!(
            differing,
            vec![("memory::a".into(), "enforced".into(), "leaked".into())]
        );
        let other_key = Profile {
            key: vec![],
            ..profile(Verdict::Enforced)
        };
        assert_eq!(
            compare(&committed, &other_key),
            ProfileComparison::UnknownKey
        );
        let other_suite = Profile {
            suite: "t".into(),
            ..profile(Verdict::Enforced)
        };
        assert_eq!(
            compare(&committed, &other_suite),
            ProfileComparison::OtherSuite
        );
    }

    #[test]
    fn stale_and_missing_profiles_are_reported() {
        let right = profile(Verdict::Enforced);
        let committed = vec![(name(&right), right)];
        assert!(lacks(&committed, "s", &["local"]).is_empty());
        assert_eq!(lacks(&committed, "t", &["local", "docker"]).len(), 2);
        assert_eq!(
            lacks(&[("wrong".into(), profile(Verdict::Flaky))], "s", &[]).len(),
            2
        );
    }
}
