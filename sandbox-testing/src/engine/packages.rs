//! Packages of a policy, installed in a container of the sandbox's image.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::query_parameters::RemoveImageOptions;
use sandbox_container::PackageSource;
use sandbox_core::spi::unique_name;
use sandbox_core::{ByteSize, ErrorKind, Workspace};
use sandbox_lang::{CodeRequest, LiveSandbox, RunCode as _};

use super::containers::everything_allowed;
use super::package_cache::{TestCache, creation_error, is_mounted, over_host_network};
use super::{EngineTest, TestEngine, owner};
use crate::contract::packages::{SHOW, index_at, policy_with, python};
use crate::contract::{BUSYBOX, PYTHON, TestResult, client_of, run, shell};
use crate::package_index::{IndexResponse, PackageIndex, page, wheel};

pub const TESTS: &[EngineTest] = &[
    ("packages::appear_in_a_running_sandbox", live),
    ("packages::are_cached_per_image", of_images),
    ("packages::an_image_without_pip_is_an_error", without_pip),
    (
        "packages::an_index_is_reached_over_the_configured_network",
        networks,
    ),
    ("packages::an_installation_ends_at_its_limits", limits),
    ("packages::a_cancelled_installation_leaves_nothing", dropped),
    ("packages::a_killed_owner_leaves_nothing", killed),
    ("packages::concurrent_requests_install_them_once", together),
    ("packages::code_cannot_reach_the_cache", reach),
    ("packages::are_refused_where_no_policy_applies", unconfined),
];

fn live(engine: &'static TestEngine) -> TestResult {
    run(async {
        let cache = TestCache::with_wheels(engine);
        let policy = policy_with(&[]).package_installation(true);
        let client = engine.client_with(cache.config(), policy);
        let settings = cache.settings.clone();
        let sandbox = LiveSandbox::create_with(&client, &engine.spec(), settings).await?;
        sandbox.write("/tmp/state", "kept").await?;
        let variables = sandbox.install(["demo==1.0"]).await?;
        let request = CodeRequest::new("python", SHOW).library("demo==1.0");
        let shown = sandbox.run_code(request).await?;
        assert_eq!(shown.check()?.stdout_text(), "1.0\n");
        let folder = &variables["PYTHONUSERBASE"];
        let attack = format!(
            "d={folder}; chmod -R 777 $d; touch $d/new || touch $d/../new || mkdir $d/../1 || rm -r $d || mv $d /tmp || \
             for f in $d/lib/*/site-packages/demo.py; do echo > $f; done"
        );
        let tried = shell(&sandbox, &attack).await?;
        assert!(!tried.success(), "{}", tried.output());
        let error = sandbox
            .install(["no-such-package"])
            .await
            .expect_err("none");
        assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
        assert_eq!(sandbox.read("/tmp/state").await?, b"kept");
        sandbox.kill().await?;
        drop(sandbox);
        assert_eq!(cache.left("live"), 0);
        assert!(!is_mounted(engine, cache.folder.path()).await);
        Ok(())
    })
}

fn of_images(engine: &'static TestEngine) -> TestResult {
    run(async {
        let cache = TestCache::with_wheels(engine);
        let other = engine
            .image_of(PYTHON, "true", "LABEL sandbox-test.other=1")
            .await;
        for image in [PYTHON, other.as_str()] {
            let sandbox = cache
                .client(&["demo"])
                .create(&engine.spec().image(image))
                .await?;
            assert_eq!(python(&sandbox, SHOW).await?, "2.0\n");
            sandbox.kill().await?;
        }
        assert_eq!(cache.left("entries"), 2);
        remove_image(engine, &other).await;
        Ok(())
    })
}

async fn remove_image(engine: &'static TestEngine, image: &str) {
    let removed = engine
        .api()
        .remove_image(image, None::<RemoveImageOptions>, None)
        .await;
    removed.expect("the image is removed");
}

fn without_pip(engine: &'static TestEngine) -> TestResult {
    run(async {
        let cache = TestCache::with_wheels(engine);
        let script = "rm -r /usr/lib/python3/dist-packages/pip*";
        let bare = engine
            .image_of(PYTHON, script, "LABEL sandbox-test.other=2")
            .await;
        let mut errors = Vec::new();
        for image in [BUSYBOX, bare.as_str()] {
            let client = cache.client(&["demo"]);
            let created = client.create(&engine.spec().image(image)).await;
            errors.push(created.expect_err("no pip"));
        }
        remove_image(engine, &bare).await;
        for (error, lacking) in errors.iter().zip(["python3", "no pip"]) {
            assert_eq!(error.kind(), ErrorKind::InstallFailed, "{error}");
            assert!(error.context().contains(lacking), "{error}");
            assert!(
                error.fix().is_some_and(|fix| fix.contains("image")),
                "{error}"
            );
        }
        cache.assert_clean();
        Ok(())
    })
}

