//! The labels and annotations that identify our pods.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{Error, ErrorKind, Plan, Result};
use serde_json::Value;

use crate::TIER;

/// The reserved prefix of our labels.
pub(crate) const PREFIX: &str = "sandbox.";

/// The tier. Every object that we create has this label.
pub(crate) const TIER_LABEL: &str = "sandbox.tier";

/// The intended network of a pod, which NetworkPolicies select by.
pub(crate) const NETWORK: &str = "sandbox.network";

/// The value of [`NETWORK`] for a pod without network.
pub(crate) const DENIED: &str = "denied";

/// The client that created a pod. Its watch selects by this label.
pub(crate) const CLIENT: &str = "sandbox.client";

/// The version of this crate that created a pod.
const VERSION: &str = "sandbox.version";

/// Marks the pods of detached sandboxes.
const DETACHED: &str = "sandbox.detached";

/// The sandbox's name. An annotation, since a sandbox name may end with characters that a label
/// value may not.
const NAME: &str = "sandbox.name";

/// The specification's labels, as JSON. An annotation, since policies, services and webhooks of the
/// cluster select by labels, and the specification's author is not trusted with that.
const LABELS: &str = "sandbox.labels";

/// Identifies the creation of a pod: the only way to find the pod if the API server's response was
/// lost.
const CREATION: &str = "sandbox.creation";

/// For how many seconds the client waits for a pod to run. An annotation that tells later clients
/// when the pod counts as abandoned.
const PATIENCE: &str = "sandbox.patience";

/// The labels of a sandbox's pod, none of which come from the specification.
pub(crate) fn labels(detached: bool) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from(ours());
    if detached {
        labels.insert(DETACHED.to_owned(), "true".to_owned());
    }
    labels
}

/// The annotations of a sandbox's pod.
///
/// # Errors
///
/// `InvalidSpec` if a label of the specification has the reserved prefix.
pub(crate) fn annotations(plan: &Plan, creation: &str) -> Result<BTreeMap<String, String>> {
    if let Some(name) = plan.labels.keys().find(|name| name.starts_with(PREFIX)) {
        let context = format!("label {name:?}: names that begin with {PREFIX:?} are reserved");
        return Err(Error::new(ErrorKind::InvalidSpec, "create sandbox", context).on(TIER));
    }
    let mut annotations = creation_annotations(creation);
    annotations.insert(NAME.to_owned(), plan.name.clone());
    if !plan.labels.is_empty() {
        let labels = plan
            .labels
            .iter()
            .map(|(name, value)| (name.clone(), value.clone().into()));
        let labels = Value::Object(labels.collect());
        annotations.insert(LABELS.to_owned(), labels.to_string());
    }
    Ok(annotations)
}

/// Removes the name and the annotations that differ between all pods.
pub(crate) fn remove_identity(pod: &mut Pod) {
    pod.metadata.name = None;
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|name, _| ![NAME, CREATION].contains(&name.as_str()));
    }
}

/// Labels a pod with its client, so that the client's watch includes it.
pub(crate) fn add_client(pod: &mut Pod, owner: &str) {
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(CLIENT.to_owned(), owner.to_owned());
}

/// Records how long a pod's client waits for it to run: see [`patience`].
pub(crate) fn add_patience(pod: &mut Pod, patience: Duration) {
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(PATIENCE.to_owned(), patience.as_secs().to_string());
}

/// How long a pod's client waits for it to run, if recorded.
pub(crate) fn patience(pod: &Pod) -> Option<Duration> {
    let seconds = annotation(pod, PATIENCE)?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The labels of all our objects.
pub(crate) fn ours() -> [(String, String); 2] {
    [
        (TIER_LABEL.to_owned(), TIER.to_owned()),
        (VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

/// The annotations of a pod that is not a sandbox.
pub(crate) fn creation_annotations(creation: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(CREATION.to_owned(), creation.to_owned())])
}

/// Selects all our objects.
pub(crate) fn selector() -> String {
    format!("{TIER_LABEL}={TIER}")
}

/// Selects the pods of detached sandboxes.
pub(crate) fn detached_selector() -> String {
    format!("{TIER_LABEL}={TIER},{DETACHED}=true")
}

/// The client that created a pod, if recorded.
pub(crate) fn client(pod: &Pod) -> Option<&str> {
    let labels = pod.metadata.labels.as_ref()?;
    labels.get(CLIENT).map(String::as_str)
}

/// The name of a pod's sandbox, if recorded.
pub(crate) fn sandbox_name(pod: &Pod) -> Option<&str> {
    annotation(pod, NAME)
}

/// The creation that a pod resulted from.
pub(crate) fn creation(pod: &Pod) -> Option<&str> {
    annotation(pod, CREATION)
}

/// Whether a pod is ours, detached or not.
pub(crate) fn is_ours(pod: &Pod) -> bool {
    has(pod, TIER_LABEL, TIER)
}

/// Whether a pod is the detached sandbox of this name.
pub(crate) fn is_detached_sandbox(pod: &Pod, name: &str) -> bool {
    is_ours(pod) && is_detached(pod) && sandbox_name(pod) == Some(name)
}

/// Whether a pod of ours is a detached sandbox.
pub(crate) fn is_detached(pod: &Pod) -> bool {
    has(pod, DETACHED, "true")
}

/// The labels that the specification gave a pod of ours. Anyone who may change the pod may change
/// them; an invalid list counts as empty.
pub(crate) fn specification_labels(pod: &Pod) -> BTreeMap<String, String> {
    let written = annotation(pod, LABELS);
    written
        .and_then(|written| serde_json::from_str(written).ok())
        .unwrap_or_default()
}

fn has(pod: &Pod, label: &str, value: &str) -> bool {
    let labels = pod.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(label))
        .map(String::as_str)
        == Some(value)
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::tests::plan as lowered;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    #[test]
    fn specification_labels_round_trip() {
        let given = [
            ("app", "api"),
            ("azure.workload.identity/use", "true"),
            ("a \"b\"", "ü"),
        ];
        let spec = given
            .iter()
            .fold(SandboxSpec::new("sb"), |spec, (name, value)| {
                spec.label(*name, *value)
            });
        let plan = lowered(&spec, &CapabilityPolicy::new());
        let mut pod = Pod::default();
        pod.metadata.annotations = Some(annotations(&plan, "c").expect("annotations"));
        pod.metadata.labels = Some(labels(true));
        assert_eq!(specification_labels(&pod), plan.labels);
        let names = pod.metadata.labels.iter().flatten().map(|(name, _)| name);
        assert!(names.clone().count() == 3 && names.clone().all(|name| name.starts_with(PREFIX)));
        assert!(specification_labels(&Pod::default()).is_empty());
        let reserved = SandboxSpec::new("sb").label("sandbox.tier", "x");
        let error = annotations(&lowered(&reserved, &CapabilityPolicy::new()), "c");
        assert_eq!(error.expect_err("reserved").kind(), ErrorKind::InvalidSpec);
    }
}
