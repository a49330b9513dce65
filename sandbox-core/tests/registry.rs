//! Tiers that register themselves at link time.

use std::sync::Arc;

use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::registry::{self, FeatureHint, Registration};
use sandbox_core::spi::{Backend, inventory};
use sandbox_core::{
    Capability, CapabilityPolicy, Enforcement, EnforcementReport, ErrorKind, OneShot, Result,
    SandboxClient,
};

mod common;

fn open() -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(FakeBackend::new(|_| {
        Ok(FakeAnswer::stdout("ran"))
    })))
}

fn open_lax() -> Result<Arc<dyn Backend>> {
    let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("ran")));
    Ok(Arc::new(backend.enforcing(EnforcementReport::nothing(
        "this tier applies no policy",
    ))))
}

sandbox_core::register!(
    Registration::new("toy_unsafe", "toy", "a toy without policy", open_lax).without_policy()
);
sandbox_core::register!(Registration::new("toy", "toy", "a toy", open));
sandbox_core::register!(Registration::new(
    "toy_lax",
    "toy",
    "a toy that enforces nothing",
    open_lax
));

inventory::submit! { FeatureHint { tier: "boat", feature: "boats" } }
inventory::submit! { FeatureHint { tier: "toy", feature: "toys" } }

#[test]
fn tiers_are_sorted_by_name() {
    let names = registry::tiers()
        .unwrap()
        .iter()
        .map(|tier| tier.tier)
        .collect::<Vec<_>>();
    assert_eq!(names, ["toy", "toy_lax", "toy_unsafe"]);
}

#[test]
fn unknown_tier_error_lists_linked_tiers_and_features() {
    let unknown = |name: &str| {
        let error = SandboxClient::open(name, CapabilityPolicy::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownBackend);
        error.to_string()
    };
    insta::assert_snapshot!(unknown("boat"), @r#"choose backend failed: unknown tier "boat"; available: toy, toy_lax, toy_unsafe (fix: build with --features boats)"#);
    insta::assert_snapshot!(unknown("bout"), @r#"choose backend failed: unknown tier "bout"; available: toy, toy_lax, toy_unsafe (fix: choose one of these, or build with --features boats for boat)"#);
}

#[test]
fn admission_applies_to_every_tier_with_a_policy() {
    common::block_on(async {
        let run = async |tier: &str| {
            let client = SandboxClient::open(tier, CapabilityPolicy::new()).unwrap();
            client.run_shell("true", OneShot::default()).await
        };
        assert!(run("toy").await.unwrap().success());
        assert!(run("toy_unsafe").await.unwrap().success());
        assert_eq!(
            run("toy_lax").await.unwrap_err().kind(),
            ErrorKind::NotEnforceable
        );
    });
}

#[test]
fn tier_without_policy_reports_every_capability_as_unenforced() {
    common::block_on(async {
        let client = SandboxClient::open("toy_unsafe", CapabilityPolicy::new()).unwrap();
        assert_eq!(client.enforced_capabilities().await.unwrap(), []);
        assert_eq!(
            client.unenforced_capabilities().await.unwrap(),
            Capability::ALL
        );
        let spec = sandbox_core::SandboxSpec::new("toy");
        let sandbox = client.create(&spec).await.unwrap();
        let is_unenforced =
            |enforcement: &Enforcement| matches!(enforcement, Enforcement::Unenforced { .. });
        assert!(
            sandbox
                .enforcement()
                .iter()
                .all(|(_, enforcement)| is_unenforced(enforcement))
        );
    });
}
