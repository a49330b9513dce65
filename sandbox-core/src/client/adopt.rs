//! Running code in containers that this library did not create.

use super::{SandboxClient, not_created, warn_once};
use crate::audit::{AuditEvent, Auditor};
use crate::spi::unsupported;
use crate::{Error, ErrorKind, ImageRetention, Result, SandboxHandle, SandboxSpec, admission};

impl SandboxClient {
    /// Enters a running container, given by its id or name.
    ///
    /// Dropping the handle ends what was started through it, and removes the agent from the
    /// container. The container itself is never stopped, changed or removed. Most enforcement was
    /// decided when the container was created, so little is enforced. As for
    /// [`SandboxClient::create`], the policy must list what may be unenforced.
    ///
    /// Of the specification, these fields apply: name (the handle's), environment, working folder,
    /// user, memory and cpus. Without a user, code runs as the container's user.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotEnforceable`], [`ErrorKind::SandboxNotFound`], [`ErrorKind::SandboxEnded`] if
    /// the container does not run, [`ErrorKind::InvalidSpec`] for fields that only a new sandbox can
    /// have, and [`ErrorKind::Unsupported`] on tiers without containers.
    pub async fn adopt(&self, container: &str, spec: &SandboxSpec) -> Result<SandboxHandle> {
        let auditor = self.auditor(spec);
        let adopted = self.adopt_audited(container, spec, &auditor).await;
        adopted.inspect_err(|error| not_created(&auditor, error))
    }

    async fn adopt_audited(
        &self,
        container: &str,
        spec: &SandboxSpec,
        auditor: &Auditor,
    ) -> Result<SandboxHandle> {
        check_adoptable(spec)?;
        let plan = self.plan(spec)?;
        let adoption = self.backend.adoption();
        let adoption = adoption.ok_or_else(|| unsupported("adopt container", self.tier()))?;
        if self.applies_policy {
            let report = adoption.assess_adopted(container, &plan).await?;
            admission::admit(self.tier(), &plan, &self.policy, &report)?;
            auditor.tell(|| AuditEvent::Admitted {
                enforcement: report,
            });
        } else {
            warn_once(self.tier());
        }
        let instance = adoption.adopt(container, &plan).await?;
        Ok(SandboxHandle::new(self.admitted(plan, instance).await?))
    }
}

/// Refuses fields that an existing container cannot be given.
fn check_adoptable(spec: &SandboxSpec) -> Result<()> {
    let requested = [
        ("image", spec.image.is_some()),
        ("pull", spec.pull.is_some()),
        (
            "image_retention",
            spec.image_retention != ImageRetention::Keep,
        ),
        ("writable_root", spec.writable_root),
        ("workspace", spec.workspace.is_some()),
        ("mounts", !spec.mounts.is_empty()),
        ("storage", !spec.storage.is_empty()),
        ("secrets", !spec.secrets.is_empty()),
        ("egress", spec.egress.is_some()),
        ("labels", !spec.labels.is_empty()),
        ("detached", spec.detached),
    ];
    match requested.iter().find(|(_, requested)| *requested) {
        None => Ok(()),
        Some((field, _)) => Err(Error::new(
            ErrorKind::InvalidSpec,
            "adopt container",
            format!("{field}: an existing container cannot be given one"),
        )
        .with_fix(format!("leave {field} out, or create a sandbox"))),
    }
}
