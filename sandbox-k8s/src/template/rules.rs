//! The fields that a template may set. All others are refused.

use sandbox_core::{Error, Result};
use serde_json::{Map, Value};

use super::refused;
use crate::annotations::is_harmless;
use crate::labels;
use crate::lowering::CONTAINER;

/// The permitted values of a field.
#[derive(Debug, Clone, Copy)]
enum TemplateRule {
    /// Any value.
    Any,
    /// Only `false`, which holds anyway. Holds the reason why `true` is refused.
    OnlyFalse(&'static str),
    /// Only the first value. The second is the reason why others are refused.
    Only(&'static str, &'static str),
    /// No value, for this reason.
    Never(&'static str),
}

use TemplateRule::{Any, Never, Only, OnlyFalse};

/// Fields of the pod's specification.
const SPEC: &[(&str, TemplateRule)] = &[
    ("affinity", Any),
    ("imagePullSecrets", Any),
    ("nodeSelector", Any),
    ("preemptionPolicy", Any),
    ("priorityClassName", Any),
    ("runtimeClassName", Any),
    ("schedulerName", Any),
    ("serviceAccountName", Any),
    ("tolerations", Any),
    ("topologySpreadConstraints", Any),
    // Checked separately.
    ("containers", Any),
    (
        "hostNetwork",
        OnlyFalse("would give code the node's network"),
    ),
    ("hostPID", OnlyFalse("would show code the node's processes")),
    (
        "hostIPC",
        OnlyFalse("would give code the node's shared memory"),
    ),
    (
        "hostUsers",
        Never("the user namespace of a pod is not set by a template"),
    ),
    (
        "shareProcessNamespace",
        OnlyFalse("would make another program the first of the pod, which the agent has to be"),
    ),
    (
        "automountServiceAccountToken",
        OnlyFalse("would give the pod a key to the API server"),
    ),
    (
        "enableServiceLinks",
        OnlyFalse("would tell code the cluster's services"),
    ),
    (
        "restartPolicy",
        Only("Never", "an ended sandbox does not restart"),
    ),
    (
        "initContainers",
        Never("would start a program without any restrictions"),
    ),
    (
        "ephemeralContainers",
        Never("would start a program without any restrictions"),
    ),
    (
        "volumes",
        Never("would add storage that the policy does not limit"),
    ),
    (
        "securityContext",
        Never("the profile sets users, capabilities and filters"),
    ),
    (
        "activeDeadlineSeconds",
        Never("the specification's lifetime sets it"),
    ),
    (
        "terminationGracePeriodSeconds",
        Never("a sandbox ends at once"),
    ),
    (
        "dnsPolicy",
        Never("the network policy decides name resolution"),
    ),
    (
        "dnsConfig",
        Never("the network policy decides name resolution"),
    ),
    (
        "hostAliases",
        Never("the network policy decides name resolution"),
    ),
    (
        "nodeName",
        Never("would go past the scheduler; use `nodeSelector`"),
    ),
    ("os", Never("sandboxes need Linux")),
    (
        "resources",
        Never("the specification sets memory and processors"),
    ),
];

/// Fields of the one container.
const MAIN: &[(&str, TemplateRule)] = &[
    ("name", Any),
    // Checked separately.
    ("env", Any),
    ("envFrom", Never("a template lists each variable (`env`)")),
    (
        "image",
        Never("the specification or the configuration names the image"),
    ),
    (
        "imagePullPolicy",
        Never("the specification or the configuration sets when to pull"),
    ),
    ("command", Never("the container runs the agent")),
    ("args", Never("the container runs the agent")),
    (
        "workingDir",
        Never("the specification sets the working directory"),
    ),
    ("ports", Never("nothing listens in a sandbox")),
    (
        "resources",
        Never("the specification sets memory and processors"),
    ),
    (
        "volumeMounts",
        Never("would add storage that the policy does not limit"),
    ),
    (
        "volumeDevices",
        Never("would add storage that the policy does not limit"),
    ),
    (
        "securityContext",
        Never("the profile sets users, capabilities and filters"),
    ),
    (
        "lifecycle",
        Never("would start a program without any restrictions"),
    ),
    (
        "livenessProbe",
        Never("would start a program without any restrictions"),
    ),
    (
        "readinessProbe",
        Never("would start a program without any restrictions"),
    ),
    (
        "startupProbe",
        Never("would start a program without any restrictions"),
    ),
    ("stdin", OnlyFalse("the agent does not use it")),
    ("tty", OnlyFalse("the agent does not use it")),
    (
        "terminationMessagePath",
        Never("code must not reach that file"),
    ),
];

/// Fields of the metadata.
const METADATA: &[(&str, TemplateRule)] = &[
    ("labels", Any),
    ("annotations", Any),
    ("name", Never("a pod is named after its sandbox")),
    ("generateName", Never("a pod is named after its sandbox")),
    ("namespace", Never("the configuration names the namespace")),
];

/// Refuses fields that a template may not set.
///
/// # Errors
///
/// `InvalidSpec` with the first such field.
pub(super) fn check(template: &Value) -> Result<()> {
    fields(template, "", &[("metadata", Any), ("spec", Any)])?;
    let metadata = &template["metadata"];
    fields(metadata, "metadata", METADATA)?;
    for (path, names) in [
        ("labels", &metadata["labels"]),
        ("annotations", &metadata["annotations"]),
    ] {
        for name in keys(names) {
            if name.starts_with(labels::PREFIX) {
                return Err(field(
                    &format!("metadata.{path}[{name:?}]"),
                    "names that begin with \"sandbox.\" are reserved",
                ));
            }
        }
    }
    for (name, value) in metadata["annotations"].as_object().into_iter().flatten() {
        if !is_harmless(name, value.as_str().unwrap_or_default()) {
            return Err(field(
                &format!("metadata.annotations[{name:?}]"),
                "is not a known harmless annotation: it may change filters, networks, runtimes or sidecars",
            ));
        }
    }
    fields(&template["spec"], "spec", SPEC)?;
    containers(&template["spec"]["containers"])
}

fn containers(containers: &Value) -> Result<()> {
    let none = Vec::new();
    for (index, container) in containers.as_array().unwrap_or(&none).iter().enumerate() {
        let path = format!("spec.containers[{index}]");
        let name = container
            .get("name")
            .map_or(CONTAINER, |name| name.as_str().unwrap_or_default());
        if index > 0 || name != CONTAINER {
            return Err(field(
                &path,
                "would start a program without any restrictions; the only container is `sandbox`",
            ));
        }
        fields(container, &path, MAIN)?;
        for (index, variable) in container["env"]
            .as_array()
            .unwrap_or(&none)
            .iter()
            .enumerate()
        {
            let path = format!("{path}.env[{index}]");
            fields(
                variable,
                &path,
                &[("name", Any), ("value", Any), ("valueFrom", Any)],
            )?;
            fields(
                &variable["valueFrom"],
                &format!("{path}.valueFrom"),
                &[
                    ("configMapKeyRef", Any),
                    ("fieldRef", Any),
                    ("resourceFieldRef", Any),
                    (
                        "secretKeyRef",
                        Never(
                            "a secret in a pod's environment is not secret; use the specification's secrets",
                        ),
                    ),
                ],
            )?;
        }
    }
    Ok(())
}

/// Checks the fields of an object against rules. Other values are left to deserialization.
fn fields(value: &Value, path: &str, rules: &[(&str, TemplateRule)]) -> Result<()> {
    for (name, value) in value.as_object().into_iter().flatten() {
        let at = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let rule = rules
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, rule)| *rule);
        match rule {
            Some(Any) => {}
            Some(OnlyFalse(_)) if *value == Value::Bool(false) => {}
            Some(Only(only, _)) if value == only => {}
            Some(OnlyFalse(reason) | Only(_, reason) | Never(reason)) => {
                return Err(field(&at, reason));
            }
            None => return Err(field(&at, "is not a field that a template may set")),
        }
    }
    Ok(())
}

