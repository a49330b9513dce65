//! The committed profiles of this workspace.

use std::path::PathBuf;

use sandbox_core::matrix::Profile;
use sandbox_core::{Enforcement, Mechanism};

fn committed() -> Vec<PathBuf> {
    let files = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path())
    };
    // Cargo runs tests in the folder of their package.
    let profiles = files("..".into()).flat_map(|package| files(package.join("matrix")));
    profiles
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect()
}

#[test]
fn every_committed_mechanism_is_known_and_keeps_its_words() {
    let committed = committed();
    assert!(!committed.is_empty());
    for path in committed {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).expect("a profile");
        let profile = Profile::from_json(&name, &text).expect("a profile");
        assert_eq!(profile.to_json().expect("JSON"), text, "{name}");
        for declared in profile
            .probes
            .values()
            .filter_map(|probe| probe.declared.as_ref())
        {
            let mechanisms = declared.mechanisms();
            let is_known = |mechanism: &Mechanism| !matches!(mechanism, Mechanism::Other(_));
            assert!(mechanisms.iter().all(is_known), "{name}: {declared}");
            let is_claimed = !matches!(declared, Enforcement::Unenforced { .. });
            assert_eq!(is_claimed, !mechanisms.is_empty(), "{name}: {declared}");
        }
    }
}
