//! The Secret of a detached sandbox. It holds the key and the record, and is owned by the pod,
//! which removes it.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::{ClientKey, state};
use serde::{Deserialize, Serialize};

use crate::{TIER, labels};

/// The keys of the Secret's data.
const RECORD: &str = "sandbox.json";
const KEY: &str = "key";

/// The content of `sandbox.json`.
pub(super) type PodRecord = state::DetachedRecord<PodLocation>;

/// Identifies the pod of a detached sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodLocation {
    pub(super) pod: String,
    /// Distinguishes the pod from others with the same name.
    pub(super) uid: String,
}

impl PodLocation {
    /// The location of this pod.
    ///
    /// # Errors
    ///
    /// `Protocol` for a pod without a name or UID.
    pub(super) fn of(pod: &Pod) -> Result<Self> {
        let (name, uid) = (&pod.metadata.name, &pod.metadata.uid);
        let location = name.clone().zip(uid.clone());
        let (pod, uid) = location.ok_or_else(|| {
            let context = "the API server gave the pod no identity";
            Error::new(ErrorKind::Protocol, "store sandbox record", context).on(TIER)
        })?;
        Ok(Self { pod, uid })
    }

    /// The Secret's name. It contains the UID, since the pod's name is reused with the sandbox's
    /// name.
    pub(super) fn secret(&self) -> String {
        format!("sandbox-{}", self.uid)
    }
}

/// The Secret of a sandbox.
///
/// # Errors
///
/// For a record that cannot be encoded.
pub(super) fn encode(record: &PodRecord, key: &ClientKey) -> Result<Secret> {
    let location = &record.parts;
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: location.pod.clone(),
        uid: location.uid.clone(),
        ..OwnerReference::default()
    };
    let data = BTreeMap::from([
        (RECORD.to_owned(), ByteString(record.encode()?)),
        (KEY.to_owned(), ByteString(key.as_bytes().to_vec())),
    ]);
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(location.secret()),
            labels: Some(labels::ours().into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        data: Some(data),
        ..Secret::default()
    })
}

/// Decodes the Secret of the sandbox in this pod.
///
/// # Errors
///
/// If it is incomplete or belongs to another pod.
pub(super) fn decode(secret: &Secret, location: &PodLocation) -> Result<(PodRecord, ClientKey)> {
    let shown = format!("Secret {}", location.secret());
    let refused = |why: &str| {
        let context = format!("{shown}: {why}");
        Error::new(ErrorKind::Io, "read sandbox record", context)
            .on(TIER)
            .with_fix("end the sandbox with `sandbox rm`")
    };
    let value = |name: &str| {
        let found = secret.data.as_ref().and_then(|data| data.get(name));
        found.map(|bytes| &*bytes.0)
    };
    let text = value(RECORD).ok_or_else(|| refused("it has no record"))?;
    let record = PodRecord::decode(TIER, Path::new(&shown), text)?;
    if record.parts != *location || record.tier != TIER {
        return Err(refused("it belongs to another sandbox"));
    }
    let key = value(KEY).and_then(|key| <[u8; ClientKey::LEN]>::try_from(key).ok());
    let key = key.ok_or_else(|| refused("it has no key"))?;
    Ok((record, ClientKey::new(key)))
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, EnforcementReport, SandboxSpec};

    use super::*;
    use crate::lowering::tests::plan;

    fn location() -> PodLocation {
        PodLocation {
            pod: "sandbox-kept-0".into(),
            uid: "1-2-3".into(),
        }
    }

    fn secret() -> (PodRecord, Secret) {
        let spec = SandboxSpec::new("kept").detached(true).env("TOKEN", "t");
        let plan = plan(&spec, &CapabilityPolicy::new());
        let record = PodRecord::new(
            TIER,
            &plan,
            BTreeMap::new(),
            EnforcementReport::nothing("a test"),
            location(),
        );
        let secret = encode(&record, &ClientKey::new([7; 32])).expect("a Secret");
        (record, secret)
    }

    #[test]
    fn secret_round_trips_and_is_owned_by_its_pod() {
        let (record, mut secret) = secret();
        let (read, key) = decode(&secret, &location()).expect("read");
        assert_eq!((read, key), (record, ClientKey::new([7; 32])));
        // The record contains the time, and a label the version.
        secret.data = None;
        let labels = secret.metadata.labels.get_or_insert_default();
        assert!(labels.remove("sandbox.version").is_some());
        insta::assert_json_snapshot!(secret);
    }

    #[test]
    fn foreign_or_incomplete_secret_is_refused() {
        let (_, good) = secret();
        let other = PodLocation {
            uid: "1-2-4".into(),
            ..location()
        };
        assert!(decode(&good, &other).is_err());
        for missing in [KEY, RECORD] {
            let mut bad = good.clone();
            bad.data.get_or_insert_default().remove(missing);
            let error = decode(&bad, &location()).expect_err(missing);
            assert!(
                error.to_string().contains("Secret sandbox-1-2-3"),
                "{error}"
            );
        }
        let mut short = good.clone();
        let data = short.data.get_or_insert_default();
        data.insert(KEY.into(), ByteString(vec![7; 31]));
        assert!(decode(&short, &location()).is_err());
    }
}
