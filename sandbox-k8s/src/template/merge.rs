//! Merges a template into a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use sandbox_core::{Error, ErrorKind, Result};

use super::PodTemplate;
use crate::TIER;
use crate::lowering::CONTAINER;

impl PodTemplate {
    /// Adds the template's metadata and scheduling fields to a pod.
    ///
    /// # Errors
    ///
    /// `InvalidSpec` if template and pod set a label, annotation or node selector differently.
    pub(crate) fn apply_metadata_and_scheduling(&self, pod: &mut Pod) -> Result<()> {
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
        let (Some(template), Some(ours)) = (&self.template.spec, &mut pod.spec) else {
            return Ok(());
        };
        join(
            "spec.nodeSelector",
            &mut ours.node_selector,
            template.node_selector.as_ref(),
        )?;
        // Listed one by one: a field that the rules allow must be added here, too.
        let template = template.clone();
        *ours = PodSpec {
            affinity: template.affinity,
            image_pull_secrets: template.image_pull_secrets,
            preemption_policy: template.preemption_policy,
            priority_class_name: template.priority_class_name,
            runtime_class_name: template.runtime_class_name,
            scheduler_name: template.scheduler_name,
            service_account_name: template.service_account_name,
            tolerations: template.tolerations,
            topology_spread_constraints: template.topology_spread_constraints,
            ..std::mem::take(ours)
        };
        Ok(())
    }

    /// Sets the agent's environment.
    pub(crate) fn apply_environment(&self, pod: &mut Pod) {
        let template = self.template.spec.iter().flat_map(|spec| &spec.containers);
        let environment = template
            .filter_map(|container| container.env.clone())
            .next();
        let ours = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers);
        for container in ours.filter(|container| container.name == CONTAINER) {
            container.env.clone_from(&environment);
        }
    }
}

/// Adds entries to ours; a conflict is an error.
fn join(
    path: &str,
    ours: &mut Option<BTreeMap<String, String>>,
    template: Option<&BTreeMap<String, String>>,
) -> Result<()> {
    let Some(template) = template else {
        return Ok(());
    };
    let ours = ours.get_or_insert_default();
    for (name, value) in template {
        match ours.get(name) {
            Some(existing) if existing != value => {
                let context = format!(
                    "{path}[{name:?}]: the pod template says {value:?}, the sandbox {existing:?}"
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
