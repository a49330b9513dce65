//! Compares two pods field by field.

use std::fmt;

use serde_json::{Map, Value};

use super::rules::{AdmissionRule, rule};
use crate::annotations::is_harmless;
use crate::quantity::thousandths;

/// The most characters of a value in a message.
const MAX_SHOWN: usize = 80;

/// Lists whose elements have names: path, name field, and what an element is called.
const NAMED: &[(&str, &str, &str)] = &[
    ("spec.containers", "name", "container"),
    ("spec.initContainers", "name", "init container"),
    ("spec.ephemeralContainers", "name", "ephemeral container"),
    ("spec.volumes", "name", "volume"),
    ("spec.containers[].volumeMounts", "mountPath", "mount"),
    ("spec.initContainers[].volumeMounts", "mountPath", "mount"),
];

/// Prefixes of names that known injectors add.
const KNOWN: &[(&str, &str)] = &[
    ("istio-", "Istio's sidecar injector"),
    ("linkerd-", "Linkerd's proxy injector"),
    ("vault-agent", "Vault's agent injector"),
    ("kube-api-access-", "the admission plugin ServiceAccount"),
    (
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "the admission plugin ServiceAccount",
    ),
    ("aws-iam-token", "EKS' pod identity webhook"),
    ("azure-identity-token", "Azure's workload identity webhook"),
];

/// The description of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodDifference(String);

impl fmt::Display for PodDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Differences of labels and specification.
pub(super) fn differences(requested: &Value, created: &Value) -> Vec<PodDifference> {
    let mut comparison = PodComparison::default();
    let labels = (
        &requested["metadata"]["labels"],
        &created["metadata"]["labels"],
    );
    comparison.compare(FieldPath::new("metadata.labels"), labels.0, labels.1);
    comparison.compare(FieldPath::new("spec"), &requested["spec"], &created["spec"]);
    comparison.0
}

/// Differences of annotations that may change what a pod may do.
pub(super) fn annotations(requested: &Value, created: &Value) -> Vec<PodDifference> {
    let of = |pod: &Value| pod["metadata"]["annotations"].as_object().cloned();
    let (requested, created) = (
        of(requested).unwrap_or_default(),
        of(created).unwrap_or_default(),
    );
    let mut differences = Vec::new();
    for (name, value) in &created {
        let harmless = is_harmless(name, value.as_str().unwrap_or_default());
        match requested.get(name) {
            Some(same) if same == value => {}
            None if harmless => {}
            _ => differences.push(PodDifference(added(&format!("annotation {name:?}"), name))),
        }
    }
    for name in requested.keys().filter(|name| !created.contains_key(*name)) {
        differences.push(PodDifference(format!(
            "the annotation {name:?} was removed"
        )));
    }
    differences
}

/// The path of a field, for rules and for messages.
#[derive(Debug, Clone)]
struct FieldPath {
    path: String,
    shown: String,
}

impl FieldPath {
    fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            shown: path.to_owned(),
        }
    }

    fn field(&self, name: &str) -> Self {
        Self {
            path: format!("{}.{name}", self.path),
            shown: format!("{}.{name}", self.shown),
        }
    }

    fn element(&self, name: &str) -> Self {
        Self {
            path: format!("{}[]", self.path),
            shown: format!("{}[{name}]", self.shown),
        }
    }
}

#[derive(Debug, Default)]
struct PodComparison(Vec<PodDifference>);

impl PodComparison {
    fn compare(&mut self, path: FieldPath, requested: &Value, created: &Value) {
        if requested == created || (is_empty_value(requested) && is_empty_value(created)) {
            return;
        }
        let rule = rule(&path.path);
        if rule.is_some_and(|rule| allows(rule, requested, created)) {
            return;
        }
        let more = rule == Some(AdmissionRule::More);
        match (requested, created) {
            (Value::Object(requested), Value::Object(created)) => {
                self.objects(&path, requested, created, more)
            }
            (Value::Array(requested), Value::Array(created)) => {
                self.lists(&path, requested, created)
            }
            (Value::Null, Value::Array(created)) => self.lists(&path, &[], created),
            (Value::Array(requested), Value::Null) => self.lists(&path, requested, &[]),
            (Value::Null, Value::Object(created)) => {
                self.objects(&path, &Map::new(), created, more)
            }
            _ => self.differ(&path, requested, created),
        }
    }

