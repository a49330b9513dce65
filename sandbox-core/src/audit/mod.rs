//! A record of what happens in sandboxes, for their operator.
//!
//! [`crate::SandboxClient::audited`] gives each event of its sandboxes to an [`Audit`]. An
//! [`AuditLog`] writes them as lines of JSON, and [`AuditTracing`] makes events of `tracing`. A
//! record only tells: nothing waits for it, and a log that cannot be written changes nothing that
//! is enforced.

mod events;
mod files;
mod log;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::exec::optional_milliseconds;
use crate::policy::NetworkRule;
use crate::{Denial, EnforcementReport, Outcome, Plan};

pub use events::AuditTracing;
pub(crate) use files::AuditedFiles;
pub use files::FileOperation;
pub use log::{AuditLog, AuditLoss};

/// Receives what happens in sandboxes. Functions of a record implement it.
pub trait Audit: Send + Sync {
    /// Takes a record. It is called where the event happens, so it must not block.
    fn record(&self, record: AuditRecord);
}

impl<F: Fn(AuditRecord) + Send + Sync> Audit for F {
    fn record(&self, record: AuditRecord) {
        self(record);
    }
}

/// Something that happened in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditRecord {
    /// When. In JSON as RFC 3339 with microseconds, in UTC.
    #[serde(serialize_with = "rfc3339")]
    pub time: SystemTime,
    /// The tier.
    pub tier: String,
    /// The name of the sandbox.
    pub sandbox: String,
    /// The labels of its specification.
    pub labels: BTreeMap<String, String>,
    /// What happened.
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditEvent {
    /// The policy is enforced as far as it requires, so the sandbox may be created.
    Admitted {
        /// What the backend will enforce.
        enforcement: EnforcementReport,
    },
    /// The sandbox was not created: refused, or failed.
    NotCreated {
        /// The text of the [`crate::ErrorKind`].
        kind: String,
        /// The error.
        reason: String,
    },
    /// The sandbox runs, and no code in it yet.
    Created {
        /// What is enforced.
        enforcement: EnforcementReport,
    },
    /// This client attached to a detached sandbox.
    Attached,
    /// A program starts.
    ExecStarted {
        /// Its number among the executions of this handle's sandbox in this process.
        execution: u64,
        /// The program and its arguments. Bytes that are not UTF-8 are replaced. Only the program
        /// for requests without [`crate::ExecRequest::log`].
        argv: Vec<String>,
        /// The names of its secrets.
        secrets: Vec<String>,
        /// The user that the request names: [`crate::ExecRequest::user`].
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<String>,
    },
    /// A program has ended, or did not start.
    ExecEnded {
        /// The number from its start.
        execution: u64,
        /// How it ended; `None` if the sandbox failed, or if the caller gave up.
        outcome: Option<Outcome>,
        /// Why there is no outcome.
        error: Option<String>,
        /// Processor time, if the backend knows it. In JSON, `cpu_time_ms`.
        #[serde(
            rename = "cpu_time_ms",
            serialize_with = "optional_milliseconds",
            skip_serializing_if = "Option::is_none"
        )]
        cpu_time: Option<Duration>,
        /// Largest resident memory of one of its processes in bytes, if the backend knows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_rss: Option<u64>,
    },
    /// Something was denied. Known at the latest when the execution ends.
    Denied(Denial),
    /// Denials that were not kept one by one.
    DenialsOmitted {
        /// How many.
        count: u64,
    },
    /// A connection of code has ended.
    Connection {
        /// The name or address that the code connected to.
        host: String,
        /// The port.
        port: u16,
        /// The address that was dialed.
        address: SocketAddr,
        /// The rule that allowed it; `None` if it ended with its sandbox.
        rule: Option<NetworkRule>,
        /// Bytes from the code to the server; `None` if it ended with its sandbox.
        sent: Option<u64>,
        /// Bytes from the server to the code; `None` if it ended with its sandbox.
        received: Option<u64>,
        /// Why it ended.
        end: ConnectionEnd,
    },
    /// A rule at level `http` has allowed a request.
    Request {
        /// The name that the code connected to.
        host: String,
        /// The port.
        port: u16,
        /// The method.
        method: String,
        /// The path without its query, which can have secrets. At most 1,024 characters.
        path: String,
        /// The names of the secrets that the host has put into it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        secrets: Vec<String>,
        /// The rule.
        rule: NetworkRule,
    },
    /// An allowed connection of code found no server.
    Unreachable {
        /// The name or address that the code connected to.
        host: String,
        /// The port.
        port: u16,
        /// Why.
        error: String,
    },
    /// The rules for connections were replaced.
    RulesChanged {
        /// The new rules, as they were asked for.
        rules: Vec<NetworkRule>,
    },
    /// The caller, not the code, has read, changed or copied files of the sandbox.
    Files {
        /// What it did.
        operation: FileOperation,
        /// The path in the sandbox; for an export, the policy's patterns.
        paths: Vec<String>,
        /// The file or folder of the host, for copies and exports. Bytes that are not UTF-8 are
        /// replaced.
        host: Option<String>,
        /// Why it failed. A part may be done.
        error: Option<String>,
    },
    /// A port of the host leads to a port of the sandbox.
    Forwarded {
        /// Where the host listens.
        address: SocketAddr,
        /// The port inside.
        port: u16,
    },
    /// The sandbox was ended, or its last handle was dropped.
    Removed,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConnectionEnd {
    /// Both sides ended it.
    Finished,
    /// One side broke it off.
    Reset,
    /// It carried nothing for too long.
    Idle,
    /// Its rule was revoked.
    Revoked,
    /// Its sandbox ended.
    SandboxEnded,
}

/// Gives events of one sandbox to the client's [`Audit`], if it has one.
#[derive(Clone, Default)]
pub struct Auditor(Option<Arc<Subject>>);

/// The receiver, and the sandbox that its records are about.
struct Subject {
    audit: Arc<dyn Audit>,
    tier: String,
    sandbox: String,
    labels: BTreeMap<String, String>,
}

impl std::fmt::Debug for Auditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sandbox = self.0.as_ref().map(|subject| &subject.sandbox);
        f.debug_tuple("Auditor").field(&sandbox).finish()
    }
}

impl Auditor {
    pub(crate) fn new(
        audit: Option<&Arc<dyn Audit>>,
        tier: &str,
        sandbox: &str,
        labels: &BTreeMap<String, String>,
    ) -> Self {
        Self(audit.map(|audit| {
            Arc::new(Subject {
                audit: Arc::clone(audit),
                tier: tier.to_owned(),
                sandbox: sandbox.to_owned(),
                labels: labels.clone(),
            })
        }))
    }

    pub(crate) fn of_plan(audit: Option<&Arc<dyn Audit>>, tier: &str, plan: &Plan) -> Self {
        Self::new(audit, tier, &plan.name, &plan.labels)
    }

    /// Whether there is a receiver.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Tells the event that `event` makes, if there is a receiver.
    pub fn tell(&self, event: impl FnOnce() -> AuditEvent) {
        if let Some(subject) = &self.0 {
            subject.audit.record(AuditRecord {
                time: SystemTime::now(),
                tier: subject.tier.clone(),
                sandbox: subject.sandbox.clone(),
                labels: subject.labels.clone(),
                event: event(),
            });
        }
    }
}

fn rfc3339<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_micros(*time))
}
