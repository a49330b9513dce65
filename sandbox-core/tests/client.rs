//! Admission by the client, and detached sandboxes.

mod common;

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::spi::Backend;
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Enforcement, ErrorKind, ExecRequest, OneShot,
    SandboxClient, SandboxInfo, SandboxOwner, SandboxSpec, SandboxState,
};

use common::faulty::{Fault, Faulty};

#[test]
fn refused_specification_creates_no_sandbox() {
    common::block_on(async {
        let report = common::report(&[(Capability::EnvVarAccess, Enforcement::unenforced("no"))]);
        let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout(""))).enforcing(report);
        let seen = backend.seen();
        let client =
            SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new()).unwrap();
        let error = client
            .run_shell("true", OneShot::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnforceable);
        assert_eq!(error.unmet()[0].demand.capability, Capability::EnvVarAccess);
        assert!(seen.lock().unwrap().is_empty());
    });
}

#[test]
fn sandbox_that_enforces_less_than_assessed_is_killed_unused() {
    common::block_on(async {
        let backend = Faulty::new(Fault::Boasts);
        let client = backend.client(CapabilityPolicy::new());
        let error = client.create(&SandboxSpec::new("test")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnforceable);
        assert_eq!(backend.counts(), (1, 1));
    });
}

#[test]
fn backend_without_detached_sandboxes_reports_unsupported() {
    common::block_on(async {
        let client = Faulty::default().client(CapabilityPolicy::new());
        assert_eq!(
            client.get("some-name").await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            client.list().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            client.remove("some-name").await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    });
}

#[test]
fn detached_sandbox_is_found_by_name_and_keeps_its_plan() {
    common::block_on(async {
        let backend: Arc<dyn Backend> =
            Arc::new(FakeBackend::new(|_| Ok(FakeAnswer::stdout("hello"))));
        let client = |policy| SandboxClient::with_backend(Arc::clone(&backend), policy).unwrap();
        let policy = CapabilityPolicy::new()
            .timeout(Duration::from_secs(5))
            .stdout_max_bytes(ByteSize::bytes(3));
        let creator = client(policy);
        let spec = SandboxSpec::new("kept").detached(true).label("team", "a");
        let created = creator.create(&spec).await.unwrap();
        assert_eq!(
            created.plan().lifetime,
            Some(sandbox_core::plan::defaults::DETACHED_LIFETIME)
        );
        let again = creator.create(&spec).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        drop(created);

        let other = CapabilityPolicy::new()
            .timeout(Duration::from_secs(1))
            .stdout_max_bytes(ByteSize::mib(1));
        let found = client(other).get("kept").await.unwrap();
        assert_eq!(found.plan().timeout, Duration::from_secs(1));
        assert_eq!(found.plan().stdout_max, ByteSize::bytes(3));
        let list = creator.list().await.unwrap();
        assert_eq!((list.len(), list[0].name.as_str()), (1, "kept"));
        assert_eq!(list[0].labels["team"], "a");
        assert_eq!(creator.prune().await.unwrap(), Vec::<String>::new());
        creator.remove("kept").await.unwrap();
        for error in [
            creator.get("kept").await.unwrap_err(),
            creator.remove("kept").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        }
        for bad in ["", "..", "a/b", "A"] {
            let error = creator.get(bad).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{bad:?}");
        }
    });
}

#[test]
fn backend_without_detached_sandboxes_refuses_to_create_one() {
    common::block_on(async {
        let backend = Faulty::new(Fault::None);
        let spec = SandboxSpec::new("kept").detached(true);
        let error = backend
            .client(CapabilityPolicy::new())
            .create(&spec)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(backend.counts(), (0, 0));
    });
}

fn shared_backend() -> impl Fn() -> SandboxClient {
    let backend: Arc<dyn Backend> = Arc::new(FakeBackend::new(|_| Ok(FakeAnswer::stdout("hello"))));
    move || SandboxClient::with_backend(Arc::clone(&backend), CapabilityPolicy::new()).unwrap()
}

fn names(list: &[SandboxInfo]) -> Vec<&str> {
    list.iter().map(|info| info.name.as_str()).collect()
}

#[test]
fn creator_finds_its_attached_sandbox_by_name() {
    common::block_on(async {
        let client = shared_backend()();
        let created = client.create(&SandboxSpec::new("mine")).await.unwrap();
        let found = client.clone().get("mine").await.unwrap();
        let result = found.exec(&ExecRequest::new("true")).await.unwrap();
        assert_eq!(result.stdout_text(), "hello");
        let list = client.list().await.unwrap();
        assert_eq!(names(&list), ["mine"]);
        assert_eq!(list[0].owner, Some(SandboxOwner::this_process()));
        assert_eq!(client.list_all().await.unwrap(), list);
        // The sandbox ends with its last handle.
        drop(created);
        client.get("mine").await.unwrap();
        drop(found);
        let error = client.get("mine").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound);
        assert_eq!(client.list_all().await.unwrap(), []);
    });
}

#[test]
fn creator_removes_its_attached_sandbox_by_name() {
    common::block_on(async {
        let client = shared_backend()();
        let older = client.create(&SandboxSpec::new("mine")).await.unwrap();
        let newer = client
            .create(&SandboxSpec::new("mine").label("a", "b"))
            .await
            .unwrap();
        client.remove("mine").await.unwrap();
        let list = client.list().await.unwrap();
        assert_eq!(list.len(), 1);
        assert!(list[0].labels.is_empty(), "the last one was removed first");
        older.kill().await.unwrap();
        let error = client.remove("mine").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound);
        drop(newer);
    });
}

#[test]
fn attached_sandbox_whose_lifetime_is_over_has_ended() {
    common::block_on(async {
        let client = shared_backend()();
        let spec = SandboxSpec::new("brief").lifetime(Duration::from_nanos(1));
        let _handle = client.create(&spec).await.unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let error = client.get("brief").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SandboxEnded);
        let list = client.list().await.unwrap();
        assert_eq!(list[0].state, SandboxState::Ended);
        client.remove("brief").await.unwrap();
        assert_eq!(client.list().await.unwrap(), []);
    });
}

#[test]
fn attached_sandbox_of_another_client_is_refused_with_its_owner() {
    common::block_on(async {
        let client = shared_backend();
        let creator = client();
        let other = client();
        let handle = creator.create(&SandboxSpec::new("theirs")).await.unwrap();
        let pid = std::process::id();
        for error in [
            other.get("theirs").await.unwrap_err(),
            other.remove("theirs").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::SandboxAttached);
            let expected = format!("the sandbox \"theirs\" is attached to process {pid}");
            assert_eq!(error.context(), expected);
            assert!(error.fix().is_some());
        }
        assert_eq!(other.list().await.unwrap(), []);
        let all = other.list_all().await.unwrap();
        assert_eq!(names(&all), ["theirs"]);
        assert_eq!(all[0].owner, Some(SandboxOwner::process(pid)));
        handle.exec(&ExecRequest::new("true")).await.unwrap();
    });
}
