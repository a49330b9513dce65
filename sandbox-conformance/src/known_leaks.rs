//! Known leaks: claims that are known not to hold, with a reason and an expiry date.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use crate::finding::Report;
use crate::probe::ProbeError;
use crate::{probes, profiles};

/// A leak that fails no run until it expires.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownLeak {
    /// The tier that leaks.
    pub tier: String,
    /// The probe that finds it.
    pub probe: String,
    /// Why it is not fixed yet.
    pub reason: String,
    /// The last day on which the leak is accepted, such as `2027-01-31`.
    pub expires: String,
}

/// The known leaks of all tiers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownLeaks {
    #[serde(default)]
    leak: Vec<KnownLeak>,
}

/// The file name, beside the committed profiles.
pub const FILE: &str = "known-leaks.toml";

impl KnownLeaks {
    /// Loads the known leaks beside the committed profiles. The path is as in [`profiles::load`].
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or names an unknown field or probe.
    pub fn load(pattern: &Path) -> Result<Self, ProbeError> {
        let mut known = Self::default();
        for folder in profiles::folders(pattern)? {
            let path = folder.join(FILE);
            if !path.exists() {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            let parsed = Self::parse(&text)
                .map_err(|why| ProbeError::new(format!("{}: {why}", path.display())))?;
            known.leak.extend(parsed.leak);
        }
        Ok(known)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let known: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for leak in &known.leak {
            if !probes::all().iter().any(|probe| probe.id == leak.probe) {
                return Err(format!("there is no probe {}", leak.probe));
            }
            if day(&leak.expires).is_none() {
                return Err(format!("{}: write a day as 2027-01-31", leak.expires));
            }
            if leak.reason.trim().is_empty() {
                return Err(format!("{} on {}: it has no reason", leak.probe, leak.tier));
            }
        }
        Ok(known)
    }

    /// Marks the known leaks in a report, so that [`crate::Finding::claim_status`] accepts them.
    /// Returns a line for each leak that expired before `now` and is not marked.
    pub fn mark(&self, report: &mut Report, now: SystemTime) -> Vec<String> {
        let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH);
        let today = since_1970.unwrap_or(Duration::ZERO).as_secs() / 86_400;
        let mut expired = Vec::new();
        for leak in self.leak.iter().filter(|leak| leak.tier == report.tier) {
            if day(&leak.expires).is_none_or(|last| last < today) {
                expired.push(format!(
                    "{} {}: the excuse ended on {}: {}",
                    leak.tier, leak.probe, leak.expires, leak.reason
                ));
                continue;
            }
            for finding in report.findings.iter_mut().filter(|f| f.id == leak.probe) {
                finding.known = Some(format!("{}, until {}", leak.reason, leak.expires));
            }
        }
        expired
    }
}

/// The number of days since 1970-01-01, from `YYYY-MM-DD`.
fn day(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // In years that start in March, the leap day is the last day.
    let (year, month) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719468 is the number of days from 0000-03-01 to 1970-01-01.
    (year * 365 + leap_days + (153 * month + 2) / 5 + day - 1).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbox_core::matrix::Verdict;

    use super::*;
    use crate::{ClaimStatus, Evidence, Finding};

    const KNOWN: &str = "[[leak]]\ntier = 'toy'\nprobe = 'kernel::bpf'\nreason = 'a reason'\nexpires = '2027-01-31'\n";

    fn report(verdict: Verdict) -> Report {
        let probes = probes::all();
        let probe = probes
            .iter()
            .find(|probe| probe.id == "kernel::bpf")
            .unwrap();
        Report {
            tier: "toy".into(),
            suite: String::new(),
            key: Vec::new(),
            unavailable: None,
            findings: vec![Finding::new(probe, verdict, Evidence::default(), 0)],
        }
    }

    fn at(text: &str) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(day(text).unwrap() * 86_400 + 3600)
    }

    #[test]
    fn days_since_1970_match_the_calendar() {
        assert_eq!(day("1970-01-01"), Some(0));
        assert_eq!(day("2000-03-01"), Some(11_017));
        assert_eq!(day("2024-02-29"), Some(19_782));
        for wrong in [
            "2027",
            "2027-13-01",
            "2027-01-32",
            "soon",
            "1969-12-31",
            "-1-1-1",
        ] {
            assert_eq!(day(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn known_leak_fails_after_its_last_day() {
        let known = KnownLeaks::parse(KNOWN).unwrap();
        let mut leaking = report(Verdict::Leaked);
        assert!(known.mark(&mut leaking, at("2027-01-31")).is_empty());
        assert!(
            matches!(leaking.findings[0].claim_status(), ClaimStatus::Admitted(why) if why.contains("a reason"))
        );
        let mut late = report(Verdict::Leaked);
        assert_eq!(known.mark(&mut late, at("2027-02-01")).len(), 1);
        assert!(matches!(
            late.findings[0].claim_status(),
            ClaimStatus::Failed(_)
        ));
    }

    #[test]
    fn fixed_leak_still_on_the_list_fails() {
        let known = KnownLeaks::parse(KNOWN).unwrap();
        let mut closed = report(Verdict::Enforced);
        known.mark(&mut closed, at("2027-01-01"));
        assert!(
            matches!(closed.findings[0].claim_status(), ClaimStatus::Failed(why) if why.contains(FILE))
        );
    }

    #[test]
    fn invalid_known_leaks_are_errors() {
        for (from, to) in [
            ("kernel::bpf", "kernel::nonsense"),
            ("2027-01-31", "next year"),
            ("a reason", " "),
            ("reason", "excuse"),
        ] {
            assert!(
                KnownLeaks::parse(&KNOWN.replacen(from, to, 1)).is_err(),
                "{to}"
            );
        }
    }
}