fn field(path: &str, reason: &str) -> Error {
    refused(format!("{path}: {reason}")).with_fix(
        "leave it out: a template sets labels, annotations, where a pod may run (selectors, tolerations, affinity, classes), pull secrets and the agent's environment",
    )
}

fn keys(value: &Value) -> impl Iterator<Item = &String> {
    value.as_object().into_iter().flat_map(Map::keys)
}

/// Removes empty values: tools write `creationTimestamp: null` and `status: {}`.
pub(super) fn without_empty_values(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .map(|(name, value)| (name, without_empty_values(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty_value(value)).collect())
        }
        // Empty elements stay: `emptyDir: {}` is part of a named element.
        Value::Array(elements) => {
            Value::Array(elements.into_iter().map(without_empty_values).collect())
        }
        other => other,
    }
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

/// Adds the container's name, which the type requires and a template may omit.
pub(super) fn with_name(mut value: Value) -> Value {
    let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) else {
        return value;
    };
    let containers = spec
        .entry("containers")
        .or_insert_with(|| Value::Array(Vec::new()));
    for container in containers.as_array_mut().into_iter().flatten() {
        if let Some(container) = container.as_object_mut() {
            container.entry("name").or_insert_with(|| CONTAINER.into());
        }
    }
    value
}

/// The path of the first field in `given` that `known` lacks or has with another value.
pub(super) fn unknown_field(given: &Value, known: &Value, path: &str) -> Option<String> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => given.iter().find_map(|(name, value)| {
            let at = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            match known.get(name) {
                Some(known) => unknown_field(value, known, &at),
                None => Some(at),
            }
        }),
        (Value::Array(given), Value::Array(known)) if given.len() == known.len() => {
            let pairs = given.iter().zip(known).enumerate();
            pairs.into_iter().find_map(|(index, (given, known))| {
                unknown_field(given, known, &format!("{path}[{index}]"))
            })
        }
        _ => (given != known).then(|| path.to_owned()),
    }
}
