//! Connections of code: the agent opens a stream for each, and the host carries it to a server that
//! the rules allow.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use sandbox_agent::protocol::{
    ConnectRequest, ConnectTarget, EgressHost, EgressRule, EgressSettings, EgressTable, IpRange,
    MAX_CONNECTIONS, ProtocolError,
};
use sandbox_core::audit::{AuditEvent, Auditor, ConnectionEnd};
use sandbox_core::policy::{Destination, EgressRules, NetworkPolicy, NetworkRule};
use sandbox_core::spi::escape;
use sandbox_core::{Denial, Denials, Plan};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::TcpStream;
use crate::egress::{
    Carried, CarryEnd, CarryEvent, CodeTarget, Egress, EgressOptions, EndReason, TargetHost,
};
use crate::lock;

/// A connection of code that waits to be carried.
#[derive(Debug)]
pub(crate) struct CodeConnection {
    pub(crate) target: CodeTarget,
    pub(crate) stream: TcpStream,
}

/// Where connections of code go, and how many answers the agent owes.
#[derive(Debug, Default)]
pub(crate) struct CodeConnections {
    carrier: OnceLock<mpsc::Sender<CodeConnection>>,
    asked: watch::Sender<u64>,
    answered: watch::Sender<u64>,
}

impl CodeConnections {
    /// Sets what carries them; `None` if something does already.
    pub(crate) fn carrier(&self) -> Option<mpsc::Receiver<CodeConnection>> {
        let (sender, receiver) = mpsc::channel(MAX_CONNECTIONS);
        self.carrier.set(sender).ok().map(|()| receiver)
    }

    /// A connection has arrived. Where too many wait already, it is reset.
    pub(crate) fn arrived(&self, connection: CodeConnection) -> Result<(), ProtocolError> {
        let Some(carrier) = self.carrier.get() else {
            return Err(ProtocolError::Unexpected(
                "connection of code without rules",
            ));
        };
        // Dropping it resets it.
        let _ = carrier.try_send(connection);
        Ok(())
    }

    /// Counts a request for other rules. Returns its number.
    pub(crate) fn ask(&self) -> u64 {
        self.asked.send_modify(|asked| *asked += 1);
        *self.asked.borrow()
    }

    /// The agent has answered a request.
    pub(crate) fn answered(&self) -> Result<(), ProtocolError> {
        let mut owed = false;
        self.answered.send_if_modified(|answered| {
            owed = *answered < *self.asked.borrow();
            *answered += u64::from(owed);
            owed
        });
        match owed {
            true => Ok(()),
            false => Err(ProtocolError::Unexpected("answer to no rules")),
        }
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&self, number: u64) {
        let mut answered = self.answered.subscribe();
        // `self` holds the sender.
        let _ = answered.wait_for(|answered| *answered >= number).await;
    }
}

/// The destination of a request. The agent's text is checked by [`Egress::carry`].
pub(crate) fn target(request: &ConnectRequest) -> CodeTarget {
    let host = match &request.target {
        ConnectTarget::Name(name) => TargetHost::Name(String::from_utf8_lossy(name).into_owned()),
        ConnectTarget::Address(address) => TargetHost::Address(*address),
    };
    CodeTarget {
        host,
        port: request.port,
    }
}

/// Carries all connections until the agent's connection ends, which resets them.
pub(crate) async fn carry_all(
    egress: Arc<Egress>,
    reports: ConnectionReports,
    mut arriving: mpsc::Receiver<CodeConnection>,
) {
    let mut tasks = JoinSet::new();
    while let Some(connection) = arriving.recv().await {
        while tasks.try_join_next().is_some() {}
        tasks.spawn(carry(Arc::clone(&egress), reports.clone(), connection));
    }
}

/// Collects denied connections, and tells the audit of all.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionReports {
    /// Those that were denied since the last end of an execution.
    pub(crate) denied: Arc<Mutex<Denials>>,
    /// The sandbox's auditor, once it is known.
    pub(crate) auditor: Arc<OnceLock<Auditor>>,
}

impl ConnectionReports {
    fn denied(&self, denial: Denial) {
        tracing::debug!(%denial, "a connection of code was denied");
        lock(&self.denied).push(denial);
    }

    fn audit(&self, event: impl FnOnce() -> AuditEvent) {
        if let Some(auditor) = self.auditor.get() {
            auditor.tell(event);
        }
    }
}

/// Tells of a connection that ends with its sandbox: its task is dropped then.
struct Audited<'a> {
    reports: &'a ConnectionReports,
    host: &'a TargetHost,
    port: u16,
    /// The server, while it is connected.
    address: Option<SocketAddr>,
}

