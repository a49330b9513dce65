use super::*;
use crate::lowering::CONTAINER;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::future::Ready;
use std::task::{Context, Poll};

/// An API server that plays back answers and records the requests.
#[derive(Clone, Default)]
struct FakeApiServer {
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl tower_service::Service<Request<Body>> for FakeApiServer {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Ready<Result<Response<Body>, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let asked = request.uri().query().unwrap_or_default();
        let watches = asked.split('&').any(|pair| pair == "watch=true");
        let from = asked
            .split('&')
            .find_map(|pair| pair.strip_prefix("resourceVersion="));
        self.asked.lock().expect("a list").push(match watches {
            true => format!("watch {}", from.unwrap_or_default()),
            false => "list".to_owned(),
        });
        assert!(
            asked.contains("labelSelector=sandbox.client%3Dme"),
            "{asked}"
        );
        let next = self.answers.lock().expect("a list").pop_front();
        std::future::ready(match next {
            Some((0, why)) => Err(std::io::Error::other(why)),
            Some((status, text)) => {
                let answer = Response::builder().status(status);
                Ok(answer.body(text.into_bytes().into()).expect("an answer"))
            }
            None => Err(std::io::Error::other("nothing more was expected")),
        })
    }
}

fn pod(name: &str, version: u32, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "resourceVersion": version.to_string(),
            "annotations": {"sandbox.creation": format!("creation-{name}")},
        },
        "status": {"phase": phase},
    })
}

fn list(version: u32, pods: &[Value]) -> (u16, String) {
    let list = json!({
        "apiVersion": "v1", "kind": "PodList",
        "metadata": {"resourceVersion": version.to_string()}, "items": pods,
    });
    (200, list.to_string())
}

fn events(events: &[(&str, Value)]) -> (u16, String) {
    let lines = events
        .iter()
        .map(|(kind, object)| json!({"type": kind, "object": object}).to_string() + "\n");
    (200, lines.collect())
}

fn gone() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410})
}

fn watch(answers: impl IntoIterator<Item = (u16, String)>) -> (Arc<PodWatch>, FakeApiServer) {
    let server = FakeApiServer::default();
    server.answers.lock().expect("a list").extend(answers);
    let client = Client::new(server.clone(), "ns");
    let pods = Api::namespaced(client, "ns");
    (Arc::new(PodWatch::new(pods, "me")), server)
}

/// The phase in a change, or the kind of the change.
async fn next(subscription: &mut PodSubscription) -> String {
    match timeout(Duration::from_secs(60), subscription.next()).await {
        Ok(PodChange::Pod(pod)) => pod.status.and_then(|it| it.phase).unwrap_or_default(),
        Ok(PodChange::Removed) => "removed".into(),
        Ok(PodChange::Refused(asked, status)) => {
            format!("{} refused {}", asked.right(), status.code)
        }
        Ok(PodChange::Unreachable(_)) => "silent".into(),
        Err(_) => "nothing".into(),
    }
}

#[tokio::test]
async fn subscribers_share_one_watch_across_restarts() {
    let (watch, server) = watch([
        list(5, &[]),
        events(&[
            ("ADDED", pod("a", 6, "Pending")),
            ("ADDED", pod("b", 7, "Pending")),
            ("MODIFIED", pod("a", 8, "Running")),
            ("MODIFIED", pod("c", 9, "Running")),
        ]),
        // The watch is closed and resumed; then its version is too old.
        events(&[("ERROR", gone())]),
        list(20, &[pod("b", 19, "Running")]),
        (0, "connection refused".into()),
        list(30, &[pod("b", 29, "Failed")]),
    ]);
    let (mut a, mut b) = (
        watch.subscribe("a", "creation-a"),
        watch.subscribe("b", "creation-b"),
    );
    assert_eq!(next(&mut a).await, "Pending");
    assert_eq!(next(&mut a).await, "Running");
    a.mark_created();
    assert_eq!(next(&mut b).await, "Pending");
    b.mark_created();
    assert_eq!(next(&mut b).await, "Running");
    // The list does not contain the pod.
    assert_eq!(next(&mut a).await, "removed");
    assert_eq!(next(&mut b).await, "Failed");
    let asked = server.asked.lock().expect("a list")[..6].to_vec();
    assert_eq!(
        asked,
        ["list", "watch 5", "watch 9", "list", "watch 20", "list"]
    );
}

#[tokio::test]
async fn refusal_reaches_all_subscribers_and_ends_the_watch() {
    let refused = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403});
    let (watch, server) = watch([(403, refused.to_string())]);
    let (mut a, mut b) = (
        watch.subscribe("a", "creation-a"),
        watch.subscribe("b", "creation-b"),
    );
    assert_eq!(next(&mut a).await, "list on pods refused 403");
    assert_eq!(next(&mut b).await, "list on pods refused 403");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(server.asked.lock().expect("a list").len(), 1);
}

#[tokio::test]
async fn lasting_outage_is_reported() {
    let (watch, server) = watch([]);
    let mut subscription = watch.subscribe("a", "creation-a");
    assert_eq!(next(&mut subscription).await, "silent");
    // The pauses grow.
    let asked = server.asked.lock().expect("a list").len();
    assert!((3..=20).contains(&asked), "{asked}");
}

#[tokio::test]
async fn pod_missing_from_list_before_creation_is_not_removed() {
    let (watch, _server) = watch([
        list(5, &[]),
        (0, "connection refused".into()),
        list(6, &[]),
        events(&[("ADDED", pod("a", 7, "Running"))]),
    ]);
    let mut subscription = watch.subscribe("a", "creation-a");
    assert_eq!(next(&mut subscription).await, "Running");
}

#[tokio::test]
async fn end_of_running_pod_is_reported_without_waiting() {
    let mut ended = pod("a", 7, "Running");
    ended["status"]["containerStatuses"] = json!([{
        "name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1}},
    }]);
    let (watch, _server) = watch([
        list(5, &[pod("a", 4, "Running")]),
        events(&[("MODIFIED", ended)]),
    ]);
    let mut subscription = watch.subscribe("a", "creation-a");
    subscription.mark_created();
    assert_eq!(next(&mut subscription).await, "Running");
    subscription.mark_running();
    let begin = Instant::now();
    while !subscription.has_ended() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "the end is not reported"
        );
        sleep(Duration::from_millis(10)).await;
    }
}
