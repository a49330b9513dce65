//! Pods that differ from the requested ones, because a proxy changes the request as an admission
//! webhook would. They are not used, and nothing is left.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use sandbox_core::{CapabilityPolicy, ErrorKind, SandboxState};
use serde_json::{Value, json};

use crate::cluster::{output, run, small};
use crate::test_namespace::{TestNamespace, client, wait_until};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("changed_pods::additions_are_refused_and_removed", added),
    (
        "changed_pods::labels_of_a_specification_select_nothing",
        labels,
    ),
    #[cfg(feature = "mutants")]
    (
        "changed_pods::without_the_comparison_a_changed_pod_runs",
        uncompared,
    ),
    #[cfg(feature = "mutants")]
    (
        "changed_pods::labels_of_the_pod_would_be_selected",
        selected,
    ),
];

/// Changes each new pod on its way to the API server.
#[derive(Clone)]
pub struct Changing {
    client: Client,
    change: fn(&mut Value),
}

impl Changing {
    pub fn client(client: Client, namespace: &str, change: fn(&mut Value)) -> Client {
        Client::new(Self { client, change }, namespace)
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let creates_pod =
            request.method() == Method::POST && request.uri().path().ends_with("/pods");
        if !creates_pod {
            return self.client.send(request).await;
        }
        let (mut parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await?;
        let mut pod = serde_json::from_slice(&bytes).expect("a pod");
        (self.change)(&mut pod);
        parts.headers.remove(http::header::CONTENT_LENGTH);
        let changed = serde_json::to_vec(&pod).expect("JSON");
        self.client
            .send(Request::from_parts(parts, Body::from(changed)))
            .await
    }
}

impl tower_service::Service<Request<Body>> for Changing {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// A change of a pod.
type PodEdit = fn(&mut Value);

/// Changes, each with the text that the error contains.
const CHANGES: &[(&str, PodEdit)] = &[
    ("container \"istio-proxy\"", sidecar),
    ("init container \"setup\"", |pod| {
        let mut setup = pod["spec"]["containers"][0].clone();
        setup["name"] = json!("setup");
        setup["command"] = json!(["/bin/true"]);
        pod["spec"]["initContainers"] = json!([setup]);
    }),
    ("volume \"kube-api-access-x\"", |pod| {
        let token = json!({"serviceAccountToken": {"path": "token"}});
        push(
            &mut pod["spec"]["volumes"],
            json!({"name": "kube-api-access-x", "projected": {"sources": [token]}}),
        );
        let path = "/var/run/secrets/kubernetes.io/serviceaccount";
        push(
            &mut pod["spec"]["containers"][0]["volumeMounts"],
            json!({"name": "kube-api-access-x", "mountPath": path}),
        );
    }),
    ("volume \"node\"", |pod| {
        push(
            &mut pod["spec"]["volumes"],
            json!({"name": "node", "hostPath": {"path": "/tmp"}}),
        );
    }),
    ("metadata.labels.app", label),
    ("securityContext.capabilities.add", |pod| {
        let context = &mut pod["spec"]["containers"][0]["securityContext"];
        push(&mut context["capabilities"]["add"], json!("SYS_PTRACE"));
    }),
    ("spec.hostPID", |pod| pod["spec"]["hostPID"] = json!(true)),
    ("k8s.v1.cni.cncf.io/networks", |pod| {
        pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!("other");
    }),
];

fn sidecar(pod: &mut Value) {
    let mut sidecar = pod["spec"]["containers"][0].clone();
    sidecar["name"] = json!("istio-proxy");
    sidecar["command"] = json!(["/bin/sleep", "100"]);
    push(&mut pod["spec"]["containers"], sidecar);
}

fn label(pod: &mut Value) {
    pod["metadata"]["labels"]["app"] = json!("api");
}

fn push(list: &mut Value, element: Value) {
    match list {
        Value::Array(elements) => elements.push(element),
        other => *other = json!([element]),
    }
}

fn added() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        for (words, change) in CHANGES {
            let changing = Changing::client(namespace.client.clone(), &namespace.name, *change);
            let client = client(namespace.config().client(changing), CapabilityPolicy::new());
            let error = client.create(&small("changed")).await.expect_err(words);
            assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
            let text = error.to_string();
            for words in [*words, "differs from the requested one", "webhook"] {
                assert!(text.contains(words), "{words}: {text}");
            }
        }
        namespace.wait_empty().await;
        Ok(())
    })
}