impl Audited<'_> {
    fn end(&mut self, carried: &Carried) {
        self.address = None;
        self.tell(
            carried.address,
            Some(carried),
            match carried.reason {
                EndReason::Finished => ConnectionEnd::Finished,
                EndReason::Reset => ConnectionEnd::Reset,
                EndReason::Idle => ConnectionEnd::Idle,
                EndReason::Revoked => ConnectionEnd::Revoked,
            },
        );
    }

    fn tell(&self, address: SocketAddr, carried: Option<&Carried>, end: ConnectionEnd) {
        self.reports.audit(|| AuditEvent::Connection {
            host: escape(&self.host.to_string()),
            port: self.port,
            address,
            rule: carried.map(|carried| carried.rule.clone()),
            sent: carried.map(|carried| carried.sent),
            received: carried.map(|carried| carried.received),
            end,
        });
    }
}

impl Drop for Audited<'_> {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            self.tell(address, None, ConnectionEnd::SandboxEnded);
        }
    }
}

async fn carry(egress: Arc<Egress>, reports: ConnectionReports, connection: CodeConnection) {
    let CodeConnection { target, mut stream } = connection;
    let (host, port) = (target.host.clone(), target.port);
    let mut audited = Audited {
        reports: &reports,
        host: &host,
        port,
        address: None,
    };
    let tell = |event| match event {
        CarryEvent::Connected(address) => audited.address = Some(address),
        CarryEvent::Requested {
            method,
            path,
            secrets,
            rule,
        } => reports.audit(|| AuditEvent::Request {
            host: escape(&host.to_string()),
            port,
            method: escape(&method),
            path: escape(&path),
            secrets,
            rule,
        }),
        CarryEvent::Denied(denial) => reports.denied(denial.to_denial()),
    };
    // Without the ends of both directions, dropping the stream resets it.
    match egress.carry(target, &mut stream, tell).await {
        CarryEnd::Denied(denial) => reports.denied(denial.to_denial()),
        CarryEnd::Unreachable(error) => {
            // It is no connection that ended with its sandbox.
            audited.address = None;
            tracing::info!(?host, port, %error, "an allowed host cannot be reached");
            reports.audit(|| AuditEvent::Unreachable {
                host: escape(&host.to_string()),
                port,
                error: error.to_string(),
            });
        }
        CarryEnd::Closed => {}
        CarryEnd::Carried(carried) => {
            audited.end(&carried);
            tracing::debug!(?host, port, address = %carried.address, sent = carried.sent,
                received = carried.received, reason = ?carried.reason, "a connection of code ended");
            if carried.reason == EndReason::Finished {
                // Both directions have ended, so this says nothing new.
                let _ = stream.shutdown().await;
            }
        }
    }
}

/// The agent's settings for a plan. `None` if the plan has no rules.
pub(crate) fn settings(plan: &Plan) -> Option<EgressSettings> {
    let NetworkPolicy::Allow(rules) = &plan.network else {
        return None;
    };
    Some(EgressSettings {
        table: table(rules),
        ranges: ranges(plan),
    })
}

/// The addresses that rules of this sandbox may ever allow. They need routes in the sandbox, which
/// only its start can add.
#[must_use]
pub fn ranges(plan: &Plan) -> Vec<IpRange> {
    let mut ranges = Vec::new();
    for network in [&plan.network, &plan.network_ceiling] {
        if let NetworkPolicy::Allow(rules) = network {
            let allowing = rules.iter().filter(|rule| !rule.is_deny());
            for range in allowing.filter_map(|rule| range(rule.destination())) {
                if !ranges.contains(&range) {
                    ranges.push(range);
                }
            }
        }
    }
    ranges
}

/// The rules as the agent needs them.
pub(crate) fn table(rules: &[NetworkRule]) -> EgressTable {
    let rules = rules.iter().map(|rule| EgressRule {
        denies: rule.is_deny(),
        host: match rule.destination() {
            Destination::Name(name) => EgressHost::Name(name.as_str().into()),
            Destination::Suffix(name) => EgressHost::Suffix(name.as_str().into()),
            Destination::Network(network) => EgressHost::Range(IpRange {
                address: network.address(),
                prefix: network.prefix(),
            }),
        },
        ports: rule.ports().unwrap_or_default(),
    });
    EgressTable {
        rules: rules.collect(),
    }
}

fn range(destination: &Destination) -> Option<IpRange> {
    match destination {
        Destination::Network(network) => Some(IpRange {
            address: network.address(),
            prefix: network.prefix(),
        }),
        _ => None,
    }
}

/// The rules of a plan, and the most that they can become.
pub(crate) fn egress(plan: &Plan, options: EgressOptions) -> Option<Arc<Egress>> {
    let NetworkPolicy::Allow(rules) = &plan.network else {
        return None;
    };
    let rules = EgressRules::new(rules.clone());
    let ceiling = plan.network_ceiling.clone();
    Some(Egress::with_options(rules, ceiling, options))
}
