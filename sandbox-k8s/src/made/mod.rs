//! Whether the pod that the cluster has made is the one that was asked for.
//!
//! Between the two stand admission plugins and webhooks, which may change anything: another container, a volume with a token, a label that
//! a policy selects by. So the answer is compared with the request, field by field, and again whenever the pod is seen before code runs.
//! What a server fills in by itself is listed ([`rules`]); whatever else differs is an error, and the pod is removed.

mod compare;
mod rules;

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::TIER;
use compare::Difference;

/// How many differences are told.
const TOLD: usize = 5;

/// A pod as it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Asked(Value);

impl Asked {
    /// Takes down what is asked for.
    ///
    /// # Errors
    ///
    /// When a pod cannot be written down.
    pub(crate) fn of(pod: &Pod) -> Result<Self> {
        let mut asked = written(pod)?;
        let spec = &mut asked["spec"];
        // Both names are set, to the account of the namespace where nobody names one. Its token is another matter.
        let account = spec["serviceAccountName"].as_str().unwrap_or("default");
        let account = Value::from(account);
        spec["serviceAccountName"] = account.clone();
        spec["serviceAccount"] = account;
        Ok(Self(asked))
    }

    /// Compares it with the answer to its creation.
    ///
    /// # Errors
    ///
    /// `SetupFailed` with what differs.
    pub(crate) fn check_answer(&self, made: &Value) -> Result<()> {
        let mut found = compare::differences(&self.0, made);
        found.extend(compare::annotations(&self.0, made));
        outcome(&found)
    }

    /// Compares it with the pod as it is later. Networks and controllers annotate pods that are made; what they say there is not looked at.
    ///
    /// # Errors
    ///
    /// As [`Asked::check_answer`].
    pub(crate) fn check_later(&self, pod: &Pod) -> Result<()> {
        outcome(&compare::differences(&self.0, &written(pod)?))
    }
}

fn written(pod: &Pod) -> Result<Value> {
    serde_json::to_value(pod)
        .map_err(|error| Error::new(ErrorKind::Io, "compare pods", error.to_string()).on(TIER))
}

fn outcome(found: &[Difference]) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let mut words = found.iter().take(TOLD).map(ToString::to_string);
    let mut context = format!(
        "the cluster has made another pod than was asked for: {}",
        words.by_ref().collect::<Vec<_>>().join("; ")
    );
    if found.len() > TOLD {
        context = format!("{context}; and {} more", found.len() - TOLD);
    }
    let context = sandbox_core::escape(&context).to_string();
    Err(Error::new(ErrorKind::SetupFailed, "create pod", context)
        .on(TIER)
        .with_fix(
            "exempt the namespace, or pods with the label sandbox.tier=k8s, from the admission webhook that does it (`kubectl get mutatingwebhookconfigurations`); a label that has to be there belongs into the pod template",
        ))
}

#[cfg(test)]
mod tests;