/// Whether a service with this selector has a pod behind it.
async fn is_selected(namespace: &TestNamespace, pod: &str) -> bool {
    let service = json!({
        "metadata": {"name": "api"},
        "spec": {"selector": {"app": "api"}, "ports": [{"port": 80}]},
    });
    namespace.make::<Service>(service).await;
    // The control: once a pod with the label is an endpoint, any other selected pod is, too.
    let control = json!({
        "metadata": {"name": "control", "labels": {"app": "api"}},
        "spec": {"containers": [{
            "name": "main", "image": "sandbox-test/busybox:latest", "imagePullPolicy": "Never",
            "command": ["sleep", "100"],
        }], "terminationGracePeriodSeconds": 0},
    });
    namespace
        .start(&serde_json::from_value(control).expect("a pod"))
        .await;
    let behind = async || {
        let found = namespace
            .api::<Endpoints>()
            .get_opt("api")
            .await
            .expect("asked");
        let found = serde_json::to_value(found).expect("JSON");
        let subsets = found["subsets"].as_array().cloned().unwrap_or_default();
        let addresses = subsets.iter().flat_map(|subset| {
            let of = |kind: &str| subset[kind].as_array().cloned().unwrap_or_default();
            [of("addresses"), of("notReadyAddresses")].concat()
        });
        let names = addresses.map(|address| address["targetRef"]["name"].to_string());
        names.collect::<Vec<_>>()
    };
    wait_until("the control is selected", async || {
        behind().await.iter().any(|name| name.contains("control"))
    })
    .await;
    let selected = namespace
        .pods()
        .list(&ListParams::default().labels("app=api"))
        .await;
    let selected = selected.expect("a list").items;
    let by_label = selected
        .iter()
        .any(|found| found.metadata.name.as_deref() == Some(pod));
    let behind = behind().await.iter().any(|name| name.contains(pod));
    assert_eq!(behind, by_label);
    behind
}

fn labels() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client(namespace.config(), CapabilityPolicy::new());
        let spec = small("labeled")
            .label("app", "api")
            .label("azure.workload.identity/use", "true")
            .label("no label for a cluster", "ü")
            .detached(true)
            .lifetime(std::time::Duration::from_secs(120));
        let sandbox = client.create(&spec).await?;
        let pod = namespace.names().await.remove(0);
        assert!(!is_selected(&namespace, &pod).await, "{pod}");
        let listed = client.list().await?;
        assert_eq!(listed.len(), 1);
        assert_eq!(
            (listed[0].state, &listed[0].labels),
            (SandboxState::Running, &spec.labels)
        );
        assert_eq!(output(&sandbox, "echo here").await, "here\n");
        client.remove("labeled").await?;
        Ok(())
    })
}

#[cfg(feature = "mutants")]
fn selected() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let config = namespace.config().mutated(sandbox_k8s::PodMutation::Labels);
        let client = client(config, CapabilityPolicy::new());
        let sandbox = client.create(&small("labeled").label("app", "api")).await?;
        let pod = namespace.names().await.remove(0);
        assert!(is_selected(&namespace, &pod).await, "{pod}");
        assert_eq!(output(&sandbox, "echo here").await, "here\n");
        sandbox.kill().await?;
        Ok(())
    })
}

#[cfg(feature = "mutants")]
fn uncompared() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let changing = Changing::client(namespace.client.clone(), &namespace.name, |pod| {
            sidecar(pod);
            label(pod);
        });
        let config = namespace
            .config()
            .mutated(sandbox_k8s::PodMutation::Comparison);
        let client = client(config.client(changing), CapabilityPolicy::new());
        let sandbox = client.create(&small("changed")).await?;
        let selected = namespace
            .pods()
            .list(&ListParams::default().labels("app=api"))
            .await?;
        let [pod] = &selected.items[..] else {
            panic!("{selected:?}");
        };
        assert_eq!(pod.spec.as_ref().expect("a spec").containers.len(), 2);
        sandbox.kill().await?;
        namespace.wait_empty().await;
        Ok(())
    })
}
