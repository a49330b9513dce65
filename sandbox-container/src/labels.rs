//! The labels by which our containers and volumes are known.

use std::collections::HashMap;

use sandbox_core::{Error, ErrorKind, Plan, Result};

use crate::Tier;

/// What every label of ours begins with; a specification may not use it.
const PREFIX: &str = "sandbox.";

/// The tier: everything that has this label is ours.
pub(crate) const TIER: &str = "sandbox.tier";

/// The name of the sandbox.
pub(crate) const NAME: &str = "sandbox.name";

/// The version of this crate that made it.
pub(crate) const VERSION: &str = "sandbox.version";

/// The process that made it: [`crate::owner::Owner`].
pub(crate) const OWNER: &str = "sandbox.owner";

/// What that process knows it by: [`crate::owner::Claim`].
pub(crate) const TOKEN: &str = "sandbox.token";

/// Whether it outlives that process: there or not.
pub(crate) const DETACHED: &str = "sandbox.detached";

/// Its time to live, in seconds from its creation on.
pub(crate) const LIFETIME: &str = "sandbox.lifetime";

/// The folders of the host that its code can write to, where there are any.
pub(crate) const WRITTEN: &str = "sandbox.written";

/// What an image has that was built by us. Containers inherit the labels of their image, so this one says nothing of a container,
/// and no image gets the ones that do.
pub(crate) const BUILT: &str = "sandbox.built";

/// What an image has that is only there for a moment.
pub(crate) const PASSING: &str = "sandbox.passing";

/// The first label of an image that containers of it would inherit and that says something of ours.
pub(crate) fn foreign<'a>(labels: impl IntoIterator<Item = &'a String>) -> Option<&'a String> {
    let of_images = [BUILT, PASSING];
    let mut names = labels.into_iter();
    names.find(|name| name.starts_with(PREFIX) && !of_images.contains(&name.as_str()))
}

/// The labels of a sandbox's container: the specification's and ours.
///
/// # Errors
///
/// `InvalidSpec` for a label of the specification that looks like ours.
pub(crate) fn of(tier: Tier, plan: &Plan) -> Result<HashMap<String, String>> {
    if let Some(name) = plan.labels.keys().find(|name| name.starts_with(PREFIX)) {
        let context = format!("label {name:?}: names that begin with {PREFIX:?} are reserved");
        return Err(Error::new(ErrorKind::InvalidSpec, "create sandbox", context).on(tier));
    }
    let mut labels = ours(tier);
    labels.extend(plan.labels.clone());
    labels.insert(NAME.to_owned(), plan.name.clone());
    if plan.detached {
        labels.insert(DETACHED.to_owned(), "true".to_owned());
    }
    if let Some(lifetime) = plan.lifetime {
        // Not before its end.
        let seconds = lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0);
        labels.insert(LIFETIME.to_owned(), seconds.to_string());
    }
    Ok(labels)
}

/// The labels of anything that is ours.
pub(crate) fn ours(tier: Tier) -> HashMap<String, String> {
    HashMap::from([
        (TIER.to_owned(), tier.into()),
        (VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::samples;
    use crate::lower::samples::plan;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    #[test]
    fn labels_of_a_specification_cannot_pass_for_ours() {
        let spec = SandboxSpec::new("sb")
            .label("team", "x")
            .label("sandbox.tier", "local");
        let error =
            of(samples::TIER, &plan(&spec, &CapabilityPolicy::new())).expect_err("reserved");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    }
}
