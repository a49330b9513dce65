//! Admission webhooks: a refusal is reported with the webhook's message, and so is an unreachable
//! webhook. The API server runs on this machine, so it can reach a webhook on loopback.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use sandbox_core::{CapabilityPolicy, Error, ErrorKind, SandboxSpec};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::cluster::{run, small};
use crate::test_namespace::{CONTROLLER_TIMEOUT, TestNamespace, client};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("webhook::a_refusal_is_reported_with_its_message", refusing),
    ("webhook::an_unreachable_webhook_is_reported", unreachable),
];

const WORDS: &str = "no pods on Sundays";

fn refusing() -> TestResult {
    run(async {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=test"])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout"])
            .arg(path("key"))
            .arg("-out")
            .arg(path("certificate"))
            .output()?;
        let errors = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{errors}");
        let certificate = CertificateDer::from_pem_file(path("certificate"))?;
        let key = PrivateKeyDer::from_pem_file(path("key"))?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/", listener.local_addr()?);
        tokio::spawn(refuse_all(TlsAcceptor::from(Arc::new(config)), listener));

        let authority = ByteString(std::fs::read(path("certificate"))?);
        let hook = json!({"url": url, "caBundle": authority});
        let kept = small("refused")
            .detached(true)
            .lifetime(Duration::from_secs(120));
        for (resource, spec) in [("pods", small("refused")), ("secrets", kept)] {
            let error = refusal(&hook, resource, &spec).await;
            assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
            let text = error.to_string();
            for words in ["admission webhook", WORDS, "admission rules"] {
                assert!(text.contains(words), "{resource}: {words}: {text}");
            }
        }
        Ok(())
    })
}

fn unreachable() -> TestResult {
    run(async {
        let hook = json!({"url": "https://127.0.0.1:1/"});
        let error = refusal(&hook, "pods", &small("refused")).await;
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        let text = error.to_string();
        for words in ["failed calling webhook", "hook.example.org", "repair"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        Ok(())
    })
}

/// The error of a creation while this webhook checks new objects of the resource. Asserts that
/// nothing is left.
async fn refusal(hook: &Value, resource: &str, spec: &SandboxSpec) -> Error {
    let namespace = TestNamespace::new().await;
    let namespaces: Api<Namespace> = Api::all(namespace.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"sandbox-test": namespace.name}}}));
    namespaces
        .patch(&namespace.name, &PatchParams::default(), &label)
        .await
        .expect("a label");
    let hook = json!({
        "metadata": {"name": namespace.name},
        "webhooks": [{
            "name": "hook.example.org",
            "clientConfig": hook,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": [resource], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"sandbox-test": namespace.name}},
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
        }],
    });
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(namespace.client.clone());
    let hook = serde_json::from_value(hook).expect("a webhook");
    hooks
        .create(&PostParams::default(), &hook)
        .await
        .expect("made");
    // The API server applies the webhook asynchronously, and admits objects until then.
    let trial = tokio::time::timeout(CONTROLLER_TIMEOUT, async {
        loop {
            let client = client(namespace.config(), CapabilityPolicy::new());
            match client.create(spec).await {
                Ok(sandbox) => sandbox.kill().await.expect("killed"),
                Err(error) => return error,
            }
        }
    });
    let refused = trial.await;
    // It is not in the namespace, so it is removed here before the result is checked.
    let removed = hooks
        .delete(&namespace.name, &DeleteParams::default())
        .await;
    removed.map(drop).expect("removed");
    namespace.wait_empty().await;
    refused.expect("refused in time")
}

/// Refuses all requests.
async fn refuse_all(acceptor: TlsAcceptor, listener: TcpListener) {
    while let Ok((connection, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let stream = acceptor.accept(connection).await.expect("TLS");
            let mut stream = BufReader::new(stream);
            while let Some(review) = request(&mut stream).await {
                let answer = json!({
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                    "response": {
                        "uid": review["request"]["uid"], "allowed": false,
                        "status": {"code": 403, "message": WORDS},
                    },
                })
                .to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                    answer.len()
                );
                let sent = stream.write_all((head + &answer).as_bytes()).await;
                sent.expect("sent");
                stream.flush().await.expect("sent");
            }
        });
    }
}

/// The next request's body; `None` at the end of the connection.
async fn request(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    serde_json::from_slice(&body).ok()
}
