//! Checks that the created pod is the requested one.
//!
//! Admission plugins and webhooks may change anything: add a container, a volume with a token, or a
//! label that a policy selects by. So the response is compared with the request, field by field,
//! and again whenever the pod is seen before code runs. [`rules`] lists what servers fill in. Any
//! other difference is an error, and the pod is removed.

mod compare;
mod rules;

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::TIER;
use compare::PodDifference;

/// The most differences in a message.
const MAX_SHOWN: usize = 5;

/// The pod as requested.
#[derive(Debug, Clone)]
pub(crate) struct RequestedPod(Value);

impl RequestedPod {
    /// Records the requested pod.
    ///
    /// # Errors
    ///
    /// If the pod cannot be serialized.
    pub(crate) fn of(pod: &Pod) -> Result<Self> {
        let mut requested = written(pod)?;
        let spec = &mut requested["spec"];
        // Servers set both fields, by default to the namespace's default account. Its token is not
        // mounted.
        let account = spec["serviceAccountName"].as_str().unwrap_or("default");
        let account = Value::from(account);
        spec["serviceAccountName"] = account.clone();
        spec["serviceAccount"] = account;
        Ok(Self(requested))
    }

    /// Compares the request with the response to the creation.
    ///
    /// # Errors
    ///
    /// `SetupFailed` with the differences.
    pub(crate) fn check_answer(&self, made: &Value) -> Result<()> {
        let mut created = compare::differences(&self.0, made);
        created.extend(compare::annotations(&self.0, made));
        outcome(&created)
    }

    /// Compares the request with a later state of the pod. Annotations are ignored, since networks
    /// and controllers annotate existing pods.
    ///
    /// # Errors
    ///
    /// As [`RequestedPod::check_answer`].
    pub(crate) fn check_later(&self, pod: &Pod) -> Result<()> {
        outcome(&compare::differences(&self.0, &written(pod)?))
    }
}

fn written(pod: &Pod) -> Result<Value> {
    serde_json::to_value(pod)
        .map_err(|error| Error::new(ErrorKind::Io, "compare pods", error.to_string()).on(TIER))
}

fn outcome(created: &[PodDifference]) -> Result<()> {
    if created.is_empty() {
        return Ok(());
    }
    let mut words = created.iter().take(MAX_SHOWN).map(ToString::to_string);
    let mut context = format!(
        "the created pod differs from the requested one: {}",
        words.by_ref().collect::<Vec<_>>().join("; ")
    );
    if created.len() > MAX_SHOWN {
        context = format!("{context}; and {} more", created.len() - MAX_SHOWN);
    }
    let context = sandbox_core::spi::escape(&context).to_string();
    Err(Error::new(ErrorKind::SetupFailed, "create pod", context)
        .on(TIER)
        .with_fix(
            "exempt the namespace, or pods with the label sandbox.tier=k8s, from the admission webhook that changes pods (`kubectl get mutatingwebhookconfigurations`); put required labels into the pod template",
        ))
}

#[cfg(test)]
mod tests;
