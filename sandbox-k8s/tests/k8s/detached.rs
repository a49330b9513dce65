//! Sandboxes that outlive their creators.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use sandbox_core::{
    ErrorKind, ExecRequest, Outcome, SandboxClient, SandboxHandle, SandboxSpec, SandboxState,
};

use crate::cluster::{self, client_with, config_in, output, run, small};
use crate::contract::SHORT_LIFETIME;
use crate::inspection::has_ended;
use crate::test_namespace::TestNamespace;
use crate::{ClusterTest, TestResult, owner};

pub const TESTS: &[ClusterTest] = &[
    (
        "detached::consecutive_and_concurrent_clients_share_it",
        used_by_others,
    ),
    (
        "detached::one_of_many_concurrent_creations_succeeds",
        one_wins,
    ),
    ("detached::it_outlives_its_killed_creator", creator_killed),
    (
        "detached::it_ends_after_its_lifetime_without_a_client",
        time_over,
    ),
    ("detached::its_key_is_only_in_its_secret", key),
    ("detached::a_cancelled_creation_leaves_nothing", given_up),
    ("detached::a_removed_pod_is_reported", removed_by_others),
    ("detached::a_missing_right_to_its_secret_is_named", no_right),
];

fn client_in(namespace: &TestNamespace) -> SandboxClient {
    cluster::client_in(&namespace.name)
}

fn spec(name: &str) -> SandboxSpec {
    small(name)
        .detached(true)
        .lifetime(Duration::from_secs(120))
}

fn used_by_others() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client_in(&namespace);
        let spec = spec("kept_one.x").label("team", "x");
        let first = client.create(&spec).await?;
        output(&first, "echo one > /workspace/file; echo written").await;
        let other = client_in(&namespace);
        let second = other.get(&spec.name).await?;
        assert_eq!(output(&second, "cat /workspace/file").await, "one\n");
        let third = client_in(&namespace).get(&spec.name).await?;
        let (one, two) = tokio::join!(
            output(&second, "sleep 1; echo second"),
            output(&third, "sleep 1; echo third")
        );
        assert_eq!((&*one, &*two), ("second\n", "third\n"));
        drop(first);
        assert_eq!(output(&second, "cat file").await, "one\n");
        let listed = other.list().await?;
        let [info] = &listed[..] else {
            panic!("{listed:?}");
        };
        assert_eq!(
            (&*info.name, info.state),
            ("kept_one.x", SandboxState::Running)
        );
        assert_eq!(info.labels, [("team".to_owned(), "x".to_owned())].into());
        assert!(info.expires.is_some_and(|end| end > info.created));
        let taken = client.create(&spec).await.expect_err("taken");
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "{taken}");
        let logs = second.logs(None).await?;
        assert!(String::from_utf8_lossy(&logs).contains("written"));
        drop((second, third));
        assert!(client.prune().await?.is_empty(), "it runs");
        other.get(&spec.name).await?.stop().await?;
        namespace.wait_for_pods("gone", <[Pod]>::is_empty).await;
        for error in [
            other.get(&spec.name).await.expect_err("ended"),
            other.remove(&spec.name).await.expect_err("ended"),
        ] {
            assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        }
        assert!(other.list().await?.is_empty());
        namespace.wait_without_secrets().await;
        Ok(())
    })
}

fn one_wins() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let spec = spec("wanted");
        let creations = (0..4).map(|_| {
            let (client, spec) = (client_in(&namespace), spec.clone());
            tokio::spawn(async move { client.create(&spec).await })
        });
        let creations = creations.collect::<Vec<_>>();
        let mut won: Vec<SandboxHandle> = Vec::new();
        for creation in creations {
            match creation.await? {
                Ok(sandbox) => won.push(sandbox),
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
        let [sandbox] = &won[..] else {
            panic!("{} have won", won.len());
        };
        assert_eq!(output(sandbox, "echo mine").await, "mine\n");
        assert_eq!(namespace.list().await.len(), 1);
        client_in(&namespace).remove("wanted").await?;
        // The name is free at once, even if the Secret still exists.
        client_in(&namespace).create(&spec).await?.kill().await?;
        Ok(())
    })
}

fn creator_killed() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        owner::start(&namespace.name, "orphan", true).kill();
        let client = client_in(&namespace);
        let sandbox = client.get("orphan").await?;
        assert_eq!(output(&sandbox, "echo alive").await, "alive\n");
        sandbox.kill().await?;
        Ok(())
    })
}

