//! Egress rules in pods, beside the tests that all backends share.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "mutants")]
use std::time::Duration;

#[cfg(feature = "mutants")]
use sandbox_core::SandboxSpec;
use sandbox_core::policy::{EgressRules, NetworkPolicy};
use sandbox_core::spi::Backend;
use sandbox_core::{ByteSize, CapabilityPolicy, Cpus, ErrorKind, SandboxClient};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig, PodProfile, WarmPool};
use sandbox_testing::contract::PYTHON;
use sandbox_testing::contract::egress::{EgressBackend, ONE, web_server};
#[cfg(feature = "mutants")]
use serde_json::{Value, json};

use crate::capacity::{in_namespace, tiny};
#[cfg(feature = "mutants")]
use crate::changed_pods::Changing;
use crate::cluster::{output, run, small};
use crate::contract::Pods;
use crate::{ClusterTest, TestResult, contract, test_namespace};

pub const TESTS: &[ClusterTest] = &[
    (
        "egress::a_static_program_reaches_an_allowed_name",
        static_program,
    ),
    (
        "egress::a_pod_of_the_pool_has_the_rules_of_its_plan_only",
        pooled,
    ),
    (
        "egress::rules_are_refused_in_the_restricted_profile",
        restricted,
    ),
    #[cfg(feature = "mutants")]
    (
        "egress::a_setting_that_the_kubelet_forbids_is_reported",
        forbidden_setting,
    ),
    #[cfg(feature = "mutants")]
    (
        "egress::another_name_server_of_the_pod_is_detected",
        other_name_server,
    ),
];

impl EgressBackend for Pods {
    fn with_hosts(
        &self,
        hosts: &[(&str, IpAddr)],
        certificates: Option<&Path>,
    ) -> Arc<dyn Backend> {
        let config = contract::config().default_image(PYTHON);
        let config = hosts.iter().fold(config, |config, (name, address)| {
            config.host_address(*name, *address)
        });
        let config = certificates
            .into_iter()
            .fold(config, KubernetesConfig::certificates);
        Arc::new(KubernetesBackend::new(config))
    }

    /// A small node has room for several: the cluster reserves what a pod may use.
    fn policy(&self) -> CapabilityPolicy {
        let mut policy = CapabilityPolicy::new();
        policy.memory = Some(ByteSize::mib(128));
        policy.cpus = Some(Cpus::milli(200));
        policy
    }
}

/// A policy with these rules.
pub fn with_rules(rules: &[&str]) -> CapabilityPolicy {
    let rules = EgressRules::parse(rules).expect("rules");
    let mut policy = CapabilityPolicy::new();
    policy.network = Some(NetworkPolicy::Allow(rules.into_rules()));
    policy
}

/// A configuration in which [`ONE`] is this host.
pub fn with_one(config: KubernetesConfig) -> KubernetesConfig {
    config.host_address(ONE, Ipv4Addr::LOCALHOST.into())
}

/// Busybox has its own resolver and HTTP client.
fn static_program() -> TestResult {
    in_namespace(|namespace| async move {
        let port = web_server("hello from outside");
        let policy = with_rules(&[&format!("{ONE}:{port} tcp private")]);
        let client = test_namespace::client(with_one(namespace.config()), policy);
        let sandbox = client.create(&small("static")).await?;
        let text = output(&sandbox, &format!("wget -qO- http://{ONE}:{port}/")).await;
        assert_eq!(text, "hello from outside");
        let interfaces = output(&sandbox, "ip -o link").await;
        assert!(interfaces.contains("eth0"), "{interfaces}");
        for line in interfaces.lines().filter(|line| !line.contains(": lo:")) {
            assert!(!line.contains("UP"), "{interfaces}");
        }
        assert_eq!(
            output(&sandbox, "cat /etc/resolv.conf").await,
            "nameserver 198.18.0.1\n"
        );
        sandbox.kill().await?;
        namespace.wait_empty().await;
        Ok(())
    })
}

