//! Packages in pods, beside the tests that other backends share.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use sandbox_core::spi::{Backend, unique_name};
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Cpus, ErrorKind, SandboxClient, SandboxSpec,
};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig, PackageSettings, PodProfile};
use sandbox_lang::LiveSandbox;
use sandbox_testing::contract::PYTHON;
use sandbox_testing::contract::packages::{
    PackageBackend, PackageCache, SHOW, index_at, policy_with, python,
};
use sandbox_testing::package_index::{INDEX, IndexResponse, PackageIndex};
use sandbox_testing::wait::wait_until_async;

use crate::cluster::{output, run};
use crate::contract::{self, Pods};
use crate::test_namespace::{CONTROLLER_TIMEOUT, TestNamespace};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("packages::are_in_a_volume_that_code_cannot_write", volume),
    ("packages::are_refused_for_a_running_pod", live),
    ("packages::an_image_without_pip_is_an_error", without_pip),
    ("packages::too_many_bytes_are_an_error", too_large),
    (
        "packages::a_cancelled_installation_leaves_nothing",
        cancelled,
    ),
    (
        "packages::are_read_only_in_the_restricted_profile",
        restricted,
    ),
];

#[async_trait]
impl PackageBackend for Pods {
    fn with_packages(
        &self,
        settings: &PackageSettings,
        hosts: &[(&str, IpAddr)],
        trusted: Option<&Path>,
        _state: Option<&Path>,
    ) -> Arc<dyn Backend> {
        let config = contract::config().packages(settings.clone());
        let config = hosts.iter().fold(config, |config, (name, address)| {
            config.host_address(*name, *address)
        });
        let config = trusted
            .into_iter()
            .fold(config, KubernetesConfig::certificates);
        Arc::new(KubernetesBackend::new(config.default_image(PYTHON)))
    }

    /// A small node has room for several.
    fn spec(&self) -> SandboxSpec {
        SandboxSpec::new(unique_name("packages"))
            .memory(ByteSize::mib(128))
            .cpus(Cpus::milli(200))
    }

    fn adapt(&self, settings: &mut PackageSettings) {
        settings.memory = ByteSize::mib(256);
    }
}

fn cache() -> PackageCache {
    let mut cache = PackageCache::with_wheels();
    Pods.adapt(&mut cache.settings);
    cache
}

fn config(cache: &PackageCache) -> KubernetesConfig {
    contract::config()
        .packages(cache.settings.clone())
        .default_image(PYTHON)
}

fn volume() -> TestResult {
    run(async {
        let cache = cache();
        let backend = Arc::new(KubernetesBackend::new(config(&cache)));
        let client = client(backend, policy_with(&["demo==1.0"]));
        let sandbox = client.create(&Pods.spec()).await?;
        assert_eq!(python(&sandbox, SHOW).await?, "1.0\n");
        // The kernel's word: the last mount there is read-only, and no other mount is of its disk.
        let mount = output(&sandbox, "grep ' /packages ' /proc/self/mountinfo").await;
        let fields = mount.split(' ').collect::<Vec<_>>();
        assert!(fields[5].split(',').any(|option| option == "ro"), "{mount}");
        let owner = output(&sandbox, "stat -c %u /packages/lib; id -u").await;
        let (one, other) = owner.split_once('\n').expect("two lines");
        // So nothing but the mount keeps code from writing.
        assert_eq!(one, other.trim_end());
        sandbox.kill().await?;
        Ok(())
    })
}

fn live() -> TestResult {
    run(async {
        let cache = cache();
        let backend = Arc::new(KubernetesBackend::new(config(&cache)));
        let policy = policy_with(&[]).package_installation(true);
        let client = client(backend, policy);
        let settings = cache.settings.clone();
        let created = LiveSandbox::create_with(&client, &Pods.spec(), settings).await;
        let error = created.expect_err("no folder of this host");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.context().contains("before its code runs"), "{error}");
        assert!(error.fix().is_some());
        assert_eq!(cache.left("live"), 0);
        Ok(())
    })
}

fn without_pip() -> TestResult {
    run(async {
        let cache = cache();
        let config = config(&cache).default_image("sandbox-test/busybox:latest");
        let client = client(
            Arc::new(KubernetesBackend::new(config)),
            policy_with(&["demo"]),
        );
        let error = client.create(&Pods.spec()).await.expect_err("no pip");
        assert_eq!(error.kind(), ErrorKind::InstallFailed, "{error}");
        assert!(error.context().contains("python3"), "{error}");
        cache.assert_clean();
        Ok(())
    })
}

fn too_large() -> TestResult {
    run(async {
        let mut cache = cache();
        sandbox_testing::package_index::wheel(&cache.wheels(), "large", "1.0", 64 << 20);
        cache.settings.storage = ByteSize::mib(8);
        let client = client(
            Arc::new(KubernetesBackend::new(config(&cache))),
            policy_with(&["large"]),
        );
        let error = client.create(&Pods.spec()).await.expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        cache.assert_clean();
        Ok(())
    })
}

fn cancelled() -> TestResult {
    run(async {
        let silent = [("/simple/demo/".into(), IndexResponse::Silence)];
        let registry = PackageIndex::start(silent);
        let mut source = index_at(&registry.url.replace("127.0.0.1", INDEX));
        source.trusted_hosts = vec![INDEX.into()];
        let mut cache = PackageCache::new(source);
        Pods.adapt(&mut cache.settings);
        cache.settings.hosts = vec!["files.test".parse()?];
        let namespace = TestNamespace::new().await;
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let config = config(&cache)
            .namespace(&*namespace.name)
            .host_address(INDEX, here);
        let client = client(
            Arc::new(KubernetesBackend::new(config)),
            policy_with(&["demo"]),
        );
        let spec = Pods.spec();
        let asked = wait_until_async(
            "the installer asks its index",
            CONTROLLER_TIMEOUT,
            async || !registry.requests().is_empty(),
        );
        tokio::select! {
            created = client.create(&spec) => panic!("{:?}", created.err()),
            () = asked => {}
        }
        wait_until_async("nothing is left", CONTROLLER_TIMEOUT, async || {
            let pods = namespace.api::<Pod>().list(&ListParams::default()).await;
            pods.expect("a list").items.is_empty() && cache.left("staging") == 0
        })
        .await;
        cache.assert_clean();
        Ok(())
    })
}

fn restricted() -> TestResult {
    run(async {
        let cache = cache();
        let config = config(&cache).profile(PodProfile::Restricted);
        let mut policy = policy_with(&["demo"]);
        policy.allow_unenforced = vec![Capability::NetworkAccess, Capability::Pids];
        policy.allow_partial = Capability::ALL.to_vec();
        let client = client(Arc::new(KubernetesBackend::new(config)), policy);
        let sandbox = client.create(&Pods.spec()).await?;
        assert_eq!(python(&sandbox, SHOW).await?, "2.0\n");
        let report = sandbox.enforcement().get(Capability::PackageInstallation);
        let report = report.expect("reported").to_string();
        assert!(report.contains("the whole network"), "{report}");
        let tried = output(&sandbox, "touch /packages/new; chmod 777 /packages/lib").await;
        assert_eq!(tried.matches("Read-only file system").count(), 2, "{tried}");
        sandbox.kill().await?;
        Ok(())
    })
}

fn client(backend: Arc<KubernetesBackend>, policy: CapabilityPolicy) -> SandboxClient {
    SandboxClient::with_backend(backend, policy).expect("a valid policy")
}
