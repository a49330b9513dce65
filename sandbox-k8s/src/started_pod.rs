//! A running pod that no sandbox uses yet.

use std::time::Duration;

use sandbox_host::AgentInstance;

use crate::identity::PodIdentity;
use crate::observed;
use crate::watch::PodSubscription;

/// How long the agent of a warm pod may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A pod whose agent is connected and that no sandbox uses yet.
pub(crate) struct StartedPod {
    pub instance: AgentInstance,
    pub identity: PodIdentity,
    /// Reports the end of the pod.
    pub subscription: PodSubscription,
    /// The image as the node reports it, if it has.
    pub image: Option<String>,
}

impl StartedPod {
    /// Whether the pod or its agent is known to have ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.instance.has_ended() || self.subscription.has_ended()
    }

    /// Whether the agent answers now.
    pub(crate) async fn agent_answers(&self) -> bool {
        let asked =
            tokio::time::timeout(ANSWER_TIMEOUT, observed::agent_answers(&self.instance)).await;
        asked.unwrap_or(false)
    }
}
