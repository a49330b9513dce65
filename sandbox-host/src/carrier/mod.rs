//! The process that carries the connections of code.
//!
//! Rules need a process on the host, which dials the servers. For an attached sandbox, that is its
//! owner. A detached sandbox has at most one *carrier* at a time: a process that holds a handle and
//! has called [`Instance::carry_egress`]. It holds a lock in the state folder, and other clients of
//! the sandbox ask it over a socket beside the lock. Without a carrier, the agent resets each
//! connection.
//!
//! [`Instance::carry_egress`]: sandbox_core::spi::Instance::carry_egress

mod claim;
mod messages;
mod remote;
mod server;

use std::sync::Arc;

use sandbox_agent::protocol::FrameKind;
use sandbox_core::audit::AuditEvent;
use sandbox_core::policy::EgressRules;
use sandbox_core::spi::EgressTraffic;
use sandbox_core::{Denials, Error, ErrorKind, Result};

use crate::connection::ConnectionShared;
use crate::egress::Egress;
use crate::lock;
use crate::tcp::code::{self, ConnectionReports, carry_all};

pub(crate) use claim::CarrierFiles;
pub(crate) use remote::RemoteCarrier;
use server::CarrierServer;

/// Carries the connections of one sandbox from this process.
pub(crate) struct Carrier {
    pub(crate) egress: Arc<Egress>,
    connection: Arc<ConnectionShared>,
    reports: ConnectionReports,
    /// Held while rules change.
    changing: tokio::sync::Mutex<()>,
}

impl Carrier {
    /// Carries what the agent sends to this client until their connection ends.
    ///
    /// # Errors
    ///
    /// If this client carries connections already.
    pub(crate) fn start(
        egress: Arc<Egress>,
        connection: Arc<ConnectionShared>,
        reports: ConnectionReports,
    ) -> Result<Arc<Self>> {
        let Some(arriving) = connection.code.carrier() else {
            let context = "this handle carries the connections already";
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                "carry connections",
                context,
            ));
        };
        let carrying = carry_all(Arc::clone(&egress), reports.clone(), arriving);
        let ended = connection.watch_end();
        tokio::spawn(async move {
            tokio::select! {
                _ = ended => {}
                () = carrying => {}
            }
        });
        Ok(Arc::new(Self {
            egress,
            connection,
            reports,
            changing: tokio::sync::Mutex::new(()),
        }))
    }

    /// Replaces the rules: see [`Egress::set`].
    ///
    /// # Errors
    ///
    /// As [`Egress::set`], and [`ErrorKind::SandboxEnded`].
    pub(crate) async fn set(&self, rules: EgressRules) -> Result<()> {
        let _turn = self.changing.lock().await;
        // First, so that nothing that was revoked is carried any more.
        self.egress.set(rules).await?;
        self.announce().await
    }

    /// Tells the agent the rules, and that this client carries the connections.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SandboxEnded`].
    async fn announce(&self) -> Result<()> {
        let connection = &self.connection;
        let number = connection.code.ask();
        let table = code::table(self.egress.rules().rules());
        connection.control(FrameKind::Egress, &table.encode());
        tokio::select! {
            () = connection.code.answer(number) => Ok(()),
            _ = connection.watch_end() => {
                let reason = connection.ended().map(|end| end.reason).unwrap_or_default();
                Err(Error::new(ErrorKind::SandboxEnded, "use sandbox", reason))
            }
        }
    }

    /// What was carried so far.
    pub(crate) fn traffic(&self) -> EgressTraffic {
        let (sent, received) = self.egress.carried();
        EgressTraffic { sent, received }
    }

    /// The denials since the last call.
    pub(crate) fn take_denials(&self) -> Denials {
        std::mem::take(&mut *lock(&self.reports.denied))
    }

    /// Records that another client has replaced the rules.
    fn tell_of_rules(&self, rules: &EgressRules) {
        if let Some(auditor) = self.reports.auditor.get() {
            let rules = rules.rules().to_vec();
            auditor.tell(|| AuditEvent::RulesChanged { rules });
        }
    }
}

/// This process's part in the connections of code.
pub(crate) struct Carrying {
    pub(crate) carrier: Arc<Carrier>,
    /// Answers the other clients of a detached sandbox.
    _server: Option<CarrierServer>,
}

impl Carrying {
    /// As the owner of an attached sandbox. Its agent expects that.
    pub(crate) fn owner(carrier: Arc<Carrier>) -> Self {
        Self {
            carrier,
            _server: None,
        }
    }

    /// As a client of a detached sandbox, which becomes its carrier.
    ///
    /// # Errors
    ///
    /// As [`sandbox_core::spi::Instance::carry_egress`].
    pub(crate) async fn client(
        files: &CarrierFiles,
        egress: Arc<Egress>,
        connection: Arc<ConnectionShared>,
        reports: ConnectionReports,
        rules: Option<EgressRules>,
    ) -> Result<Self> {
        let claim = files.claim()?;
        if let Some(rules) = rules {
            egress.set(rules).await?;
        }
        let carrier = Carrier::start(egress, connection, reports)?;
        carrier.announce().await?;
        let server = CarrierServer::start(claim, Arc::clone(&carrier))?;
        Ok(Self {
            carrier,
            _server: Some(server),
        })
    }
}
