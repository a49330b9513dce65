//! The agent disables the pod's network, and then gives up the capability that this needs.

use sandbox_core::{CapabilityPolicy, ErrorKind, SandboxHandle};
#[cfg(feature = "mutants")]
use serde_json::Value;

#[cfg(feature = "mutants")]
use crate::changed_pods::Changing;
use crate::cluster::{client, output, run, small};
use crate::test_namespace::{self, TestNamespace};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    (
        "network_cut::no_process_has_a_network_or_keeps_the_capability",
        cut,
    ),
    ("network_cut::an_agent_that_cannot_start_reports_why", ended),
    #[cfg(feature = "mutants")]
    (
        "network_cut::without_the_capability_creation_fails",
        refused,
    ),
    #[cfg(feature = "mutants")]
    ("network_cut::an_omitted_cut_is_detected", found_out),
];

/// The capability's bit.
const NET_ADMIN: u64 = 1 << 12;

fn cut() -> TestResult {
    run(async {
        let sandbox = client().create(&small("closed")).await?;
        assert_no_network(&sandbox).await;
        assert_no_capability(&sandbox).await?;
        sandbox.kill().await?;
        Ok(())
    })
}

async fn assert_no_network(sandbox: &SandboxHandle) {
    let routes = output(
        sandbox,
        "tail -n +2 /proc/net/route; grep -v ' lo$' /proc/net/ipv6_route",
    )
    .await;
    assert_eq!(routes, "");
    let interfaces = output(sandbox, "ip -o link").await;
    assert!(interfaces.contains("eth0"), "{interfaces}");
    for line in interfaces.lines().filter(|line| !line.contains(": lo:")) {
        assert!(!line.contains("UP"), "{interfaces}");
    }
    let up = output(sandbox, "ip link set eth0 up 2>&1 || echo refused").await;
    assert!(up.contains("refused"), "{up}");
}

/// No process of the pod has the capability: the agent, its supervisors, `connect` and code.
async fn assert_no_capability(sandbox: &SandboxHandle) -> TestResult {
    let text = output(
        sandbox,
        "for p in /proc/[0-9]*; do \
             tr '\\0' ' ' <$p/cmdline; echo; grep Cap $p/status; \
         done 2>/dev/null",
    )
    .await;
    let mut program = "";
    let mut seen = Vec::new();
    for line in text.lines() {
        match line
            .strip_prefix("Cap")
            .and_then(|rest| rest.split_once(":\t"))
        {
            Some((name, set)) => seen.push((program, name, u64::from_str_radix(set, 16)?)),
            None => program = line,
        }
    }
    for (program, name, set) in &seen {
        assert_eq!(set & NET_ADMIN, 0, "{program} {name}: {text}");
        if ["Bnd", "Inh", "Amb"].contains(name) {
            assert_eq!(*set, 0, "{program} {name}: {text}");
        }
    }
    // Only the agent has capabilities, with which it switches to the code's user.
    let permitted = |word: &str| {
        let sets = seen.iter().filter(|(_, name, _)| *name == "Prm");
        let sets = sets.filter(|(program, ..)| program.contains(word));
        sets.map(|(_, _, set)| *set).collect::<Vec<_>>()
    };
    let capable = permitted(" serve ");
    assert!(capable.iter().any(|set| *set != 0), "{text}");
    assert_eq!(permitted(" connect "), [0], "{text}");
    let others = permitted("").iter().filter(|set| **set != 0).count();
    assert_eq!(others, capable.iter().filter(|set| **set != 0).count());
    assert!(permitted("").len() > capable.len() + 1, "{text}");
    Ok(())
}

#[cfg(feature = "mutants")]
fn without(pod: &mut Value, pointer: &str, word: &str) {
    let list = pod.pointer_mut(pointer).and_then(Value::as_array_mut);
    let list = list.expect("a list");
    let count = list.len();
    list.retain(|found| found != word);
    assert_eq!(list.len() + 1, count);
}

#[cfg(feature = "mutants")]
fn uncompared(namespace: &TestNamespace) -> sandbox_k8s::KubernetesConfig {
    namespace
        .config()
        .mutated(sandbox_k8s::PodMutation::Comparison)
}

/// Without the comparison of the created pod, the agent itself refuses to serve without the cut.
#[cfg(feature = "mutants")]
fn refused() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let changing = Changing::client(namespace.client.clone(), &namespace.name, |pod| {
            let added = "/spec/containers/0/securityContext/capabilities/add";
            without(pod, added, "NET_ADMIN");
        });
        let client = test_namespace::client(
            uncompared(&namespace).client(changing),
            CapabilityPolicy::new(),
        );
        let error = client.create(&small("weak")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("cannot take the network away: eth0: EPERM"),
            "{text}"
        );
        namespace.wait_empty().await;
        Ok(())
    })
}

/// The error is the same if the client connects before the agent's end is known.
fn ended() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let message = "cannot take the network away: eth0: EPERM";
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in serve) sleep 2; echo '{message}' >&2; exit 71;; esac\nexec sleep 60\n"
        );
        let config = namespace.config().agent(script.into_bytes());
        let client = test_namespace::client(config, CapabilityPolicy::new());
        let error = client.create(&small("ending")).await.expect_err("refused");
        let text = error.to_string();
        assert!(text.contains(message), "{text}");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        namespace.wait_empty().await;
        Ok(())
    })
}

/// The kernel's routes reveal a cut that was removed from the command line, without the comparison.
#[cfg(feature = "mutants")]
fn found_out() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let changing = Changing::client(namespace.client.clone(), &namespace.name, |pod| {
            without(pod, "/spec/containers/0/command", "--cut-network");
        });
        let client = test_namespace::client(
            uncompared(&namespace).client(changing),
            CapabilityPolicy::new(),
        );
        let error = client.create(&small("left")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("the pod has a route over eth0"), "{text}");
        namespace.wait_empty().await;
        Ok(())
    })
}