/// The host decides by the rules, so a pod is not claimed for others, even if code sees no
/// difference.
fn pooled() -> TestResult {
    in_namespace(|namespace| async move {
        let port = web_server("pooled");
        let config = with_one(namespace.patient_config().warm(WarmPool::new(1).shapes(4)));
        let backend = Arc::new(KubernetesBackend::new(config));
        let client = |policy| SandboxClient::with_backend(backend.clone(), policy);
        let open = format!("{ONE}:{port} tcp private");
        let private = client(with_rules(&[&open]))?;
        let plan = private.plan(&tiny("asked"))?;
        assert_eq!(backend.prepare(&plan).await?, 1);
        let fetch = format!("wget -qO- http://{ONE}:{port}/");

        let none = client(CapabilityPolicy::new())?;
        let public = client(with_rules(&[&format!("{ONE}:{port} tcp")]))?;
        let raised = client(with_rules(&[&open, "other.test"]))?;
        for (number, (client, spec, expected)) in [
            (&none, tiny("none"), "bad address"),
            (&public, tiny("public"), "reset"),
            (&raised, tiny("raised").egress(&open), "pooled"),
        ]
        .into_iter()
        .enumerate()
        {
            let sandbox = client.create(&spec).await?;
            let text = output(&sandbox, &fetch).await;
            assert!(text.contains(expected), "{}: {text}", spec.name);
            let counts = backend.pool().expect("a pool");
            assert_eq!((counts.claimed, counts.missed), (0, number as u64 + 1));
            sandbox.kill().await?;
        }

        let claimed = private.create(&tiny("claims")).await?;
        assert_eq!(output(&claimed, &fetch).await, "pooled");
        assert_eq!(backend.pool().expect("a pool").claimed, 1);
        claimed.set_egress(EgressRules::default()).await?;
        let text = output(&claimed, &fetch).await;
        assert!(text.contains("bad address"), "{text}");
        claimed.kill().await?;
        drop((private, none, public, raised, backend));
        namespace.wait_empty().await;
        Ok(())
    })
}

/// The agent has no capability there.
fn restricted() -> TestResult {
    run(async {
        let config = KubernetesConfig::default().profile(PodProfile::Restricted);
        let client = test_namespace::client(config, with_rules(&[ONE]));
        let error = client
            .create(&small("no-rules"))
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        assert!(error.to_string().contains("NET_ADMIN"), "{error}");
        Ok(())
    })
}

/// Creates a sandbox with rules, with a change that no comparison of the pod refuses.
#[cfg(feature = "mutants")]
async fn refused(spec: &SandboxSpec, change: fn(&mut Value)) -> sandbox_core::Error {
    let namespace = test_namespace::TestNamespace::new().await;
    let changing = Changing::client(namespace.client.clone(), &namespace.name, change);
    let config = namespace
        .config()
        .mutated(sandbox_k8s::PodMutation::Comparison)
        .client(changing);
    let client = test_namespace::client(config, with_rules(&[ONE]));
    let error = client.create(spec).await.expect_err("refused");
    namespace.wait_empty().await;
    error
}

/// A kubelet before 1.22 refuses the pod's own setting with the same reason.
#[cfg(feature = "mutants")]
fn forbidden_setting() -> TestResult {
    run(async {
        let begin = std::time::Instant::now();
        let error = refused(&small("forbidden"), |pod| {
            let settings = &mut pod["spec"]["securityContext"]["sysctls"];
            assert_eq!(settings[0]["name"], "net.ipv4.ip_unprivileged_port_start");
            settings[0] = json!({"name": "net.core.somaxconn", "value": "1024"});
        })
        .await;
        // Less than a pod may take to start.
        assert!(begin.elapsed() < Duration::from_secs(60), "{error}");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        let text = error.to_string();
        for expected in ["SysctlForbidden", "net.core.somaxconn"] {
            assert!(text.contains(expected), "{text}");
        }
        let fix = error.fix().expect("a fix");
        assert!(fix.contains("--allowed-unsafe-sysctls"), "{fix}");
        Ok(())
    })
}

/// Names would be answered by a server that the pod cannot reach.
#[cfg(feature = "mutants")]
fn other_name_server() -> TestResult {
    run(async {
        let error = refused(&small("other-server"), |pod| {
            pod["spec"]["dnsConfig"]["nameservers"] = json!(["127.0.0.1"]);
        })
        .await;
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let text = error.to_string();
        assert!(text.contains("/etc/resolv.conf"), "{text}");
        Ok(())
    })
}
