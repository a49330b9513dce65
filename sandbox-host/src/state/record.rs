//! The stored record of a detached sandbox, for later clients.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sandbox_core::plan::defaults;
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result, SandboxInfo, SandboxState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the record. Others are refused, since it is unknown how to end such a sandbox.
const VERSION: u32 = 2;

/// The time to live of a detached sandbox.
#[must_use]
pub fn lifetime(plan: &Plan) -> Duration {
    plan.lifetime.unwrap_or(defaults::DETACHED_LIFETIME)
}

/// The content of `sandbox.json` in the state folder. `P` is what the backend needs to find the
/// sandbox again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachedRecord<P> {
    version: u32,
    /// The tier that created it.
    pub tier: String,
    /// The sandbox's plan.
    pub plan: Plan,
    /// The environment of all executions, below their own.
    pub env: BTreeMap<String, String>,
    /// The enforcement report.
    pub enforcement: EnforcementReport,
    /// In seconds since 1970.
    created: u64,
    /// In seconds since 1970.
    expires: u64,
    /// Where the backend finds the sandbox.
    pub parts: P,
}

impl<P: Serialize + DeserializeOwned + PartialEq> DetachedRecord<P> {
    /// A record of a sandbox whose [`lifetime`] starts now.
    #[must_use]
    pub fn new(
        tier: &str,
        plan: &Plan,
        env: BTreeMap<String, String>,
        enforcement: EnforcementReport,
        parts: P,
    ) -> Self {
        // A clock before 1970 counts as 1970.
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            version: VERSION,
            tier: tier.to_owned(),
            plan: plan.clone(),
            env,
            enforcement,
            created: now.as_secs(),
            expires: now.saturating_add(lifetime(plan)).as_secs(),
            parts,
        }
    }

    /// Encodes the record.
    ///
    /// # Errors
    ///
    /// If it would not decode to the same record: for example, a path of the plan is not UTF-8.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let refused = |why: String| {
            let context = format!("a detached sandbox has to be written down: {why}");
            Error::new(ErrorKind::InvalidSpec, "create sandbox", context).on(&self.tier)
        };
        let text = serde_json::to_vec_pretty(self).map_err(|cause| refused(cause.to_string()))?;
        match serde_json::from_slice::<Self>(&text) {
            Ok(read) if read == *self => Ok(text),
            Ok(_) => Err(refused("a value would be rounded".into())),
            Err(cause) => Err(refused(cause.to_string())),
        }
    }

    /// Decodes the record of a sandbox.
    ///
    /// # Errors
    ///
    /// With the file and what is wrong with it.
    pub fn decode(tier: &str, path: &Path, text: &[u8]) -> Result<Self> {
        /// The field that all versions have.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let refused = |why: String| {
            let context = format!("{}: {why}", path.display());
            Error::new(ErrorKind::Io, "read sandbox record", context)
                .on(tier)
                .with_fix("`sandbox rm` removes it once it has ended")
        };
        let Versioned { version } =
            serde_json::from_slice(text).map_err(|cause| refused(cause.to_string()))?;
        if version != VERSION {
            let why = format!("version {version}, and this program knows version {VERSION}");
            return Err(refused(why).with_fix("use the program that made it, or wait for its end"));
        }
        serde_json::from_slice(text).map_err(|cause| refused(cause.to_string()))
    }

    /// The entry in a list of sandboxes.
    #[must_use]
    pub fn info(&self, state: SandboxState) -> SandboxInfo {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut info = SandboxInfo::new(&self.plan.name, &self.tier, state, time(self.created));
        info.expires = Some(time(self.expires));
        info.labels.clone_from(&self.plan.labels);
        info
    }

    /// The remaining time to live, by this machine's clock.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(self.expires);
        end.duration_since(SystemTime::now()).unwrap_or_default()
    }

    /// Whether the time to live is over, by this machine's clock.
    #[must_use]
    pub fn is_over(&self) -> bool {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .is_ok_and(|now| now.as_secs() >= self.expires)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    use super::*;

    fn record(policy: &CapabilityPolicy) -> DetachedRecord<String> {
        let lifetime = Duration::from_secs(60);
        let spec = SandboxSpec::new("kept").detached(true).lifetime(lifetime);
        let plan = Plan::resolve(&spec, policy).expect("a plan");
        let report = EnforcementReport::nothing("a test");
        let place = "somewhere".to_owned();
        DetachedRecord::new("local", &plan, BTreeMap::new(), report, place)
    }

    #[test]
    fn record_round_trips() {
        let record = record(&CapabilityPolicy::new());
        let text = record.encode().expect("text");
        let path = Path::new("/x");
        assert_eq!(
            DetachedRecord::<String>::decode("local", path, &text).expect("read"),
            record
        );
        assert!(!record.is_over());
        let info = record.info(SandboxState::Running);
        let lived = info.expires.expect("set").duration_since(info.created);
        assert_eq!(lived.expect("later"), Duration::from_secs(60));
    }

    #[test]
    fn unknown_fields_and_versions_are_errors() {
        let text = record(&CapabilityPolicy::new()).encode().expect("text");
        let text = String::from_utf8(text).expect("UTF-8");
        for (from, to) in [
            ("\"version\": 2", "\"version\": 3"),
            ("\"version\": 2", "\"version\": 2, \"more\": 1"),
            ("\"parts\":", "\"more\": 1, \"parts\":"),
            ("\"version\": 2,", ""),
        ] {
            let text = text.replacen(from, to, 1);
            let error = DetachedRecord::<String>::decode("local", Path::new("/x"), text.as_bytes())
                .expect_err(to);
            assert!(error.context().starts_with("/x: "), "{error}");
        }
    }

    #[test]
    fn unencodable_record_is_refused() {
        let mut policy = CapabilityPolicy::new();
        let path = std::ffi::OsStr::from_bytes(b"/data/\xff");
        policy.filesystem_read_roots = Some(vec![path.into()]);
        let error = record(&policy).encode().expect_err("not UTF-8");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
    }
}
