//! Rules at level `http`.

use std::sync::{Arc, Mutex};

use sandbox_core::audit::{AuditEvent, AuditRecord};
use sandbox_core::{Capability, DenialKind, Mechanism};

use super::tls_server::TlsServer;
use super::{EgressBackend, ONE, spec};
use crate::contract::{TestResult, output, run};

/// A program that prints what a URL has.
const JAVA: &str = "
import java.net.URI;
class Visit {
    public static void main(String[] urls) throws Exception {
        System.out.write(URI.create(urls[0]).toURL().openStream().readAllBytes());
        System.out.flush();
    }
}
";

/// Unchanged clients trust the host's certificate, and each of their requests is judged.
///
/// # Errors
///
/// The backend's.
pub fn requests_are_judged_by_rules_at_level_http(
    backend: &'static dyn EgressBackend,
) -> TestResult {
    run(async {
        let records = Arc::<Mutex<Vec<AuditRecord>>>::default();
        let kept = Arc::clone(&records);
        let server = TlsServer::start(ONE);
        let port = server.port;
        let rule = format!("{ONE}:{port} http GET /v1/* private");
        let client = backend
            .client_that_trusts(Some(server.certificate()), &[&rule])
            .audited(Arc::new(move |record| {
                kept.lock().expect("no panic").push(record)
            }));
        let sandbox = client.create(&spec().secret("TOKEN")).await?;
        let report = sandbox.enforcement().get(Capability::Egress);
        let report = report.expect("a report");
        assert!(report.is_enforced(), "{report:?}");
        assert!(
            report.mechanisms().contains(&Mechanism::RequestsChecked),
            "{report:?}"
        );
        let url = format!("https://{ONE}:{port}");
        let visit = format!(
            "
import urllib.error, urllib.request
def visit(method, path):
    try:
        request = urllib.request.Request('{url}' + path, method=method)
        print(urllib.request.urlopen(request).read().decode().splitlines()[0])
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
visit('GET', '/v1/users?token=1')
visit('DELETE', '/v1/users')
visit('GET', '/v2')
"
        );
        let printed = backend.python_output(&sandbox, &visit).await?;
        let lines: Vec<_> = printed.lines().collect();
        assert_eq!(lines[0], "GET /v1/users?token=1 HTTP/1.1", "{printed}");
        for (line, request) in [(lines[1], "DELETE /v1/users"), (lines[2], "GET /v2")] {
            let why = format!(
                "403 sandbox: denied: the rule {rule} does not allow the request {request}"
            );
            assert_eq!(line, why, "{printed}");
        }

        sandbox.write("/tmp/Visit.java", JAVA).await?;
        for (program, arguments) in [
            ("curl", format!("-sS {url}/v1/x")),
            (
                "node",
                format!("-e 'fetch(\"{url}/v1/x\").then(r => r.text()).then(console.log)'"),
            ),
            ("java", format!("/tmp/Visit.java {url}/v1/x")),
        ] {
            let installed = format!("command -v {program} || echo none");
            if output(&sandbox, &installed).await? != "none\n" {
                let text = output(&sandbox, &format!("{program} {arguments}")).await?;
                assert!(text.starts_with("GET /v1/x HTTP/1.1"), "{program}: {text}");
            }
        }
        // The server gets the value, and code does not.
        let sent = format!(
            "
import os, urllib.request
request = urllib.request.Request('{url}/v1/me', headers={{'Authorization': os.environ['TOKEN']}})
print(os.environ['TOKEN'].startswith('sandbox-secret-'))
print('Authorization: can' 'ary-7' in urllib.request.urlopen(request).read().decode())
"
        );
        let request = backend.program(&sent);
        let request = request.secret_for("TOKEN", "canary-7", [format!("{ONE}:{port}")]);
        let result = sandbox.exec(&request).await?;
        assert_eq!(result.stdout_text(), "True\nTrue\n", "{}", result.output());
        let denials = sandbox.denials();
        let denials = denials.as_slice();
        assert_eq!(denials.len(), 2, "{denials:?}");
        assert!(
            denials
                .iter()
                .all(|denial| denial.kind == DenialKind::Network),
            "{denials:?}"
        );
        sandbox.kill().await?;
        let records = records.lock().expect("no panic");
        let used = records.iter().any(|record| {
            matches!(&record.event, AuditEvent::Request { secrets, .. } if secrets == &["TOKEN"])
        });
        assert!(used, "{records:?}");
        assert!(!format!("{records:?}").contains("canary"));
        let requests = records.iter().filter_map(|record| match &record.event {
            AuditEvent::Request { method, path, .. } => Some(format!("{method} {path}")),
            _ => None,
        });
        assert_eq!(requests.take(1).collect::<Vec<_>>(), ["GET /v1/users"]);
        Ok(())
    })
}
