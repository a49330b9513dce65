//! Finding sandboxes by their names.

use super::{SandboxClient, own_sandboxes};
use crate::audit::AuditEvent;
use crate::spi::{Found, RecordedSandbox};
use crate::{
    Error, ErrorKind, Result, SandboxHandle, SandboxInfo, SandboxOwner, SandboxSpec, SandboxState,
};

impl SandboxClient {
    /// Finds a running sandbox by its name: one that this client created, or a detached one.
    ///
    /// An attached sandbox ends when the last of its handles is dropped. If this client created
    /// several with one name, this finds the last one.
    ///
    /// A detached sandbox stays when the handle is dropped; only the handle's executions end. It
    /// keeps the plan that it was created with. The policy of this client can only shorten the time
    /// limit and lower the output limits of its own executions.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SandboxNotFound`], [`ErrorKind::SandboxEnded`], and
    /// [`ErrorKind::SandboxAttached`] if another client owns it.
    pub async fn get(&self, name: &str) -> Result<SandboxHandle> {
        SandboxSpec::new(name).validate()?;
        if let Some(running) = self.own.find(name) {
            return match own_sandboxes::info(&running).state {
                SandboxState::Running => Ok(SandboxHandle::new(running)),
                SandboxState::Ended | SandboxState::Unknown => {
                    let context = format!("the sandbox {name:?} has ended: its lifetime is over");
                    let error = Error::new(ErrorKind::SandboxEnded, "find sandbox", context);
                    Err(error.on(self.tier()))
                }
            };
        }
        let found = match self.detached("get sandbox") {
            Ok(detached) => detached.get(name).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(Found { plan, instance }) => {
                let plan = plan.tightened(&self.policy);
                let running = self.running(plan, instance);
                running.auditor.tell(|| AuditEvent::Attached);
                Ok(SandboxHandle::new(running))
            }
            Err(error) => Err(self.not_found("find sandbox", name, error).await),
        }
    }

    /// The detached sandboxes of this tier and the attached ones of this client, sorted by name.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn list(&self) -> Result<Vec<SandboxInfo>> {
        let mut list = self.own.list();
        match self.detached("list sandboxes") {
            Ok(detached) => list.extend(detached.list().await?),
            Err(error) if list.is_empty() => return Err(error),
            Err(_) => {}
        }
        list.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(list)
    }

    /// Like [`SandboxClient::list`], with the attached sandboxes of other clients, as far as the
    /// backend records them. [`SandboxInfo::owner`] names their owners.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn list_all(&self) -> Result<Vec<SandboxInfo>> {
        let mut list = self.list().await?;
        let own = self.own.list();
        let is_own = |info: &SandboxInfo| {
            let same = |own: &SandboxInfo| own.name == info.name && own.owner == info.owner;
            own.iter().any(same)
        };
        let attached = self.backend.attached().await?;
        list.extend(attached.into_iter().filter(|info| !is_own(info)));
        list.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(list)
    }

    /// The detached sandboxes of this tier that this user's state folder has a record of. Reads
    /// files only, and asks no engine: a recorded sandbox may have ended, and one that was created
    /// elsewhere has no record here.
    ///
    /// # Errors
    ///
    /// If the state folder cannot be read.
    pub fn recorded(&self) -> Result<Vec<RecordedSandbox>> {
        let detached = self.backend.detached();
        detached.map_or(Ok(Vec::new()), |detached| detached.recorded())
    }

    /// Ends a sandbox and removes what it left: one that this client created, or a detached one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SandboxNotFound`], [`ErrorKind::SandboxAttached`] if another client owns it, and
    /// an error that names what could not be removed.
    pub async fn remove(&self, name: &str) -> Result<()> {
        SandboxSpec::new(name).validate()?;
        if let Some(running) = self.own.find(name) {
            return running.kill().await;
        }
        let removed = match self.detached("remove sandbox") {
            Ok(detached) => detached.remove(name).await,
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => Ok(()),
            Err(error) => Err(self.not_found("remove sandbox", name, error).await),
        }
    }

    /// Removes what ended detached sandboxes of this tier left, and keeps the running ones. Returns
    /// the names of the removed sandboxes, sorted.
    ///
    /// # Errors
    ///
    /// An error that names what could not be removed.
    pub async fn prune(&self) -> Result<Vec<String>> {
        self.detached("prune sandboxes")?.prune().await
    }

    /// Replaces the error for a name that was not found, if another client's attached sandbox has
    /// the name.
    async fn not_found(&self, operation: &'static str, name: &str, error: Error) -> Error {
        if !matches!(
            error.kind(),
            ErrorKind::SandboxNotFound | ErrorKind::Unsupported
        ) {
            return error;
        }
        let attached = match self.backend.attached().await {
            Ok(attached) => attached,
            Err(cause) => return error.with_source(cause),
        };
        let Some(info) = attached.into_iter().find(|info| info.name == name) else {
            return error;
        };
        let owner = info.owner.unwrap_or_else(SandboxOwner::unknown);
        let context = format!("the sandbox {name:?} is attached to {owner}");
        Error::new(ErrorKind::SandboxAttached, operation, context)
            .on(self.tier())
            .with_fix("use it through its owner, or create it as a detached sandbox")
    }
}
