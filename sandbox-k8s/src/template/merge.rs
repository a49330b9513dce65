//! Merges a template into a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use sandbox_core::{Error, ErrorKind, Result};

use super::PodTemplate;
use crate::TIER;
use crate::lower::CONTAINER;

impl PodTemplate {
    /// Adds the template's metadata and scheduling fields to a pod.
    ///
    /// # Errors
    ///
    /// `InvalidSpec` if template and pod set a label, annotation or node selector differently.
    pub(crate) fn place(&self, pod: &mut Pod) -> Result<()> {
        if let Some(metadata) = &self.template.metadata {
            let ours = &mut pod.metadata;
            join(
                "metadata.labels",
                &mut ours.labels,
                metadata.labels.as_ref(),
            )?;
            join(
                "metadata.annotations",
                &mut ours.annotations,
                metadata.annotations.as_ref(),
            )?;
        }
        let (Some(theirs), Some(ours)) = (&self.template.spec, &mut pod.spec) else {
            return Ok(());
        };
        join(
            "spec.nodeSelector",
            &mut ours.node_selector,
            theirs.node_selector.as_ref(),
        )?;
        // Listed one by one: a field that the rules allow must be added here, too.
        let theirs = theirs.clone();
        *ours = PodSpec {
            affinity: theirs.affinity,
            image_pull_secrets: theirs.image_pull_secrets,
            preemption_policy: theirs.preemption_policy,
            priority_class_name: theirs.priority_class_name,
            runtime_class_name: theirs.runtime_class_name,
            scheduler_name: theirs.scheduler_name,
            service_account_name: theirs.service_account_name,
            tolerations: theirs.tolerations,
            topology_spread_constraints: theirs.topology_spread_constraints,
            ..std::mem::take(ours)
        };
        Ok(())
    }

    /// Sets the agent's environment.
    pub(crate) fn dress(&self, pod: &mut Pod) {
        let theirs = self.template.spec.iter().flat_map(|spec| &spec.containers);
        let environment = theirs.filter_map(|container| container.env.clone()).next();
        let ours = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers);
        for container in ours.filter(|container| container.name == CONTAINER) {
            container.env.clone_from(&environment);
        }
    }
}

/// Adds entries to ours; a conflict is an error.
fn join(
    place: &str,
    ours: &mut Option<BTreeMap<String, String>>,
    theirs: Option<&BTreeMap<String, String>>,
) -> Result<()> {
    let Some(theirs) = theirs else {
        return Ok(());
    };
    let ours = ours.get_or_insert_default();
    for (name, value) in theirs {
        match ours.get(name) {
            Some(other) if other != value => {
                let context = format!(
                    "{place}[{name:?}]: the pod template says {value:?}, the sandbox {other:?}"
                );
                return Err(
                    Error::new(ErrorKind::InvalidSpec, "create sandbox", context)
                        .on(TIER)
                        .with_fix("leave it out of one of them"),
                );
            }
            _ => ours.insert(name.clone(), value.clone()),
        };
    }
    Ok(())
}
