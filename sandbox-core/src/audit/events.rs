//! Gives records to `tracing`.

use tracing::{Level, event};

use super::{Audit, AuditEvent, AuditRecord};
use crate::Outcome;

/// Makes an event of `tracing` of each record, with the target `sandbox::audit`.
///
/// The fields have the names of OpenTelemetry's semantic conventions where these have one, such as
/// `process.exit.code` and `server.address`; `sandbox.` begins the others. Each event has the
/// sandbox's labels, as JSON. What was denied, refused or has failed is a warning.
///
/// ```
/// use std::sync::Arc;
///
/// use sandbox_core::audit::AuditTracing;
///
/// # fn example(client: sandbox_core::SandboxClient) {
/// let client = client.audited(Arc::new(AuditTracing));
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct AuditTracing;

/// An event with the fields that all have.
macro_rules! tell {
    ($level:expr, $record:expr, $labels:expr, $name:literal $(, $($field:tt)*)?) => {
        event!(
            target: "sandbox::audit",
            $level,
            sandbox.event = $name,
            sandbox.name = $record.sandbox,
            sandbox.tier = $record.tier,
            sandbox.labels = $labels
            $(, $($field)*)?
        )
    };
}

impl Audit for AuditTracing {
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each event, and nothing else"
    )]
    fn record(&self, record: AuditRecord) {
        let labels = serde_json::to_string(&record.labels).expect("text as keys");
        let labels = labels.as_str();
        match &record.event {
            AuditEvent::Admitted { .. } => tell!(Level::INFO, record, labels, "admitted"),
            AuditEvent::NotCreated { kind, reason } => tell!(
                Level::WARN,
                record,
                labels,
                "not_created",
                error.r#type = kind,
                error.message = reason
            ),
            AuditEvent::Created { .. } => tell!(Level::INFO, record, labels, "created"),
            AuditEvent::Attached => tell!(Level::INFO, record, labels, "attached"),
            AuditEvent::ExecStarted {
                execution,
                argv,
                secrets,
                user,
            } => tell!(
                Level::INFO, record, labels, "exec_started",
                sandbox.execution = execution,
                process.command_args = ?argv,
                process.user.name = user.as_deref(),
                sandbox.secrets = ?secrets
            ),
            AuditEvent::ExecEnded {
                execution,
                outcome,
                error,
                cpu_time,
                max_rss,
            } => tell!(
                Level::INFO,
                record,
                labels,
                "exec_ended",
                sandbox.execution = execution,
                sandbox.outcome = outcome.as_ref().map(tracing::field::display),
                process.exit.code = outcome.as_ref().and_then(Outcome::exit_code),
                process.cpu.time = cpu_time.map(|time| time.as_secs_f64()),
                process.memory.usage = *max_rss,
                error.message = error.as_deref()
            ),
            AuditEvent::Denied(denial) => {
                tell!(Level::WARN, record, labels, "denied", sandbox.denial = %denial);
            }
            AuditEvent::DenialsOmitted { count } => tell!(
                Level::WARN,
                record,
                labels,
                "denials_omitted",
                sandbox.count = count
            ),
            AuditEvent::Connection {
                host,
                port,
                address,
                rule,
                sent,
                received,
                end,
            } => tell!(
                Level::INFO, record, labels, "connection",
                server.address = host,
                server.port = port,
                network.peer.address = %address.ip(),
                network.peer.port = address.port(),
                sandbox.rule = rule.as_ref().map(tracing::field::display),
                sandbox.sent = *sent,
                sandbox.received = *received,
                sandbox.end = ?end
            ),
            AuditEvent::Request {
                host,
                port,
                method,
                path,
                secrets,
                rule,
            } => tell!(
                Level::INFO, record, labels, "request",
                server.address = host,
                server.port = port,
                http.request.method = method,
                url.path = path,
                sandbox.secrets = ?secrets,
                sandbox.rule = %rule
            ),
            AuditEvent::Unreachable { host, port, error } => tell!(
                Level::WARN,
                record,
                labels,
                "unreachable",
                server.address = host,
                server.port = port,
                error.message = error
            ),
            AuditEvent::RulesChanged { rules } => {
                let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
                tell!(Level::INFO, record, labels, "rules_changed", sandbox.rules = ?rules);
            }
            AuditEvent::Files {
                operation,
                paths,
                host,
                error,
            } => tell!(
                Level::INFO, record, labels, "files",
                sandbox.operation = ?operation,
                sandbox.paths = ?paths,
                file.path = host.as_deref(),
                error.message = error.as_deref()
            ),
            AuditEvent::Forwarded { address, port } => tell!(
                Level::INFO, record, labels, "forwarded",
                network.local.address = %address.ip(),
                network.local.port = address.port(),
                server.port = port
            ),
            AuditEvent::Removed => tell!(Level::INFO, record, labels, "removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, SystemTime};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Keeps the fields of events.
    #[derive(Clone, Default)]
    struct KeptEvents(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

    struct Fields(BTreeMap<String, String>);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.insert(field.name().to_owned(), format!("{value:?}"));
        }
    }

    impl Subscriber for KeptEvents {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "sandbox::audit"
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields(BTreeMap::new());
            event.record(&mut fields);
            self.0.lock().expect("no panic").push(fields.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn fields_have_the_names_of_opentelemetry_and_the_labels() {
        let kept = KeptEvents::default();
        let record = |event| AuditRecord {
            time: SystemTime::now(),
            tier: "local".into(),
            sandbox: "one".into(),
            labels: BTreeMap::from([("team".into(), "a".into())]),
            event,
        };
        tracing::subscriber::with_default(kept.clone(), || {
            AuditTracing.record(record(AuditEvent::ExecEnded {
                execution: 7,
                outcome: Some(Outcome::Exited { code: 3 }),
                error: None,
                cpu_time: Some(Duration::from_millis(250)),
                max_rss: None,
            }));
            AuditTracing.record(record(AuditEvent::NotCreated {
                kind: "policy_exceeded".into(),
                reason: "no".into(),
            }));
        });
        let kept = kept.0.lock().expect("no panic");
        let field = |index: usize, name: &str| kept[index].get(name).map(String::as_str);
        assert_eq!(field(0, "process.exit.code"), Some("3"));
        assert_eq!(field(0, "process.cpu.time"), Some("0.25"));
        // What is not known is not there, rather than 0.
        assert_eq!(field(0, "process.memory.usage"), None);
        assert_eq!(field(0, "sandbox.labels"), Some(r#""{\"team\":\"a\"}""#));
        assert_eq!(field(1, "sandbox.name"), Some("\"one\""));
        assert_eq!(field(1, "error.type"), Some("\"policy_exceeded\""));
    }
}
