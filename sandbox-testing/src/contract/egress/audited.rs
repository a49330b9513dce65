//! Records of connections in an audit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox_core::ExecRequest;
use sandbox_core::audit::{AuditEvent, AuditRecord, ConnectionEnd};
use sandbox_core::policy::EgressRules;

use super::servers::{accepted, assert_reset, listener, web_server};
use super::{EgressBackend, ONE, OTHER, spec};
use crate::contract::{TestResult, run};
use crate::wait::wait_until_async;

type Records = Arc<Mutex<Vec<AuditRecord>>>;

/// Waits for the next event about a connection, a denial or rules, and takes all records.
async fn next(records: &Records) -> AuditEvent {
    let matters = |record: &AuditRecord| {
        matches!(
            record.event,
            AuditEvent::Connection { .. } | AuditEvent::Denied(_) | AuditEvent::RulesChanged { .. }
        )
    };
    let taken = || {
        let mut records = records.lock().expect("no panic");
        let mut told = std::mem::take(&mut *records);
        told.retain(matters);
        told
    };
    let mut told = Vec::new();
    wait_until_async("an event", Duration::from_secs(30), async || {
        told.extend(taken());
        !told.is_empty()
    })
    .await;
    assert_eq!(told.len(), 1, "{told:?}");
    told.remove(0).event
}

/// An audit has each connection with its bytes, denials with their rule, and changes of rules.
///
/// # Errors
///
/// The backend's.
pub fn connections_and_rules_are_audited(backend: &'static dyn EgressBackend) -> TestResult {
    run(async {
        let records = Records::default();
        let kept = Arc::clone(&records);
        let audit = move |record| kept.lock().expect("no panic").push(record);
        let port = web_server("hello");
        let (listener, open_port) = listener();
        let rules = [
            format!("{ONE}:{port} tcp private"),
            format!("{ONE}:{open_port} tcp private"),
            // Not `private`, so it is denied.
            format!("{OTHER}:{port} tcp"),
        ];
        let rules = rules.each_ref().map(String::as_str);
        let client = backend.client(&rules).audited(Arc::new(audit));
        let sandbox = client.create(&spec()).await?;
        let visit = |name: &str| {
            format!(
                "
import urllib.request
try:
    print(urllib.request.urlopen('http://{name}:{port}/').read().decode())
except OSError:
    print('denied')
"
            )
        };
        assert_eq!(
            backend.python_output(&sandbox, &visit(ONE)).await?,
            "hello\n"
        );
        let connection = next(&records).await;
        let AuditEvent::Connection {
            host,
            port: to,
            rule: Some(_),
            sent: sent @ Some(1..),
            received: received @ Some(6..),
            end: ConnectionEnd::Finished,
            ..
        } = &connection
        else {
            panic!("{connection:?}");
        };
        assert_eq!((host.as_str(), *to), (ONE, port));
        let stats = sandbox.stats().await?;
        assert_eq!(
            (&stats.egress_sent, &stats.egress_received),
            (sent, received)
        );
        // A second visit moves the same bytes, which its result has alone.
        let request = ExecRequest::new("python3").arg("-c").arg(visit(ONE));
        let result = sandbox.exec(&request).await?;
        assert_eq!(
            (&result.egress_sent, &result.egress_received),
            (sent, received),
            "{}",
            result.output()
        );
        next(&records).await;
        assert_eq!(
            backend.python_output(&sandbox, &visit(OTHER)).await?,
            "denied\n"
        );
        let denied = next(&records).await;
        assert!(
            matches!(&denied, AuditEvent::Denied(denial) if denial.rule.contains(OTHER)),
            "{denied:?}"
        );
        let fewer = EgressRules::parse([rules[1]])?;
        sandbox.set_egress(fewer.clone()).await?;
        let changed = next(&records).await;
        assert_eq!(
            changed,
            AuditEvent::RulesChanged {
                rules: fewer.into_rules()
            }
        );

        // A connection that lives as long as its sandbox.
        let code = format!(
            "
import socket
peer = socket.create_connection(('{ONE}', {open_port}))
peer.sendall(b'x')
print('reading')
peer.recv(1)
"
        );
        let _running = backend.started(&sandbox, &code).await?;
        let peer = accepted(&listener);
        sandbox.kill().await?;
        assert_reset(peer);
        let ended = next(&records).await;
        assert!(
            matches!(
                ended,
                AuditEvent::Connection {
                    end: ConnectionEnd::SandboxEnded | ConnectionEnd::Reset,
                    ..
                }
            ),
            "{ended:?}"
        );
        Ok(())
    })
}