fn name_of(file: &Path) -> String {
    let name = file.file_name().expect("a name");
    name.to_string_lossy().into_owned()
}

/// The path and content of a wheel, as the index's pages link to it.
fn served(file: &Path) -> (String, IndexResponse) {
    let content = std::fs::read(file).expect("there");
    (
        format!("/files/{}", name_of(file)),
        IndexResponse::Content(content),
    )
}

fn networks(engine: &'static TestEngine) -> TestResult {
    run(async {
        let files = tempfile::tempdir().expect("a folder");
        let file = wheel(files.path(), "demo", "1.0", 0);
        let name = name_of(&file);
        let registry = PackageIndex::start([
            ("/simple/demo/".into(), page(&[&name])),
            served(&file),
            ("/simple/source/".into(), page(&["source-1.0.tar.gz"])),
            (
                "/simple/denied/".into(),
                IndexResponse::Status("403 Forbidden"),
            ),
        ]);
        let cache = TestCache::new(engine, index_at(&registry.url));
        // The engine's network has another loopback than the host.
        let error = cache.creation_error(&["demo"]).await;
        assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
        assert!(
            error.fix().is_some_and(|fix| fix.contains("host")),
            "{error}"
        );
        assert_eq!(registry.requests(), Vec::<String>::new());

        let over_host = |packages: &[&str]| {
            let config = over_host_network(engine.config(), &registry.url, cache.folder.path());
            engine.client_with(config, policy_with(packages))
        };
        for (package, kind) in [
            ("source", ErrorKind::PackageNeedsBuild),
            ("denied", ErrorKind::RegistryUnreachable),
            ("other", ErrorKind::PackageNotFound),
        ] {
            let error = creation_error(engine, &over_host(&[package])).await;
            assert_eq!(error.kind(), kind, "{error}");
        }
        assert!(
            !registry
                .requests()
                .iter()
                .any(|path| path.contains("tar.gz"))
        );
        cache.assert_clean();
        let sandbox = over_host(&["demo"]).create(&engine.spec()).await?;
        assert_eq!(python(&sandbox, SHOW).await?, "1.0\n");
        let installation = "package_installation".parse().expect("a capability");
        let enforcement = sandbox.enforcement().get(installation).expect("reported");
        assert!(enforcement.to_string().contains("host"), "{enforcement}");
        // Only the installation has the network.
        let interfaces = shell(&sandbox, "cat /proc/net/dev").await?.stdout_text();
        assert_eq!(interfaces.lines().count(), 3, "{interfaces}");
        sandbox.kill().await?;

        let unknown = cache.config().package_network(unique_name("no-network"));
        let error = creation_error(
            engine,
            &engine.client_with(unknown, policy_with(&["other"])),
        )
        .await;
        assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
        assert!(error.context().contains("no-network"), "{error}");
        Ok(())
    })
}

fn limits(engine: &'static TestEngine) -> TestResult {
    run(async {
        let registry = PackageIndex::start([("/simple/demo/".into(), IndexResponse::Silence)]);
        let mut cache = TestCache::new(engine, index_at(&registry.url));
        cache.settings.timeout = Duration::from_secs(5);
        let config = cache.config().package_network("host");
        let error =
            creation_error(engine, &engine.client_with(config, policy_with(&["demo"]))).await;
        assert_eq!(error.kind(), ErrorKind::InstallTimedOut, "{error}");
        cache.assert_clean();
        assert!(!is_mounted(engine, cache.folder.path()).await);

        let mut cache = TestCache::with_wheels(engine);
        wheel(&cache.wheels(), "large", "1.0", 64 << 20);
        cache.settings.storage = ByteSize::mib(8);
        let error = cache.creation_error(&["large"]).await;
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        cache.assert_clean();
        // The other wheels are below the limit.
        cache
            .client(&["demo"])
            .create(&engine.spec())
            .await?
            .kill()
            .await
    })
}

