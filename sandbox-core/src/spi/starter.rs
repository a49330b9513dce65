//! Starts programs whose limits of time and output apply to parts of them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::capture::Capture;
use crate::execution::{Bounds, Execution};
use crate::running::Running;
use crate::{Error, ErrorKind, ExecRequest, Plan, Result, SandboxHandle, Stdin};

/// Starts programs in a sandbox without the plan's limits of time and output. The caller applies
/// them to each part of such a program, as to each cell of an interpreter.
///
/// It does not keep the sandbox alive, and its executions end with the sandbox's handle.
#[derive(Clone)]
pub struct ExecutionStarter {
    running: Weak<Running>,
    open: watch::Receiver<()>,
    plan: Arc<Plan>,
    tier: String,
}

impl std::fmt::Debug for ExecutionStarter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecutionStarter")
            .field("sandbox", &self.plan.name)
            .finish_non_exhaustive()
    }
}

impl ExecutionStarter {
    /// Starts programs in this sandbox.
    #[must_use]
    pub fn new(sandbox: &SandboxHandle) -> Self {
        Self {
            running: Arc::downgrade(&sandbox.running),
            open: sandbox.subscribe(),
            plan: Arc::clone(&sandbox.running.plan),
            tier: sandbox.running.tier.clone(),
        }
    }

    /// The sandbox's plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The sandbox's tier.
    #[must_use]
    pub fn tier(&self) -> &str {
        &self.tier
    }

    /// Starts a program, as [`SandboxHandle::start`]. It is killed after `lifetime`; the request's
    /// own time limit does not apply.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::start`], and [`ErrorKind::SandboxEnded`] if the handle was dropped.
    pub async fn start(
        &self,
        lifetime: Duration,
        request: &ExecRequest,
        stdin: Stdin,
    ) -> Result<Execution> {
        let Some(running) = self.running.upgrade() else {
            let why = "the sandbox's handle was dropped";
            return Err(Error::new(ErrorKind::SandboxEnded, "execute", why).on(&self.tier));
        };
        let bounds = Bounds {
            timeout: lifetime,
            capture: Capture::unlimited(),
        };
        Execution::start_within(bounds, running, self.open.clone(), request, stdin).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeAnswer, FakeBackend};
    use crate::{ByteSize, CapabilityPolicy, Outcome, SandboxClient, SandboxSpec};

    #[tokio::test]
    async fn lifetime_and_output_of_a_started_program_exceed_the_policy() {
        let output = vec![b'x'; 65 << 20];
        let backend = FakeBackend::new(move |_| Ok(FakeAnswer::stdout(output.clone())));
        let seen = backend.seen();
        let mut policy = CapabilityPolicy::new().timeout(Duration::from_secs(1));
        policy.stdout_max_bytes = Some(ByteSize::bytes(1));
        let client = SandboxClient::with_backend(Arc::new(backend), policy).expect("valid");
        let sandbox = client.create(&SandboxSpec::new("test")).await;
        let sandbox = sandbox.expect("a sandbox");
        let starter = ExecutionStarter::new(&sandbox);
        let day = Duration::from_secs(24 * 60 * 60);
        let request = ExecRequest::new("python3").timeout(Duration::from_millis(1));
        let mut started = starter
            .start(day, &request, Stdin::Null)
            .await
            .expect("started");
        let result = started.wait().await.expect("it ends");
        assert_eq!(result.outcome, Outcome::Exited { code: 0 });
        assert_eq!(result.stdout.total, 65 << 20);
        let timeout = seen.lock().expect("no panic")[0].timeout;
        assert_eq!(timeout, Some(day));
        drop(sandbox);
        let ended = starter.start(day, &request, Stdin::Null).await;
        let error = ended.expect_err("the sandbox has ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
    }
}
