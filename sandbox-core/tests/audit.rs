//! What an audit is told.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{block_on, client, report};
use sandbox_core::audit::{AuditEvent, AuditRecord, FileOperation};
use sandbox_core::{
    Capability, CapabilityPolicy, Enforcement, ExecRequest, Outcome, SandboxClient, SandboxSpec,
};

type Records = Arc<Mutex<Vec<AuditRecord>>>;

fn audited(client: SandboxClient) -> (SandboxClient, Records) {
    let records = Records::default();
    let told = Arc::clone(&records);
    let audit = move |record| told.lock().unwrap().push(record);
    (client.audited(Arc::new(audit)), records)
}

fn events(records: &Records) -> Vec<AuditEvent> {
    let records = std::mem::take(&mut *records.lock().unwrap());
    records.into_iter().map(|record| record.event).collect()
}

#[test]
fn life_of_a_sandbox_is_told_with_its_labels() {
    let (client, records) = audited(client(CapabilityPolicy::new(), report(&[])));
    let spec = SandboxSpec::new("lab").label("team", "graders");
    block_on(async {
        let sandbox = client.create(&spec).await.unwrap();
        for record in records.lock().unwrap().iter() {
            assert_eq!(
                (record.tier.as_str(), record.sandbox.as_str()),
                ("fake", "lab")
            );
            assert_eq!(record.labels["team"], "graders");
        }
        let created = events(&records);
        assert!(
            matches!(
                &created[..],
                [AuditEvent::Admitted { .. }, AuditEvent::Created { .. }]
            ),
            "{created:?}"
        );
        let request = ExecRequest::new("login").arg("secret");
        sandbox.exec(&request).await.unwrap();
        let mut silent = request.clone();
        silent.log = false;
        sandbox.exec(&silent).await.unwrap();
        let started = |execution, argv: &[&str]| AuditEvent::ExecStarted {
            execution,
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            secrets: Vec::new(),
            user: None,
        };
        let ended = |execution| AuditEvent::ExecEnded {
            execution,
            outcome: Some(Outcome::Exited { code: 0 }),
            error: None,
            cpu_time: None,
            max_rss: None,
        };
        assert_eq!(
            events(&records),
            [
                started(1, &["login", "secret"]),
                ended(1),
                started(2, &["login"]),
                ended(2),
            ]
        );
        sandbox.kill().await.unwrap();
        drop(sandbox);
        assert_eq!(events(&records), [AuditEvent::Removed], "once");
        drop(client.create(&spec).await.unwrap());
        assert_eq!(events(&records).last(), Some(&AuditEvent::Removed));
    });
}

#[test]
fn file_operations_are_told_with_their_errors() {
    let (client, records) = audited(client(CapabilityPolicy::new(), report(&[])));
    block_on(async {
        let sandbox = client.create(&SandboxSpec::new("lab")).await.unwrap();
        events(&records);
        let results = [
            (
                sandbox.write("a", "content").await,
                FileOperation::Write,
                None,
            ),
            (sandbox.read("b").await.map(drop), FileOperation::Read, None),
            (sandbox.mkdir("c").await, FileOperation::MakeFolder, None),
            (sandbox.remove("d").await, FileOperation::Remove, None),
            (
                sandbox.copy_in("/host", "e").await.map(drop),
                FileOperation::CopyIn,
                Some("/host"),
            ),
            (
                sandbox.copy_out("f", "/host").await.map(drop),
                FileOperation::CopyOut,
                Some("/host"),
            ),
        ];
        let told = events(&records);
        assert_eq!(told.len(), results.len(), "{told:?}");
        for ((told, (result, operation, host)), path) in told
            .into_iter()
            .zip(results)
            .zip(["a", "b", "c", "d", "e", "f"])
        {
            let expected = AuditEvent::Files {
                operation,
                paths: vec![path.to_owned()],
                host: host.map(ToOwned::to_owned),
                error: result.err().map(|error| error.to_string()),
            };
            assert_eq!(told, expected);
        }
        // A path that cannot be one reaches no sandbox.
        sandbox.write("", "content").await.unwrap_err();
        assert_eq!(events(&records), []);
    });
}

#[test]
fn refusal_is_told_with_its_reason() {
    let weak = report(&[(Capability::Memory, Enforcement::unenforced("no cgroups"))]);
    let mut policy = CapabilityPolicy::new();
    policy.timeout = Some(Duration::from_secs(1));
    let policy = policy.memory("64MiB".parse().unwrap());
    let (client, records) = audited(client(policy, weak));
    block_on(client.create(&SandboxSpec::new("lab"))).unwrap_err();
    let events = events(&records);
    let [AuditEvent::NotCreated { kind, reason }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(kind, "not_enforceable");
    assert!(reason.contains("no cgroups"), "{reason}");
}
