//! The fields that a template may set. All others are refused.

use sandbox_core::{Error, Result};
use serde_json::{Map, Value};

use super::refused;
use crate::annotations::is_harmless;
use crate::labels;
use crate::lower::CONTAINER;

/// The permitted values of a field.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Any value.
    Free,
    /// Only `false`, which holds anyway. Holds the reason why `true` is refused.
    Off(&'static str),
    /// Only the first value. The second is the reason why others are refused.
    Only(&'static str, &'static str),
    /// No value, for this reason.
    Never(&'static str),
}

use Rule::{Free, Never, Off, Only};

/// Fields of the pod's specification.
const SPEC: &[(&str, Rule)] = &[
    ("affinity", Free),
    ("imagePullSecrets", Free),
    ("nodeSelector", Free),
    ("preemptionPolicy", Free),
    ("priorityClassName", Free),
    ("runtimeClassName", Free),
    ("schedulerName", Free),
    ("serviceAccountName", Free),
    ("tolerations", Free),
    ("topologySpreadConstraints", Free),
    // Checked separately.
    ("containers", Free),
    ("hostNetwork", Off("would give code the node's network")),
    ("hostPID", Off("would show code the node's processes")),
    ("hostIPC", Off("would give code the node's shared memory")),
    (
        "hostUsers",
        Never("the user namespace of a pod is not set by a template"),
    ),
    (
        "shareProcessNamespace",
        Off("would make another program the first of the pod, which the agent has to be"),
    ),
    (
        "automountServiceAccountToken",
        Off("would give the pod a key to the API server"),
    ),
    (
        "enableServiceLinks",
        Off("would tell code the cluster's services"),
    ),
    (
        "restartPolicy",
        Only("Never", "a sandbox that has ended does not begin again"),
    ),
    (
        "initContainers",
        Never("would start a program that is under none of the restrictions"),
    ),
    (
        "ephemeralContainers",
        Never("would start a program that is under none of the restrictions"),
    ),
    (
        "volumes",
        Never("would bring storage into the pod that the policy does not bound"),
    ),
    (
        "securityContext",
        Never("users, capabilities and filters are the profile's"),
    ),
    (
        "activeDeadlineSeconds",
        Never("the specification's lifetime says that"),
    ),
    (
        "terminationGracePeriodSeconds",
        Never("a sandbox ends at once"),
    ),
    ("dnsPolicy", Never("names are the network policy's")),
    ("dnsConfig", Never("names are the network policy's")),
    ("hostAliases", Never("names are the network policy's")),
    (
        "nodeName",
        Never("would go past the scheduler; use `nodeSelector`"),
    ),
    ("os", Never("pods are Linux's")),
    (
        "resources",
        Never("the specification says memory and processors"),
    ),
];

/// Fields of the one container.
const MAIN: &[(&str, Rule)] = &[
    ("name", Free),
    // Checked separately.
    ("env", Free),
    ("envFrom", Never("a template names each variable (`env`)")),
    (
        "image",
        Never("the specification or the configuration names the image"),
    ),
    (
        "imagePullPolicy",
        Never("the specification or the configuration says when to pull"),
    ),
    ("command", Never("the agent is what runs")),
    ("args", Never("the agent is what runs")),
    (
        "workingDir",
        Never("the specification says where code runs"),
    ),
    ("ports", Never("nothing listens in a sandbox")),
    (
        "resources",
        Never("the specification says memory and processors"),
    ),
    (
        "volumeMounts",
        Never("would bring storage into the pod that the policy does not bound"),
    ),
    (
        "volumeDevices",
        Never("would bring storage into the pod that the policy does not bound"),
    ),
    (
        "securityContext",
        Never("users, capabilities and filters are the profile's"),
    ),
    (
        "lifecycle",
        Never("would start a program that is under none of the restrictions"),
    ),
    (
        "livenessProbe",
        Never("would start a program that is under none of the restrictions"),
    ),
    (
        "readinessProbe",
        Never("would start a program that is under none of the restrictions"),
    ),
    (
        "startupProbe",
        Never("would start a program that is under none of the restrictions"),
    ),
    ("stdin", Off("the agent's stream is another")),
    ("tty", Off("the agent's stream is another")),
    (
        "terminationMessagePath",
        Never("code must not reach that file"),
    ),
];

/// Fields of the metadata.
const METADATA: &[(&str, Rule)] = &[
    ("labels", Free),
    ("annotations", Free),
    ("name", Never("a pod is named for its sandbox")),
    ("generateName", Never("a pod is named for its sandbox")),
    ("namespace", Never("the configuration names the namespace")),
];

/// Refuses fields that a template may not set.
///
/// # Errors
///
/// `InvalidSpec` with the first such field.
pub(super) fn check(template: &Value) -> Result<()> {
    fields(template, "", &[("metadata", Free), ("spec", Free)])?;
    let metadata = &template["metadata"];
    fields(metadata, "metadata", METADATA)?;
    for (place, names) in [
        ("labels", &metadata["labels"]),
        ("annotations", &metadata["annotations"]),
    ] {
        for name in keys(names) {
            if name.starts_with(labels::PREFIX) {
                return Err(field(
                    &format!("metadata.{place}[{name:?}]"),
                    "names that begin with \"sandbox.\" are reserved",
                ));
            }
        }
    }
    for (name, value) in metadata["annotations"].as_object().into_iter().flatten() {
        if !is_harmless(name, value.as_str().unwrap_or_default()) {
            return Err(field(
                &format!("metadata.annotations[{name:?}]"),
                "is not among the annotations that are known to change nothing of what a pod may do (filters, networks, runtimes, sidecars)",
            ));
        }
    }
    fields(&template["spec"], "spec", SPEC)?;
    containers(&template["spec"]["containers"])
}

fn containers(containers: &Value) -> Result<()> {
    let none = Vec::new();
    for (index, container) in containers.as_array().unwrap_or(&none).iter().enumerate() {
        let place = format!("spec.containers[{index}]");
        let name = container
            .get("name")
            .map_or(CONTAINER, |name| name.as_str().unwrap_or_default());
        if index > 0 || name != CONTAINER {
            return Err(field(
                &place,
                "would start a program that is under none of the restrictions; the only container is `sandbox`",
            ));
        }
        fields(container, &place, MAIN)?;
        for (index, variable) in container["env"]
            .as_array()
            .unwrap_or(&none)
            .iter()
            .enumerate()
        {
            let place = format!("{place}.env[{index}]");
            fields(
                variable,
                &place,
                &[("name", Free), ("value", Free), ("valueFrom", Free)],
            )?;
            fields(
                &variable["valueFrom"],
                &format!("{place}.valueFrom"),
                &[
                    ("configMapKeyRef", Free),
                    ("fieldRef", Free),
                    ("resourceFieldRef", Free),
                    (
                        "secretKeyRef",
                        Never(
                            "a secret in the environment of a pod is no secret; use the specification's secrets",
                        ),
                    ),
                ],
            )?;
        }
    }
    Ok(())
}

/// Checks the fields of an object against rules. Other values are left to deserialization.
fn fields(value: &Value, place: &str, rules: &[(&str, Rule)]) -> Result<()> {
    for (name, value) in value.as_object().into_iter().flatten() {
        let at = if place.is_empty() {
            name.clone()
        } else {
            format!("{place}.{name}")
        };
        let rule = rules
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, rule)| *rule);
        match rule {
            Some(Free) => {}
            Some(Off(_)) if *value == Value::Bool(false) => {}
            Some(Only(only, _)) if value == only => {}
            Some(Off(reason) | Only(_, reason) | Never(reason)) => return Err(field(&at, reason)),
            None => return Err(field(&at, "is not among what a template may set")),
        }
    }
    Ok(())
}