fn time_over() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client_in(&namespace);
        let spec = spec("brief").lifetime(SHORT_LIFETIME);
        let sandbox = client.create(&spec).await?;
        let result = sandbox.exec(&ExecRequest::new("sleep").arg("60")).await?;
        assert!(
            matches!(&result.outcome, Outcome::Unknown { .. }),
            "{result:?}"
        );
        drop(sandbox);
        namespace
            .wait_for_pods("over", |pods| pods.iter().all(has_ended))
            .await;
        let error = client.get("brief").await.expect_err("over");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        assert_eq!(client.list().await?[0].state, SandboxState::Ended);
        assert_eq!(client.prune().await?, ["brief"]);
        namespace.wait_for_pods("removed", <[Pod]>::is_empty).await;
        namespace.wait_without_secrets().await;
        // The same without a client until the lifetime is over.
        drop(client.create(&spec).await?);
        namespace
            .wait_for_pods("over", |pods| pods.iter().all(has_ended))
            .await;
        // An ended sandbox does not block its name.
        client.create(&spec).await?.kill().await?;
        Ok(())
    })
}

fn key() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client_in(&namespace);
        let sandbox = client.create(&spec("secret")).await?;
        let kept = namespace.sandbox_secrets().await;
        let [secret] = &kept[..] else {
            panic!("{kept:?}");
        };
        let data = secret.data.as_ref().expect("data");
        let key = data["key"].0.clone();
        assert_eq!(key.len(), 32);
        let pods = namespace.list().await;
        let owners = secret.metadata.owner_references.as_ref().expect("an owner");
        assert_eq!(Some(&owners[0].uid), pods[0].metadata.uid.as_ref());
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{key:?}");
        let raw = String::from_utf8_lossy(&key).into_owned();
        for (what, text) in namespace.everything().await {
            let found = text.contains(&hex) || text.contains(&list) || text.contains(&raw);
            assert_eq!(found, what.starts_with("key of Secret"), "{what}");
        }
        // A wrong key is refused, and does not disturb other clients.
        let mut wrong = secret.clone();
        wrong.metadata.resource_version = None;
        wrong.metadata.uid = None;
        wrong
            .data
            .get_or_insert_default()
            .get_mut("key")
            .expect("a key")
            .0 = vec![0; 32];
        let name = secret.metadata.name.as_deref().expect("a name");
        let secrets = namespace.secrets();
        secrets.delete(name, &DeleteParams::default()).await?;
        let error = client.get("secret").await.expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        secrets.create(&PostParams::default(), &wrong).await?;
        let error = client.get("secret").await.expect_err("wrong key");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        assert_eq!(output(&sandbox, "echo alive").await, "alive\n");
        sandbox.kill().await?;
        Ok(())
    })
}

fn given_up() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client_in(&namespace);
        let mut cut = 0;
        for delay in [0, 10, 100, 300, 600, 900] {
            let spec = spec(&format!("given-up-{delay}"));
            let creation = client.create(&spec);
            let made = tokio::time::timeout(Duration::from_millis(delay), creation).await;
            match made {
                Err(_) => cut += 1,
                Ok(made) => made?.kill().await?,
            }
        }
        assert!(cut >= 3, "only {cut} creations were cut off");
        namespace.wait_for_pods("gone", <[Pod]>::is_empty).await;
        namespace.wait_without_secrets().await;
        Ok(())
    })
}

fn removed_by_others() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client_in(&namespace);
        let sandbox = client.create(&spec("evicted")).await?;
        let name = namespace.list().await[0]
            .metadata
            .name
            .clone()
            .expect("a name");
        let now = DeleteParams::default().grace_period(0);
        namespace.pods().delete(&name, &now).await?;
        let result = sandbox.exec(&ExecRequest::new("sleep").arg("60")).await;
        match result {
            Ok(result) => assert!(
                matches!(&result.outcome, Outcome::Unknown { .. }),
                "{result:?}"
            ),
            Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
        }
        let error = client.get("evicted").await.expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        assert!(client.list().await?.is_empty());
        sandbox.kill().await?;
        Ok(())
    })
}

fn no_right() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let rights = [
            ("pods", &["get", "list", "watch", "create", "delete"][..]),
            ("pods/exec", &["get", "create"]),
            ("configmaps", &["get", "create"]),
        ];
        let account = namespace.account("nobody", &rights).await;
        let client = client_with(config_in(&namespace.name).client(account));
        let attached = client.create(&small("attached")).await?;
        assert_eq!(output(&attached, "echo fine").await, "fine\n");
        attached.kill().await?;
        let error = client.create(&spec("kept")).await.expect_err("no right");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        let fix = error.fix().unwrap_or_default().to_owned();
        assert!(fix.contains("create on secrets"), "{fix}");
        namespace.wait_for_pods("gone", <[Pod]>::is_empty).await;
        // The right to create Secrets does not include the right to read them.
        let sandbox = client_in(&namespace).create(&spec("kept")).await?;
        let error = client.get("kept").await.expect_err("no right");
        let fix = error.fix().unwrap_or_default().to_owned();
        assert!(fix.contains("get on secrets"), "{error}");
        sandbox.kill().await?;
        Ok(())
    })
}
