//! Compares two pods field by field.

use std::fmt;

use serde_json::{Map, Value};

use super::rules::{Rule, rule};
use crate::annotations::is_harmless;
use crate::quantity::thousandths;

/// The most characters of a value in a message.
const TOLD: usize = 80;

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
pub(super) struct Difference(String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Differences of labels and specification.
pub(super) fn differences(asked: &Value, found: &Value) -> Vec<Difference> {
    let mut comparison = Comparison::default();
    let labels = (&asked["metadata"]["labels"], &found["metadata"]["labels"]);
    comparison.compare(Place::new("metadata.labels"), labels.0, labels.1);
    comparison.compare(Place::new("spec"), &asked["spec"], &found["spec"]);
    comparison.0
}

/// Differences of annotations that may change what a pod may do.
pub(super) fn annotations(asked: &Value, found: &Value) -> Vec<Difference> {
    let of = |pod: &Value| pod["metadata"]["annotations"].as_object().cloned();
    let (asked, found) = (of(asked).unwrap_or_default(), of(found).unwrap_or_default());
    let mut differences = Vec::new();
    for (name, value) in &found {
        let harmless = is_harmless(name, value.as_str().unwrap_or_default());
        match asked.get(name) {
            Some(same) if same == value => {}
            None if harmless => {}
            _ => differences.push(Difference(added(&format!("annotation {name:?}"), name))),
        }
    }
    for name in asked.keys().filter(|name| !found.contains_key(*name)) {
        differences.push(Difference(format!(
            "the annotation {name:?} was taken away"
        )));
    }
    differences
}

/// The path of a field, for rules and for messages.
#[derive(Debug, Clone)]
struct Place {
    path: String,
    shown: String,
}

impl Place {
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
struct Comparison(Vec<Difference>);

impl Comparison {
    fn compare(&mut self, at: Place, asked: &Value, found: &Value) {
        if asked == found || (says_nothing(asked) && says_nothing(found)) {
            return;
        }
        let rule = rule(&at.path);
        if rule.is_some_and(|rule| allows(rule, asked, found)) {
            return;
        }
        let more = rule == Some(Rule::More);
        match (asked, found) {
            (Value::Object(asked), Value::Object(found)) => self.objects(&at, asked, found, more),
            (Value::Array(asked), Value::Array(found)) => self.lists(&at, asked, found),
            (Value::Null, Value::Array(found)) => self.lists(&at, &[], found),
            (Value::Array(asked), Value::Null) => self.lists(&at, asked, &[]),
            (Value::Null, Value::Object(found)) => self.objects(&at, &Map::new(), found, more),
            _ => self.differ(&at, asked, found),
        }
    }

    fn objects(
        &mut self,
        at: &Place,
        asked: &Map<String, Value>,
        found: &Map<String, Value>,
        more: bool,
    ) {
        for (name, value) in asked {
            let other = found.get(name).unwrap_or(&Value::Null);
            self.compare(at.field(name), value, other);
        }
        let added = found.iter().filter(|(name, _)| !asked.contains_key(*name));
        for (name, value) in added.filter(|_| !more) {
            self.compare(at.field(name), &Value::Null, value);
        }
    }

    fn lists(&mut self, at: &Place, asked: &[Value], found: &[Value]) {
        let named = NAMED.iter().find(|(path, ..)| *path == at.path);
        let Some((_, key, what)) = named else {
            return self.in_order(at, asked, found);
        };
        let name = |element: &Value| element[*key].as_str().unwrap_or_default().to_owned();
        let of = |elements: &[Value], wanted: &str| {
            let mut alike = elements.iter().filter(|one| name(one) == wanted);
            alike.next().cloned()
        };
        for element in asked {
            let name = name(element);
            match of(found, &name) {
                Some(other) => self.compare(at.element(&name), element, &other),
                None => self.0.push(Difference(format!(
                    "the {what} {name:?} was taken away from {}",
                    at.shown
                ))),
            }
        }
        for element in found {
            let name = name(element);
            if of(asked, &name).is_none() {
                let image = element["image"].as_str();
                let image = image.map_or_else(String::new, |image| format!(" (image {image})"));
                self.0
                    .push(Difference(added(&format!("{what} {name:?}{image}"), &name)));
            }
        }
    }

    fn in_order(&mut self, at: &Place, asked: &[Value], found: &[Value]) {
        if asked.len() != found.len() {
            let (asked, found) = (Value::from(asked), Value::from(found));
            return self.differ(at, &asked, &found);
        }
        for (index, (asked, found)) in asked.iter().zip(found).enumerate() {
            self.compare(at.element(&index.to_string()), asked, found);
        }
    }

    fn differ(&mut self, at: &Place, asked: &Value, found: &Value) {
        let place = &at.shown;
        self.0.push(Difference(match (asked, found) {
            (Value::Null, found) => {
                format!("{place} is {}, and was not asked for", short(found))
            }
            (asked, Value::Null) => {
                format!("{place} is missing; {} was asked for", short(asked))
            }
            (asked, found) => {
                format!("{place} is {} instead of {}", short(found), short(asked))
            }
        }));
    }
}

/// Whether a rule permits this difference.
fn allows(rule: Rule, asked: &Value, found: &Value) -> bool {
    match rule {
        Rule::Any => true,
        Rule::Default(value) => asked.is_null() && found == value,
        Rule::Stricter(value) => found == value,
        Rule::Omitted => *asked == Value::Bool(false) && found.is_null(),
        Rule::Amount => match (asked.as_str(), found.as_str()) {
            (Some(asked), Some(found)) => {
                thousandths(asked).is_some_and(|amount| thousandths(found) == Some(amount))
            }
            _ => false,
        },
        Rule::Just(field) => {
            let object = found.as_object();
            asked.is_null() && object.is_some_and(|found| found.keys().all(|name| name == field))
        }
        // For lists; objects are compared further.
        Rule::More => match (asked, found) {
            (Value::Null, Value::Array(_)) => true,
            (Value::Array(asked), Value::Array(found)) => {
                asked.iter().all(|element| found.contains(element))
            }
            _ => false,
        },
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(says_nothing),
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
    match text.char_indices().nth(TOLD) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
