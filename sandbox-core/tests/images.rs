//! Decisions of the core about images, which hold for every backend.

mod common;

use common::{block_on, client, report};
use sandbox_core::{CapabilityPolicy, ErrorKind, Plan, PullPolicy, Result, SandboxSpec, Workspace};

fn policy(images: &[&str]) -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    policy.images = Some(images.iter().map(|&image| image.to_owned()).collect());
    policy
}

fn spec() -> SandboxSpec {
    SandboxSpec::new("test")
}

fn resolve(image: &str, images: &[&str]) -> Result<Plan> {
    Plan::resolve(&spec().image(image), &policy(images))
}

#[test]
fn image_outside_the_policy_is_refused_with_the_rule() {
    assert!(resolve("python:3.11-slim", &["alpine:3", "python:3.*"]).is_ok());
    let error = resolve("team/python:3.11", &["alpine:3", "python:3.*"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PolicyExceeded);
    let message = error.to_string();
    assert!(message.contains("docker.io/team/python:3.11"), "{message}");
    assert!(
        message.contains("images = [alpine:3, python:3.*]"),
        "{message}"
    );
    assert!(
        resolve("alpine:3", &[]).is_err(),
        "an empty list allows none"
    );
}

#[test]
fn invalid_image_names_are_refused_in_specification_and_policy() {
    let error = Plan::resolve(&spec().image("a b"), &CapabilityPolicy::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    let error = policy(&["a b"]).validate().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
    assert!(error.to_string().contains("images"), "{error}");
}

#[test]
fn pulled_built_and_committed_images_must_be_allowed() {
    block_on(async {
        let client = client(policy(&["python:*"]), report(&[]));
        let silent = &mut |_: &_| {};
        let pulled = client
            .pull_image("alpine", PullPolicy::Always, silent)
            .await;
        assert_eq!(pulled.unwrap_err().kind(), ErrorKind::PolicyExceeded);
        let build = sandbox_core::BuildRequest::new("/nowhere").tag("alpine");
        let built = client.build_image(&build, silent).await;
        assert_eq!(built.unwrap_err().kind(), ErrorKind::PolicyExceeded);
        let sandbox = client.create(&spec().writable_root(true)).await.unwrap();
        let committed = sandbox.commit("alpine").await;
        assert_eq!(committed.unwrap_err().kind(), ErrorKind::PolicyExceeded);
        let image = sandbox.commit("python:mine").await.unwrap();
        assert_eq!(image.names, ["docker.io/library/python:mine"]);
    });
}

#[test]
fn commit_needs_a_writable_root_and_a_name() {
    block_on(async {
        let client = client(CapabilityPolicy::new(), report(&[]));
        let digits = "0123456789abcdef".repeat(4);
        let sandbox = client.create(&spec()).await.unwrap();
        let error = sandbox.commit("mine:1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.fix().unwrap().contains("writable_root"), "{error}");
        let sandbox = client.create(&spec().writable_root(true)).await.unwrap();
        for tag in [format!("mine@sha256:{digits}"), format!("sha256:{digits}")] {
            let error = sandbox.commit(&tag).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{tag}");
        }
    });
}

#[test]
fn adoption_refuses_fields_of_new_sandboxes() {
    block_on(async {
        let client = client(CapabilityPolicy::new(), report(&[]));
        for spec in [
            spec().image("python"),
            spec().pull(PullPolicy::Missing),
            spec().image_retention(sandbox_core::ImageRetention::Remove),
            spec().writable_root(true),
            spec().workspace(Workspace::read_only("/")),
            spec().label("a", "b"),
        ] {
            let error = client.adopt("theirs", &spec).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{spec:?}");
        }
        assert!(client.adopt("theirs", &spec().env("A", "b")).await.is_ok());
    });
}

#[test]
fn adoption_is_refused_if_a_requirement_is_unenforced() {
    use sandbox_core::{Capability, Enforcement};
    block_on(async {
        let open = Enforcement::unenforced("the container is on network bridge");
        let report = report(&[(Capability::NetworkAccess, open)]);
        let refused = client(CapabilityPolicy::new(), report.clone());
        let error = refused.adopt("theirs", &spec()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnforceable);
        let policy = CapabilityPolicy::new().allow_unenforced(Capability::NetworkAccess);
        assert!(
            client(policy, report)
                .adopt("theirs", &spec())
                .await
                .is_ok()
        );
    });
}
