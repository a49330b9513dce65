//! The labels that mark our containers, volumes and images.

use std::collections::HashMap;

use sandbox_core::{Error, ErrorKind, Plan, Result};

use crate::Tier;

/// Prefix of all our labels; specifications may not use it.
const PREFIX: &str = "sandbox.";

/// The tier. Marks everything that we create.
pub(crate) const TIER: &str = "sandbox.tier";

/// The name of the sandbox.
pub(crate) const NAME: &str = "sandbox.name";

/// Version of this crate.
pub(crate) const VERSION: &str = "sandbox.version";

/// The process that created the object: [`sandbox_host::Owner`].
pub(crate) const OWNER: &str = "sandbox.owner";

/// The creator's unique token for the object: [`crate::claim::ContainerClaim`].
pub(crate) const TOKEN: &str = "sandbox.token";

/// Present if the sandbox outlives its creator.
pub(crate) const DETACHED: &str = "sandbox.detached";

/// Time to live in seconds since creation.
pub(crate) const LIFETIME: &str = "sandbox.lifetime";

/// The labels of the specification, as a JSON object. A container has those of its image, too.
pub(crate) const SPECIFIED: &str = "sandbox.labels";

/// The host folders that its code can write to, if any.
pub(crate) const WRITABLE_FOLDERS: &str = "sandbox.written";

/// Marks images that we built. Containers inherit their image's labels, so this one says nothing
/// about a container. Images get none of the labels that do.
pub(crate) const BUILT: &str = "sandbox.built";

/// Marks temporary images.
pub(crate) const TEMPORARY: &str = "sandbox.passing";

/// The first image label in our reserved prefix that containers would inherit with a wrong meaning.
pub(crate) fn inherited_reserved<'a>(
    labels: impl IntoIterator<Item = &'a String>,
) -> Option<&'a String> {
    let image_labels = [BUILT, TEMPORARY];
    let mut names = labels.into_iter();
    names.find(|name| name.starts_with(PREFIX) && !image_labels.contains(&name.as_str()))
}

/// The labels of a sandbox's container: the specification's and ours.
///
/// # Errors
///
/// `InvalidSpec` if a label of the specification uses our prefix.
pub(crate) fn of_sandbox(tier: Tier, plan: &Plan) -> Result<HashMap<String, String>> {
    if let Some(name) = plan.labels.keys().find(|name| name.starts_with(PREFIX)) {
        let context = format!("label {name:?}: names that begin with {PREFIX:?} are reserved");
        return Err(Error::new(ErrorKind::InvalidSpec, "create sandbox", context).on(tier));
    }
    let mut labels = managed(tier);
    labels.extend(plan.labels.clone());
    if !plan.labels.is_empty() {
        let specified = serde_json::to_string(&plan.labels).expect("a map of texts");
        labels.insert(SPECIFIED.to_owned(), specified);
    }
    labels.insert(NAME.to_owned(), plan.name.clone());
    if plan.detached {
        labels.insert(DETACHED.to_owned(), "true".to_owned());
    }
    if let Some(lifetime) = plan.lifetime {
        // Rounded up, so the sandbox never ends early.
        let seconds = lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0);
        labels.insert(LIFETIME.to_owned(), seconds.to_string());
    }
    Ok(labels)
}

/// The labels of everything that we create.
pub(crate) fn managed(tier: Tier) -> HashMap<String, String> {
    HashMap::from([
        (TIER.to_owned(), tier.into()),
        (VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::samples;
    use crate::lowering::samples::plan;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    #[test]
    fn reserved_labels_in_a_specification_are_refused() {
        let spec = SandboxSpec::new("sb")
            .label("team", "x")
            .label("sandbox.tier", "local");
        let error = of_sandbox(samples::TIER, &plan(&spec, &CapabilityPolicy::new()))
            .expect_err("reserved");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    }
}
