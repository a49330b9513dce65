//! The network that the agent takes away, and the capability that it takes it away with.

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Capability, CapabilityPolicy, ErrorKind};
#[cfg(feature = "mutants")]
use serde_json::Value;

#[cfg(feature = "mutants")]
use crate::changed::Changing;
use crate::cluster::{client, output, run, small};
use crate::ground::{self, Ground, Outsider};
use crate::{Done, Test};

pub const TESTS: &[Test] = &[
    ("cut::code_has_no_network", no_network),
    ("cut::nobody_keeps_the_capability", no_capability),
    ("cut::an_agent_that_ends_says_why", ended),
    #[cfg(feature = "mutants")]
    ("cut::without_the_capability_nothing_runs", refused),
    #[cfg(feature = "mutants")]
    ("cut::a_cut_that_was_left_out_is_found_out", found_out),
];

/// The capability's bit.
const NET_ADMIN: u64 = 1 << 12;

fn no_network() -> Done {
    run(async {
        let ground = Ground::new().await;
        let outsider = Outsider::new(ground.node().await).await;
        let dial = outsider.dial();

        // The control: somebody answers there.
        let mut policy = CapabilityPolicy::new();
        policy.network = Some(NetworkPolicy::Full);
        let open = ground::client(ground.config(), policy);
        let open = open.create(&small("open")).await?;
        let reached = output(&open, &dial).await;
        assert!(reached.contains("open"), "{reached}");
        open.kill().await?;

        let closed = ground::client(ground.config(), CapabilityPolicy::new());
        let sandbox = closed.create(&small("closed")).await?;
        let report = sandbox.enforcement();
        let network = report.get(Capability::NetworkAccess).expect("an entry");
        assert!(network.is_enforced(), "{network}");
        let tried = output(&sandbox, &dial).await;
        assert!(
            tried.contains("tried") && !tried.contains("open"),
            "{tried}"
        );
        let routes = output(
            &sandbox,
            "tail -n +2 /proc/net/route; grep -v ' lo$' /proc/net/ipv6_route",
        )
        .await;
        assert_eq!(routes, "");
        let interfaces = output(&sandbox, "ip -o link").await;
        assert!(interfaces.contains("eth0"), "{interfaces}");
        for line in interfaces.lines().filter(|line| !line.contains(": lo:")) {
            assert!(!line.contains("UP"), "{interfaces}");
        }
        let up = output(&sandbox, "ip link set eth0 up 2>&1 || echo refused").await;
        assert!(up.contains("refused"), "{up}");
        sandbox.kill().await?;
        ground.empty().await;
        Ok(())
    })
}

/// Of all processes in the pod: the agent, its supervisors, whoever carries its bytes, and code.
fn no_capability() -> Done {
    run(async {
        let sandbox = client().create(&small("capabilities")).await?;
        let text = output(
            &sandbox,
            "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; grep Cap $p/status; done 2>/dev/null",
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
        // What the agent becomes the code's user with, it keeps; nobody else has anything.
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
        sandbox.kill().await?;
        Ok(())
    })
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
fn uncompared(ground: &Ground) -> sandbox_k8s::KubernetesConfig {
    ground.config().mutated(sandbox_k8s::Mutation::Comparison)
}

/// What stands behind the comparison of the pod that was made, which is left out here: the agent itself does not serve without the cut.
#[cfg(feature = "mutants")]
fn refused() -> Done {
    run(async {
        let ground = Ground::new().await;
        let changing = Changing::client(ground.client.clone(), &ground.name, |pod| {
            let added = "/spec/containers/0/securityContext/capabilities/add";
            without(pod, added, "NET_ADMIN");
        });
        let client = ground::client(
            uncompared(&ground).client(changing),
            CapabilityPolicy::new(),
        );
        let error = client.create(&small("weak")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("cannot take the network away: eth0: EPERM"),
            "{text}"
        );
        ground.empty().await;
        Ok(())
    })
}

/// Whoever has entered it before its end was known is told the same.
fn ended() -> Done {
    run(async {
        let ground = Ground::new().await;
        let words = "cannot take the network away: eth0: EPERM";
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in serve) sleep 2; echo '{words}' >&2; exit 71;; esac\nexec sleep 60\n"
        );
        let config = ground.config().agent(script.into_bytes());
        let client = ground::client(config, CapabilityPolicy::new());
        let error = client.create(&small("ending")).await.expect_err("refused");
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        ground.empty().await;
        Ok(())
    })
}

/// Whoever removes the word from the agent's command line removes the cut: the kernel's routes tell, also without the comparison.
#[cfg(feature = "mutants")]
fn found_out() -> Done {
    run(async {
        let ground = Ground::new().await;
        let changing = Changing::client(ground.client.clone(), &ground.name, |pod| {
            without(pod, "/spec/containers/0/command", "--cut-network");
        });
        let client = ground::client(
            uncompared(&ground).client(changing),
            CapabilityPolicy::new(),
        );
        let error = client.create(&small("left")).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("the pod has a route over eth0"), "{text}");
        ground.empty().await;
        Ok(())
    })
}
