//! A running pod that no sandbox uses yet.

use std::time::Duration;

use sandbox_host::AgentInstance;

use crate::applied;
use crate::identity::Identity;
use crate::watch::Ticket;

/// How long the agent of a warm pod may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// A pod whose agent is connected and that no sandbox uses yet.
pub(crate) struct Started {
    pub instance: AgentInstance,
    pub identity: Identity,
    /// Reports the end of the pod.
    pub ticket: Ticket,
    /// The image as the node reports it, if it has.
    pub image: Option<String>,
}

impl Started {
    /// Whether the pod or its agent is known to have ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.instance.has_ended() || self.ticket.has_ended()
    }

    /// Whether the agent answers now.
    pub(crate) async fn answers(&self) -> bool {
        let asked = tokio::time::timeout(ANSWER, applied::answers(&self.instance)).await;
        asked.unwrap_or(false)
    }
}
