//! A pod that runs, before it is anybody's sandbox.

use std::time::Duration;

use sandbox_host::AgentInstance;

use crate::applied;
use crate::identity::Identity;
use crate::watch::Ticket;

/// How long an agent that was started ahead may take to show that it is there.
const ANSWER: Duration = Duration::from_secs(2);

/// A pod whose agent was entered, and nobody's yet.
pub(crate) struct Started {
    pub instance: AgentInstance,
    pub identity: Identity,
    /// Hears of its end.
    pub ticket: Ticket,
    /// The image as its node names it, where it has said so yet.
    pub image: Option<String>,
}

impl Started {
    /// Whether it is known to have ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.instance.has_ended() || self.ticket.has_ended()
    }

    /// Whether its agent answers, now.
    pub(crate) async fn answers(&self) -> bool {
        let asked = tokio::time::timeout(ANSWER, applied::answers(&self.instance)).await;
        asked.unwrap_or(false)
    }
}
