//! Whether a tier supports a specification, as data.

mod common;

use std::time::Duration;

use common::{block_on, client, report};
use sandbox_core::support::Answer;
use sandbox_core::{ByteSize, Capability, CapabilityPolicy, Enforcement, ErrorKind, SandboxSpec};

#[test]
fn refusal_has_the_waiver_that_would_accept_it() {
    let policy = CapabilityPolicy::new()
        .memory(ByteSize::mib(64))
        .timeout(Duration::from_secs(1));
    let exceptions = [
        (Capability::Memory, Enforcement::partial("sampler", "late")),
        (Capability::Timeout, Enforcement::unenforced("no clock")),
    ];
    let spec = SandboxSpec::new("question");
    let support = block_on(client(policy.clone(), report(&exceptions)).supports(&spec)).unwrap();
    assert!(!support.is_enforced());
    let Answer::Refused { unmet, waiver } = &support.answer else {
        panic!("{support:?}");
    };
    assert_eq!(unmet.len(), 2);
    assert_eq!(waiver.allow_partial, [Capability::Memory]);
    assert_eq!(waiver.allow_unenforced, [Capability::Timeout]);
    // A client whose policy has the waiver accepts the specification.
    let waived = waiver.applied_to(policy).unwrap();
    let support = block_on(client(waived, report(&exceptions)).supports(&spec)).unwrap();
    assert_eq!(support.answer, Answer::Accepted);
    assert!(
        support
            .demands
            .iter()
            .any(|one| one.enforcement.status() == "partial")
    );
}

#[test]
fn output_limits_cannot_be_waived() {
    let policy = CapabilityPolicy::new().stdout_max_bytes(ByteSize::kib(1));
    let exceptions = [(Capability::StdoutMaxBytes, Enforcement::unenforced("no"))];
    let client = client(policy.clone(), report(&exceptions));
    let support = block_on(client.supports(&SandboxSpec::new("question"))).unwrap();
    let Answer::Refused { waiver, .. } = &support.answer else {
        panic!("{support:?}");
    };
    let error = waiver.applied_to(policy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
}

#[test]
fn specification_beyond_the_policy_is_an_error() {
    let client = client(CapabilityPolicy::new(), report(&[]));
    let mut spec = SandboxSpec::new("question");
    spec.memory = Some(ByteSize::mib(1));
    spec.egress = Some(vec!["example.org".into()]);
    let error = block_on(client.supports(&spec)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PolicyExceeded);
}
