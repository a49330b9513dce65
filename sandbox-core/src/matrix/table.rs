//! The whole matrix.

use std::fmt::Write as _;

use super::{Cell, Observation, Profile, ProfileKey, Subject};
use crate::{Result, registry};

/// Which tier enforces which capability, on each kind of host that was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompatibilityMatrix {
    profiles: Vec<(String, Profile)>,
}

impl CompatibilityMatrix {
    /// A matrix of these profiles, each with its name.
    #[must_use]
    pub fn new(mut profiles: Vec<(String, Profile)>) -> Self {
        profiles.sort_by(|a, b| a.0.cmp(&b.0));
        Self { profiles }
    }

    /// The matrix of the linked backends, from the profiles in their packages.
    ///
    /// # Errors
    ///
    /// If a registered profile cannot be read, or if two backends register the same tier.
    pub fn linked() -> Result<Self> {
        let mut profiles = Vec::new();
        for registration in registry::tiers()? {
            for (name, text) in registration.profiles {
                let stem = name.strip_suffix(".json").unwrap_or(name);
                profiles.push((stem.to_owned(), Profile::from_json(name, text)?));
            }
        }
        Ok(Self::new(profiles))
    }

    /// The profiles and their names, sorted by name.
    #[must_use]
    pub fn profiles(&self) -> &[(String, Profile)] {
        &self.profiles
    }

    /// The profile of a tier on hosts with this key, and its name; `None` if there is none.
    #[must_use]
    pub fn of_host(&self, tier: &str, key: &ProfileKey) -> Option<(&str, &Profile)> {
        let mut profiles = self.profiles.iter();
        let (name, profile) =
            profiles.find(|(_, profile)| profile.tier == tier && profile.key == *key)?;
        Some((name, profile))
    }

    /// The cell of a profile and a subject; `None` if there is no such profile.
    #[must_use]
    pub fn cell(&self, profile: &str, subject: Subject) -> Option<Cell> {
        let (_, profile) = self.profiles.iter().find(|(name, _)| name == profile)?;
        Some(derive(profile, subject))
    }

    /// The subjects that at least one profile has a probe for, in the order of the matrix.
    #[must_use]
    pub fn subjects(&self) -> Vec<Subject> {
        let probed = |subject: &Subject| {
            let mut seen = self
                .profiles
                .iter()
                .flat_map(|(_, profile)| profile.probes.values());
            seen.any(|observation| observation.subject == *subject)
        };
        Subject::all().filter(probed).collect()
    }

    /// The matrix as Markdown: a row for each subject and a column for each profile, followed by
    /// the hosts behind the columns and the declared gaps. Twenty columns of capabilities would be
    /// unreadable.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        if self.profiles.is_empty() {
            return "Nothing has been measured yet.\n".into();
        }
        let names = self.profiles.iter().map(|(name, _)| escaped(name));
        let _ = writeln!(text, "| | {} |", names.collect::<Vec<_>>().join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(self.profiles.len()));
        let mut gaps = Vec::new();
        for subject in self.subjects() {
            let _ = write!(text, "| `{subject}` |");
            for (name, profile) in &self.profiles {
                let cell = derive(profile, subject);
                let _ = write!(text, " {cell} |");
                gaps.extend(cell.gaps.iter().map(|gap| (subject, name, gap.clone())));
            }
            text.push('\n');
        }
        text.push_str(LEGEND);
        for (name, profile) in &self.profiles {
            let key = profile
                .key
                .iter()
                .map(|(key, value)| format!("{key} {value}"));
            let _ = writeln!(
                text,
                "- **{}**: {}",
                escaped(name),
                escaped(&key.collect::<Vec<_>>().join(", "))
            );
        }
        if !gaps.is_empty() {
            text.push_str("\nGaps that the backends declare:\n\n");
            for (subject, name, gap) in gaps {
                let _ = writeln!(
                    text,
                    "- `{subject}` on {}: {}",
                    escaped(name),
                    escaped(&gap)
                );
            }
        }
        text
    }
}

const LEGEND: &str = "
`enforced 9/9`: nine probes attacked, and all nine were stopped. `open`: probes that were inconclusive on that host, or that ask about a layer the backend does not claim.
Measured by `cargo xtask conformance` on:

";

fn derive(profile: &Profile, subject: Subject) -> Cell {
    let seen = profile
        .probes
        .values()
        .filter(|observation| observation.subject == subject);
    Cell::derive(&seen.collect::<Vec<&Observation>>())
}

/// Escapes a text for Markdown: one line, no table cells, tags or emphasis.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '<' | '>' | '`' | '*' | '[' | ']' | '\\' => {
                safe.push('\\');
                safe.push(character);
            }
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::matrix::Verdict;
    use crate::{Capability, Enforcement};

    fn matrix() -> CompatibilityMatrix {
        let subject = Subject::Capability(Capability::Memory);
        let observation = |verdict, declared| Observation {
            subject,
            verdict,
            declared,
        };
        let probes = BTreeMap::from([
            (
                "memory::a".to_owned(),
                observation(Verdict::Enforced, Some(Enforcement::partial("m", "a|b"))),
            ),
            (
                "memory::b".to_owned(),
                observation(Verdict::Inconclusive, None),
            ),
        ]);
        let key = vec![("user".to_owned(), "root".to_owned())];
        let profile = Profile {
            tier: "local".into(),
            suite: "s".into(),
            key,
            probes,
        };
        CompatibilityMatrix::new(vec![("local-root".into(), profile)])
    }

    #[test]
    fn markdown_has_the_row_the_host_and_the_gap() {
        let text = matrix().markdown();
        assert!(
            text.contains("| `memory` | partial 1/1 (1 open) |"),
            "{text}"
        );
        assert!(text.contains("- **local-root**: user root"), "{text}");
        assert!(text.contains("- `memory` on local-root: a\\|b"), "{text}");
    }

    #[test]
    fn cell_is_found_by_profile_and_subject() {
        let subject = Subject::Capability(Capability::Memory);
        assert_eq!(
            matrix()
                .cell("local-root", subject)
                .map(|cell| cell.enforced),
            Some(1)
        );
        assert_eq!(matrix().cell("nowhere", subject), None);
        assert_eq!(matrix().subjects(), vec![subject]);
    }

    #[test]
    fn empty_matrix_says_that_nothing_was_measured() {
        assert_eq!(
            CompatibilityMatrix::default().markdown(),
            "Nothing has been measured yet.\n"
        );
    }
}
