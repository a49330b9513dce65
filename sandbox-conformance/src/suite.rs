//! The whole suite: its probes and its identity.

use crate::probe::Probe;
use crate::probes;

/// The identity of the compiled suite: a hash of the id and version of every probe. Only verdicts
/// of equal suites are comparable.
#[must_use]
pub fn id() -> String {
    id_of(&probes::all())
}

fn id_of(probes: &[&Probe]) -> String {
    let mut hasher = blake3::Hasher::new();
    for probe in probes {
        hasher.update(format!("{}@{}\n", probe.id, probe.version).as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// The probes whose ids contain one of the filters. Without a filter, all probes.
#[must_use]
pub fn selected(filters: &[String]) -> Vec<&'static Probe> {
    let wanted = |probe: &&Probe| {
        filters.is_empty() || filters.iter().any(|f| probe.id.contains(f.as_str()))
    };
    probes::all().into_iter().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::host_fixture::HostFixture;

    #[test]
    fn ids_are_unique_area_and_name() {
        let probes = probes::all();
        let names: BTreeSet<_> = probes.iter().map(|probe| probe.id).collect();
        assert_eq!(names.len(), probes.len());
        for probe in probes {
            let (area, name) = probe.id.split_once("::").expect("area::name");
            let word = |text: &str| {
                text.bytes()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
            };
            assert!(word(area) && word(name), "{}", probe.id);
            assert!(
                !probe.denials.is_empty() && !probe.summary.is_empty(),
                "{}",
                probe.id
            );
        }
    }

    #[test]
    fn new_probe_version_changes_the_suite_id() {
        let probes = probes::all();
        let first = Probe {
            version: probes[0].version + 1,
            ..copy(probes[0])
        };
        let changed: Vec<&Probe> = [&first]
            .into_iter()
            .chain(probes[1..].iter().copied())
            .collect();
        assert_ne!(id_of(&changed), id());
        assert_ne!(id_of(&probes[1..]), id());
    }

    #[test]
    fn every_setup_has_a_valid_policy() {
        let fixture = HostFixture::prepare().expect("a fixture");
        for probe in probes::all() {
            for setup in [Some(probe.setup), probe.allow_setup].into_iter().flatten() {
                setup(&fixture).policy.validate().expect(probe.id);
            }
        }
    }

    fn copy(probe: &Probe) -> Probe {
        Probe { ..*probe }
    }
}