/// Waits until an installer has sent a request.
async fn asked(registry: &PackageIndex) {
    let start = Instant::now();
    while registry.requests().is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "pip asks for nothing"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn dropped(engine: &'static TestEngine) -> TestResult {
    run(async {
        let registry = PackageIndex::start([("/simple/demo/".into(), IndexResponse::Silence)]);
        let cache = TestCache::new(engine, index_at(&registry.url));
        let config = cache.config().package_network("host");
        let client = engine.client_with(config, policy_with(&["demo"]));
        let sandbox = engine.spec();
        tokio::select! {
            _ = client.create(&sandbox) => panic!("the index does not answer"),
            () = asked(&registry) => {}
        }
        cache.wait_clean().await;
        cache.assert_clean();
        Ok(())
    })
}

fn killed(engine: &'static TestEngine) -> TestResult {
    run(async {
        let registry = PackageIndex::start([("/simple/demo/".into(), IndexResponse::Silence)]);
        let cache = TestCache::with_wheels(engine);
        let mut owner =
            owner::installing(&unique_name("owner"), &registry.url, cache.folder.path());
        asked(&registry).await;
        assert!(is_mounted(engine, cache.folder.path()).await);
        owner.kill();
        let start = Instant::now();
        while is_mounted(engine, cache.folder.path()).await {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "the container is left"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // The next installation of any package removes its folder.
        assert_eq!(cache.left("staging"), 1);
        cache
            .client(&["demo==1.0"])
            .create(&engine.spec())
            .await?
            .kill()
            .await?;
        assert_eq!((cache.left("entries"), cache.left("staging")), (1, 0));
        Ok(())
    })
}

fn together(engine: &'static TestEngine) -> TestResult {
    run(async {
        let files = tempfile::tempdir().expect("a folder");
        let file = wheel(files.path(), "demo", "1.0", 1 << 20);
        let name = name_of(&file);
        let registry =
            PackageIndex::start([("/simple/demo/".into(), page(&[&name])), served(&file)]);
        let cache = TestCache::new(engine, PackageSource::default());
        let tasks = (0..4).map(|_| {
            let config = over_host_network(engine.config(), &registry.url, cache.folder.path());
            let client = engine.client_with(config, policy_with(&["demo==1.0"]));
            tokio::spawn(async move {
                let sandbox = client.create(&engine.spec()).await?;
                let shown = python(&sandbox, SHOW).await?;
                sandbox.kill().await.map(|()| shown)
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            assert_eq!(task.await.expect("no panic")?, "1.0\n");
        }
        let asked = registry.requests();
        let fetched = asked.iter().filter(|path| path.ends_with(".whl")).count();
        assert_eq!(fetched, 1, "{asked:?}");
        Ok(())
    })
}

fn reach(engine: &'static TestEngine) -> TestResult {
    run(async {
        let cache = TestCache::with_wheels(engine);
        // Creates the cache.
        cache
            .client(&["demo"])
            .create(&engine.spec())
            .await?
            .kill()
            .await?;
        // Code could rename the folder between the workspace and the cache, together with the mount
        // that hides the cache.
        let deep = engine
            .spec()
            .workspace(Workspace::read_write(cache.folder.path()));
        let error = cache.client(&["demo"]).create(&deep).await;
        let error = error.expect_err("deep in the workspace");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let folder = cache.folder.path().join("cache");
        let mode = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(&folder, mode).expect("mode");
        let workspace = engine.spec().workspace(Workspace::read_write(&folder));
        let sandbox = cache.client(&["demo"]).create(&workspace).await?;
        let own = shell(&sandbox, "touch /workspace/own").await?;
        assert!(own.success(), "{}", own.stderr_text());
        let look = shell(&sandbox, "ls /workspace/packages").await?;
        assert!(
            !look.success() && !look.stdout_text().contains("entries"),
            "{}",
            look.output()
        );
        assert_eq!(python(&sandbox, SHOW).await?, "2.0\n");
        sandbox.kill().await
    })
}

fn unconfined(engine: &'static TestEngine) -> TestResult {
    run(async {
        let cache = TestCache::with_wheels(engine);
        let mut policy = everything_allowed();
        policy.packages = vec!["demo".into()];
        let client = client_of(engine.backend_without_policy(cache.config()), policy);
        let error = creation_error(engine, &client).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(error.backend(), Some(engine.family.unsafe_tier), "{error}");
        assert!(error.fix().is_some());
        Ok(())
    })
}
