//! Pods that somebody else has made.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{
    Capability, CapabilityPolicy, ErrorKind, ExecRequest, SandboxClient, SandboxSpec, Stdin,
};

use crate::cluster::{PROGRAMS, config_in, output, run, small};
use crate::own_namespace::OwnNamespace;
use crate::{Done, Test};

pub const TESTS: &[Test] = &[
    (
        "adopt::a_foreign_pod_is_entered_and_left_as_it_was",
        entered,
    ),
    ("adopt::the_gate_stands_before_a_foreign_pod", gate),
    ("adopt::a_container_without_a_shell_is_told", no_shell),
    ("adopt::what_cannot_be_meant_is_told", not_there),
];

/// A client that accepts what no foreign pod can hold.
fn accepting(place: &OwnNamespace) -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    policy.allow_partial = Capability::ALL.to_vec();
    policy.allow_unenforced = vec![Capability::NetworkAccess, Capability::PackageInstallation];
    let backend = sandbox_k8s::KubernetesBackend::new(config_in(&place.name));
    SandboxClient::with_backend(Arc::new(backend), policy).expect("a client")
}

fn spec() -> SandboxSpec {
    SandboxSpec::new("adopted")
}

fn state(pods: &[Pod]) -> Vec<String> {
    let shown = pods.iter().map(|pod| {
        let mut metadata = pod.metadata.clone();
        // It counts what is said of the pod, and nothing of what is in it.
        (metadata.managed_fields, metadata.resource_version) = (None, None);
        format!("{metadata:?} {:?}", pod.spec)
    });
    shown.collect()
}

fn entered() -> Done {
    run(async {
        let place = OwnNamespace::new().await;
        place.foreign("theirs", &["/bin/sleep", "300"]).await;
        let before = state(&place.list().await);
        let client = accepting(&place);
        let sandbox = client.adopt("theirs", &spec()).await?;
        // As the container's user, without its capabilities and its variables.
        assert_eq!(
            output(&sandbox, "id -u; echo ${THEIRS-none}").await,
            "0\nnone\n"
        );
        let status = output(&sandbox, "cat /proc/self/status").await;
        for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{line} in {status}");
        }
        let places = "ls -A /tmp /var/tmp /run /dev/shm / 2>/dev/null | grep sandbox || echo none";
        assert_eq!(
            output(&sandbox, places).await,
            "none\n",
            "the agent's program is gone"
        );
        sandbox
            .put("/tmp/file", 0o644, Box::new(&b"content"[..]))
            .await?;
        assert_eq!(output(&sandbox, "cat /tmp/file").await, "content");
        let sleep = ExecRequest::new("sleep").arg("1234");
        let running = sandbox.start(&sleep, Stdin::Null).await?;
        sandbox.kill().await?;
        drop(running);
        // What was started there has ended, and what was there before has not.
        let again = client.adopt("theirs/main", &spec()).await?;
        let sleeps = format!("{PROGRAMS} | grep 'sleep [0-9]'");
        assert_eq!(output(&again, &sleeps).await.trim(), "/bin/sleep 300");
        drop(again);
        assert_eq!(state(&place.list().await), before);
        assert!(client.prune().await?.is_empty());
        assert_eq!(place.list().await.len(), 1, "it is nobody's to remove");
        Ok(())
    })
}

fn gate() -> Done {
    run(async {
        let place = OwnNamespace::new().await;
        place.foreign("theirs", &["/bin/sleep", "300"]).await;
        let client = crate::cluster::client_in(&place.name);
        let error = client.adopt("theirs", &spec()).await.expect_err("the gate");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        for named in ["network_access", "filesystem_read_roots", "privileges"] {
            let text = error.to_string();
            assert_eq!(
                text.contains(named),
                named != "privileges",
                "{named}: {text}"
            );
        }
        Ok(())
    })
}

fn no_shell() -> Done {
    run(async {
        let place = OwnNamespace::new().await;
        let pod = serde_json::json!({
            "metadata": {"name": "bare"},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main",
                    "image": "sandbox-test/busybox:latest",
                    "imagePullPolicy": "Never",
                    "command": ["/bin/sleep", "300"],
                    // No shell is found there.
                    "env": [{"name": "PATH", "value": "/nowhere"}],
                }],
            },
        });
        place.start(&serde_json::from_value(pod)?).await;
        let error = accepting(&place).adopt("bare", &spec()).await;
        let error = error.expect_err("no shell");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("sh, mkdir, chmod, head and rm"),
            "{error}"
        );
        Ok(())
    })
}

fn not_there() -> Done {
    run(async {
        let place = OwnNamespace::new().await;
        let client = accepting(&place);
        let error = client.adopt("missing", &spec()).await.expect_err("none");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        let ours = client.create(&small("ours")).await?;
        let pods = place.list().await;
        let mut names = pods.iter().filter_map(|pod| pod.metadata.name.as_deref());
        let name = names
            .find(|name| name.starts_with("sandbox-"))
            .expect("ours");
        let error = client.adopt(name, &spec()).await.expect_err("a sandbox");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        ours.kill().await?;
        Ok(())
    })
}
