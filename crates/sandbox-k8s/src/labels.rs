//! The labels and annotations by which our pods are known.

use std::collections::BTreeMap;

use sandbox_core::{Error, ErrorKind, Plan, Result};

use crate::TIER;

/// What every label of ours begins with; a specification may not use it.
const PREFIX: &str = "sandbox.";

/// The tier: everything that has this label is ours.
pub(crate) const OURS: &str = "sandbox.tier";

/// The version of this crate that made it.
const VERSION: &str = "sandbox.version";

/// The name of the sandbox: an annotation, since it may end like no label may.
const NAME: &str = "sandbox.name";

/// The specification's labels and ours.
///
/// # Errors
///
/// `InvalidSpec` for a label of the specification that looks like ours. What is no label for a cluster, the cluster refuses.
pub(crate) fn labels(plan: &Plan) -> Result<BTreeMap<String, String>> {
    if let Some(name) = plan.labels.keys().find(|name| name.starts_with(PREFIX)) {
        let context = format!("label {name:?}: names that begin with {PREFIX:?} are reserved");
        return Err(Error::new(ErrorKind::InvalidSpec, "create sandbox", context).on(TIER));
    }
    let mut labels = plan.labels.clone();
    labels.extend(ours());
    Ok(labels)
}

/// The labels of everything that is ours.
pub(crate) fn ours() -> [(String, String); 2] {
    [
        (OURS.to_owned(), TIER.to_owned()),
        (VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

/// What stands beside the labels.
pub(crate) fn annotations(plan: &Plan) -> BTreeMap<String, String> {
    BTreeMap::from([(NAME.to_owned(), plan.name.clone())])
}

/// What selects everything that is ours.
pub(crate) fn selector() -> String {
    format!("{OURS}={TIER}")
}
