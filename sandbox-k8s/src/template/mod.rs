//! Pod templates: a manifest with an operator's requirements for every pod, within our
//! restrictions.

mod merge;
mod rules;

use std::path::Path;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use sandbox_core::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::TIER;

/// The largest manifest, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Additional settings for every pod of a backend: scheduling, metadata, and the agent's
/// environment.
///
/// A template may set `metadata.labels` and `metadata.annotations`, and in `spec`: `nodeSelector`,
/// `tolerations`, `affinity`, `topologySpreadConstraints`, `priorityClassName`, `preemptionPolicy`,
/// `schedulerName`, `runtimeClassName`, `imagePullSecrets`, `serviceAccountName` (whose token is
/// not mounted), and the environment of one container named `sandbox`. Any other field is an error
/// that names it. Fields that state what holds anyway (`hostNetwork: false`) are accepted.
///
/// The container's environment is the agent's. Code gets only the variables of its specification.
#[derive(Debug, Clone, PartialEq)]
pub struct PodTemplate {
    template: PodTemplateSpec,
}

impl PodTemplate {
    /// Reads a file with a `Pod`, a `PodTemplate`, or the bare `metadata` and `spec` of one, in
    /// YAML or JSON.
    ///
    /// # Errors
    ///
    /// `Io` if it cannot be read; otherwise as [`PodTemplate::parse`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let unreadable = |why: String| {
            let context = format!("{}: {why}", path.display());
            Error::new(ErrorKind::Io, "read the pod template", context).on(TIER)
        };
        let size = std::fs::metadata(path)
            .map_err(|error| unreadable(error.to_string()))?
            .len();
        if size > MAX_BYTES {
            return Err(unreadable(format!(
                "{size} bytes are more than {MAX_BYTES}"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&text)
    }

    /// Parses a template from text.
    ///
    /// # Errors
    ///
    /// `InvalidSpec` with the field that a template may not set.
    pub fn parse(text: &str) -> Result<Self> {
        let value = serde_saphyr::from_str::<Value>(text).map_err(|error| {
            refused(format!("it is neither YAML nor JSON: {error}"))
                .with_fix("write one document with `metadata` and `spec`")
        })?;
        Self::of(template_of(value)?)
    }

    /// The runtime class of the pods, if the template names one.
    pub(crate) fn runtime_class(&self) -> Option<&str> {
        self.template.spec.as_ref()?.runtime_class_name.as_deref()
    }

    fn of(value: Value) -> Result<Self> {
        let value = rules::without_empty_values(value);
        rules::check(&value)?;
        let template: PodTemplateSpec = serde_json::from_value(rules::with_name(value.clone()))
            .map_err(|error| refused(error.to_string()))?;
        // Fields that the type does not know would be lost silently.
        let known = serde_json::to_value(&template).map_err(|error| refused(error.to_string()))?;
        if let Some(field) = rules::unknown_field(&value, &known, "") {
            return Err(refused(format!("{field}: unknown field")));
        }
        Ok(Self { template })
    }
}

impl TryFrom<PodTemplateSpec> for PodTemplate {
    type Error = Error;

    fn try_from(template: PodTemplateSpec) -> Result<Self> {
        let value = serde_json::to_value(template).map_err(|error| refused(error.to_string()))?;
        Self::of(value)
    }
}

/// Extracts the template from a document.
fn template_of(value: Value) -> Result<Value> {
    let Value::Object(mut document) = value else {
        return Err(refused(
            "it is not an object with `metadata` and `spec`".into(),
        ));
    };
    let kind = document.remove("kind");
    let version = document.remove("apiVersion");
    let kind = kind.as_ref().map(|kind| kind.as_str().unwrap_or_default());
    if version.is_some_and(|version| version != "v1") {
        return Err(refused("apiVersion: a pod's is `v1`".into()));
    }
    match kind {
        None | Some("Pod") => Ok(Value::Object(document)),
        Some("PodTemplate") => {
            // The object's own name does not concern pods.
            document.remove("metadata");
            let template = document.remove("template").unwrap_or_default();
            match document.keys().next() {
                Some(field) => Err(refused(format!("{field}: a PodTemplate has a `template`"))),
                None => Ok(template),
            }
        }
        Some(kind) => Err(refused(format!(
            "kind: {kind:?} is neither `Pod` nor `PodTemplate`"
        ))),
    }
}

fn refused(context: String) -> Error {
    let context = sandbox_core::spi::escape(&context).to_string();
    Error::new(ErrorKind::InvalidSpec, "read the pod template", context).on(TIER)
}

#[cfg(test)]
mod tests;