    fn objects(
        &mut self,
        path: &FieldPath,
        requested: &Map<String, Value>,
        created: &Map<String, Value>,
        more: bool,
    ) {
        for (name, value) in requested {
            let other = created.get(name).unwrap_or(&Value::Null);
            self.compare(path.field(name), value, other);
        }
        let added = created
            .iter()
            .filter(|(name, _)| !requested.contains_key(*name));
        for (name, value) in added.filter(|_| !more) {
            self.compare(path.field(name), &Value::Null, value);
        }
    }

    fn lists(&mut self, path: &FieldPath, requested: &[Value], created: &[Value]) {
        let named = NAMED.iter().find(|(list, ..)| *list == path.path);
        let Some((_, key, what)) = named else {
            return self.in_order(path, requested, created);
        };
        let name = |element: &Value| element[*key].as_str().unwrap_or_default().to_owned();
        let find = |elements: &[Value], wanted: &str| {
            elements
                .iter()
                .find(|element| name(element) == wanted)
                .cloned()
        };
        for element in requested {
            let name = name(element);
            match find(created, &name) {
                Some(counterpart) => self.compare(path.element(&name), element, &counterpart),
                None => self.0.push(PodDifference(format!(
                    "the {what} {name:?} was removed from {}",
                    path.shown
                ))),
            }
        }
        for element in created {
            let name = name(element);
            if find(requested, &name).is_none() {
                let image = element["image"].as_str();
                let image = image.map_or_else(String::new, |image| format!(" (image {image})"));
                self.0.push(PodDifference(added(
                    &format!("{what} {name:?}{image}"),
                    &name,
                )));
            }
        }
    }

    fn in_order(&mut self, path: &FieldPath, requested: &[Value], created: &[Value]) {
        if requested.len() != created.len() {
            let (requested, created) = (Value::from(requested), Value::from(created));
            return self.differ(path, &requested, &created);
        }
        for (index, (requested, created)) in requested.iter().zip(created).enumerate() {
            self.compare(path.element(&index.to_string()), requested, created);
        }
    }

    fn differ(&mut self, path: &FieldPath, requested: &Value, created: &Value) {
        let place = &path.shown;
        self.0.push(PodDifference(match (requested, created) {
            (Value::Null, created) => {
                format!("{place} is {}, which was not requested", short(created))
            }
            (requested, Value::Null) => {
                format!("{place} is missing; {} was requested", short(requested))
            }
            (requested, created) => {
                format!(
                    "{place} is {} instead of {}",
                    short(created),
                    short(requested)
                )
            }
        }));
    }
}

/// Whether a rule permits this difference.
fn allows(rule: AdmissionRule, requested: &Value, created: &Value) -> bool {
    match rule {
        AdmissionRule::Any => true,
        AdmissionRule::Default(value) => requested.is_null() && created == value,
        AdmissionRule::Stricter(value) => created == value,
        AdmissionRule::Omitted => *requested == Value::Bool(false) && created.is_null(),
        AdmissionRule::Amount => match (requested.as_str(), created.as_str()) {
            (Some(requested), Some(created)) => {
                thousandths(requested).is_some_and(|amount| thousandths(created) == Some(amount))
            }
            _ => false,
        },
        AdmissionRule::Just(field) => {
            let object = created.as_object();
            requested.is_null()
                && object.is_some_and(|created| created.keys().all(|name| name == field))
        }
        // For lists; objects are compared further.
        AdmissionRule::More => match (requested, created) {
            (Value::Null, Value::Array(_)) => true,
            (Value::Array(requested), Value::Array(created)) => {
                requested.iter().all(|element| created.contains(element))
            }
            _ => false,
        },
    }
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty_value),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

/// Describes an addition and its likely origin.
fn added(what: &str, name: &str) -> String {
    let known = KNOWN
        .iter()
        .find(|(beginning, _)| name.starts_with(beginning));
    match known {
        Some((_, who)) => format!("{who} has most likely added the {what}"),
        None => format!("an admission webhook or plugin has added the {what}"),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