fn field(place: &str, reason: &str) -> Error {
    refused(format!("{place}: {reason}")).with_fix(
        "leave it out: a template sets labels, annotations, where a pod may run (selectors, tolerations, affinity, classes), pull secrets and the agent's environment",
    )
}

fn keys(value: &Value) -> impl Iterator<Item = &String> {
    value.as_object().into_iter().flat_map(Map::keys)
}

/// Removes empty values: tools write `creationTimestamp: null` and `status: {}`.
pub(super) fn pruned(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().map(|(name, value)| (name, pruned(value)));
            Value::Object(kept.filter(|(_, value)| !says_nothing(value)).collect())
        }
        // Empty elements stay: `emptyDir: {}` is part of a named element.
        Value::Array(elements) => Value::Array(elements.into_iter().map(pruned).collect()),
        other => other,
    }
}

fn says_nothing(value: &Value) -> bool {
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
pub(super) fn lost(given: &Value, known: &Value, place: &str) -> Option<String> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => given.iter().find_map(|(name, value)| {
            let at = if place.is_empty() {
                name.clone()
            } else {
                format!("{place}.{name}")
            };
            match known.get(name) {
                Some(known) => lost(value, known, &at),
                None => Some(at),
            }
        }),
        (Value::Array(given), Value::Array(known)) if given.len() == known.len() => {
            let pairs = given.iter().zip(known).enumerate();
            pairs.into_iter().find_map(|(index, (given, known))| {
                lost(given, known, &format!("{place}[{index}]"))
            })
        }
        _ => (given != known).then(|| place.to_owned()),
    }
}
