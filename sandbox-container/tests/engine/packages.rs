//! Packages that a policy names, installed by a container of the sandbox's image.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bollard::query_parameters::{ListContainersOptions, RemoveImageOptions};
use libtest_mimic::Failed;
use sandbox_container::{PackageSettings, PackageSource};
use sandbox_core::{
    ByteSize, CapabilityPolicy, Enforcement, Error, ErrorKind, ExecRequest, SandboxClient,
    SandboxHandle, Workspace, unique_name,
};

use crate::family::{Backend, Config};
use crate::suite::containers::everything_allowed;
use crate::suite::engine::{self, BUSYBOX, PYTHON, api, client_of, image_of, run, shell, spec};
use crate::suite::owner::Owner;
use crate::suite::package_registry::{Answer, Registry, page, wheel};
use crate::suite::{Test, UNSAFE_TIER};

pub const TESTS: &[Test] = &[
    ("packages::are_found_and_stay_as_they_are", found),
    ("packages::outlive_their_creator_with_the_sandbox", detached),
    ("packages::are_kept_for_each_image", of_images),
    (
        "packages::what_is_not_there_is_typed_on_every_call",
        missing,
    ),
    ("packages::an_image_without_pip_is_typed", without_pip),
    (
        "packages::a_registry_is_reached_over_the_network_that_is_named",
        networks,
    ),
    ("packages::an_installation_ends_at_its_limits", limits),
    ("packages::what_nobody_waits_for_leaves_nothing", dropped),
    ("packages::a_killed_owner_leaves_nothing", killed),
    ("packages::at_the_same_time_are_installed_once", together),
    ("packages::are_out_of_the_reach_of_others", reach),
    ("packages::are_refused_where_no_policy_applies", unconfined),
];

const SHOW: &str = "import demo; print(demo.version)";

/// A cache of the test's own, and what an installation may take.
struct Place {
    folder: tempfile::TempDir,
    settings: PackageSettings,
}

impl Place {
    fn new(source: PackageSource) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).expect("mode");
        let settings = settings(source, folder.path());
        Self { folder, settings }
    }

    /// With wheels of one folder, which holds the package `demo` 1.0 and 2.0.
    fn with_wheels() -> Self {
        let mut place = Self::new(PackageSource::default());
        std::fs::create_dir(place.wheels()).expect("made");
        wheel(&place.wheels(), "demo", "1.0", 0);
        wheel(&place.wheels(), "demo", "2.0", 0);
        place.settings.source = Some(PackageSource::folder(place.wheels()));
        place
    }

    fn wheels(&self) -> PathBuf {
        self.folder.path().join("wheels")
    }

    fn config(&self) -> Config {
        engine::config()
            .packages(self.settings.clone())
            .default_image(PYTHON)
    }

    fn client(&self, packages: &[&str]) -> SandboxClient {
        client_of(Backend::new(self.config()), naming(packages))
    }

    async fn refused(&self, packages: &[&str]) -> Error {
        refused(&self.client(packages)).await
    }

    fn left(&self, name: &str) -> usize {
        let folder = self.folder.path().join("cache/packages").join(name);
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// Nothing of an installation that failed is kept.
    fn assert_clean(&self) {
        assert_eq!((self.left("entries"), self.left("staging")), (0, 0));
    }

    /// Waits until no container has anything of this place, and no folder of an installation is left.
    async fn wait_clean(&self) {
        let start = Instant::now();
        while self.left("staging") > 0 || has_containers(self.folder.path()).await {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "something is left"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn settings(source: PackageSource, folder: &Path) -> PackageSettings {
    let mut settings = PackageSettings::default();
    settings.folder = Some(folder.join("cache/packages"));
    settings.source = Some(source);
    settings.timeout = Duration::from_secs(60);
    settings
}

fn registry_at(url: &str) -> PackageSource {
    let mut source = PackageSource::default();
    source.index_url = Some(url.to_owned());
    source.connect_timeout = Some(60);
    source
}

/// Packages of a registry on this host's loopback, kept in a folder.
pub fn over_the_host(config: Config, registry: &str, folder: &Path) -> Config {
    config
        .packages(settings(registry_at(registry), folder))
        .package_network("host")
        .default_image(PYTHON)
}

fn naming(packages: &[&str]) -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    policy.packages = packages.iter().map(|name| (*name).to_owned()).collect();
    policy
}

async fn refused(client: &SandboxClient) -> Error {
    client.create(&spec()).await.expect_err("not installed")
}

/// Whether a container of the engine has a folder of the host below this one.
async fn has_containers(folder: &Path) -> bool {
    let options = ListContainersOptions {
        all: true,
        ..ListContainersOptions::default()
    };
    let start = Instant::now();
    let containers = loop {
        match api().list_containers(Some(options.clone())).await {
            Ok(containers) => break containers,
            // Of one that is ending, Podman says what Docker's clients do not know.
            Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let mounts = containers
        .into_iter()
        .filter_map(|container| container.mounts);
    let mut sources = mounts.flatten().filter_map(|mount| mount.source);
    sources.any(|source| Path::new(&source).starts_with(folder))
}

async fn python(sandbox: &SandboxHandle, code: &str) -> sandbox_core::Result<String> {
    let request = ExecRequest::new("python3").arg("-c").arg(code);
    let result = sandbox.exec(&request).await?;
    assert!(result.ok(), "{code}: {}", result.stderr_text());
    Ok(result.stdout_text())
}

fn found() -> Result<(), Failed> {
    run(async {
        let place = Place::with_wheels();
        let client = place.client(&["Demo==1.0"]);
        let sandbox = client.create(&spec()).await?;
        for status in ["packages", "package_installation"] {
            let capability = status.parse().expect("a capability");
            let enforcement = sandbox.enforcement().get(capability).expect("reported");
            let partial = matches!(enforcement, Enforcement::Partial { .. });
            assert_eq!(partial, status == "package_installation", "{enforcement}");
        }
        assert_eq!(python(&sandbox, SHOW).await?, "1.0\n");
        let program = sandbox.exec(&ExecRequest::new("demo")).await?;
        assert_eq!(
            program.stdout_text(),
            "ran 1.0\n",
            "{}",
            program.stderr_text()
        );
        let attack = "d=$(python3 -c 'import demo; print(demo.__file__)'); echo 'version = 3' > $d; \
                      rm -f $d; touch $(dirname $d)/new; chmod 777 $d; mv $d /tmp; touch /packages/new";
        assert!(!shell(&sandbox, attack).await?.ok());
        sandbox.kill().await?;

        let again = client.create(&spec()).await?;
        assert_eq!(python(&again, SHOW).await?, "1.0\n");
        assert_eq!((place.left("entries"), place.left("staging")), (1, 0));

        // Another version is another folder; no packages are none.
        let newest = place.client(&["demo"]).create(&spec()).await?;
        assert_eq!(python(&newest, SHOW).await?, "2.0\n");
        let none = place.client(&[]).create(&spec()).await?;
        assert!(!shell(&none, "python3 -c 'import demo'").await?.ok());
        for sandbox in [again, newest, none] {
            sandbox.kill().await?;
        }
        assert!(!has_containers(place.folder.path()).await);
        Ok(())
    })
}

fn detached() -> Result<(), Failed> {
    run(async {
        let place = Place::with_wheels();
        let state = tempfile::tempdir().expect("a folder");
        let client = |packages: &[&str]| {
            let config = place.config().state_folder(state.path().join("state"));
            client_of(Backend::new(config), naming(packages))
        };
        let spec = spec().detached(true).lifetime(Duration::from_secs(60));
        drop(client(&["demo==1.0"]).create(&spec).await?);
        let found = client(&[]).get(&spec.name).await?;
        assert_eq!(python(&found, SHOW).await?, "1.0\n");
        client(&[]).remove(&spec.name).await
    })
}

fn of_images() -> Result<(), Failed> {
    run(async {
        let place = Place::with_wheels();
        let other = image_of(PYTHON, "true", "LABEL sandbox-test.other=1").await;
        for image in [PYTHON, other.as_str()] {
            let sandbox = place.client(&["demo"]).create(&spec().image(image)).await?;
            assert_eq!(python(&sandbox, SHOW).await?, "2.0\n");
            sandbox.kill().await?;
        }
        assert_eq!(place.left("entries"), 2);
        remove_image(&other).await;
        Ok(())
    })
}

async fn remove_image(image: &str) {
    let removed = api()
        .remove_image(image, None::<RemoveImageOptions>, None)
        .await;
    removed.expect("the image is removed");
}

fn missing() -> Result<(), Failed> {
    run(async {
        let place = Place::with_wheels();
        for _ in 0..2 {
            let error = place.refused(&["no-such-package"]).await;
            assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
            assert!(error.context().contains("no-such-package"), "{error}");
        }
        let error = place.refused(&["demo==99"]).await;
        assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
        assert!(
            error.context().contains("1.0, 2.0"),
            "pip's own words: {error}"
        );
        place.assert_clean();
        assert!(!has_containers(place.folder.path()).await);
        Ok(())
    })
}

fn without_pip() -> Result<(), Failed> {
    run(async {
        let place = Place::with_wheels();
        let script = "rm -r /usr/lib/python3/dist-packages/pip*";
        let bare = image_of(PYTHON, script, "LABEL sandbox-test.other=2").await;
        let mut errors = Vec::new();
        for image in [BUSYBOX, bare.as_str()] {
            let client = place.client(&["demo"]);
            let created = client.create(&spec().image(image)).await;
            errors.push(created.expect_err("no pip"));
        }
        remove_image(&bare).await;
        for (error, lacking) in errors.iter().zip(["python3", "no pip"]) {
            assert_eq!(error.kind(), ErrorKind::InstallFailed, "{error}");
            assert!(error.context().contains(lacking), "{error}");
            assert!(
                error.fix().is_some_and(|fix| fix.contains("image")),
                "{error}"
            );
        }
        place.assert_clean();
        Ok(())
    })
}

fn name_of(file: &Path) -> String {
    let name = file.file_name().expect("a name");
    name.to_string_lossy().into_owned()
}

/// A file of a registry, where its pages say that it is.
fn served(file: &Path) -> (String, Answer) {
    let content = std::fs::read(file).expect("there");
    (format!("/files/{}", name_of(file)), Answer::Found(content))
}

fn networks() -> Result<(), Failed> {
    run(async {
        let files = tempfile::tempdir().expect("a folder");
        let file = wheel(files.path(), "demo", "1.0", 0);
        let name = name_of(&file);
        let registry = Registry::start([
            ("/simple/demo/".into(), page(&[&name])),
            served(&file),
            ("/simple/source/".into(), page(&["source-1.0.tar.gz"])),
            ("/simple/denied/".into(), Answer::Status("403 Forbidden")),
        ]);
        let place = Place::new(registry_at(&registry.url));
        // The engine's own network has another loopback.
        let error = place.refused(&["demo"]).await;
        assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
        assert!(
            error.fix().is_some_and(|fix| fix.contains("host")),
            "{error}"
        );
        assert_eq!(registry.asked(), Vec::<String>::new());

        let over_host = |packages: &[&str]| {
            let config = over_the_host(engine::config(), &registry.url, place.folder.path());
            client_of(Backend::new(config), naming(packages))
        };
        for (package, kind) in [
            ("source", ErrorKind::PackageNeedsBuild),
            ("denied", ErrorKind::RegistryUnreachable),
            ("other", ErrorKind::PackageNotFound),
        ] {
            let error = refused(&over_host(&[package])).await;
            assert_eq!(error.kind(), kind, "{error}");
        }
        assert!(!registry.asked().iter().any(|path| path.contains("tar.gz")));
        place.assert_clean();
        let sandbox = over_host(&["demo"]).create(&spec()).await?;
        assert_eq!(python(&sandbox, SHOW).await?, "1.0\n");
        let installation = "package_installation".parse().expect("a capability");
        let enforcement = sandbox.enforcement().get(installation).expect("reported");
        assert!(enforcement.to_string().contains("host"), "{enforcement}");
        // The network was the installation's alone.
        let interfaces = shell(&sandbox, "cat /proc/net/dev").await?.stdout_text();
        assert_eq!(interfaces.lines().count(), 3, "{interfaces}");
        sandbox.kill().await?;

        let unknown = place.config().package_network(unique_name("no-network"));
        let error = refused(&client_of(Backend::new(unknown), naming(&["other"]))).await;
        assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
        assert!(error.context().contains("no-network"), "{error}");
        Ok(())
    })
}

fn limits() -> Result<(), Failed> {
    run(async {
        let registry = Registry::start([("/simple/demo/".into(), Answer::Silence)]);
        let mut place = Place::new(registry_at(&registry.url));
        place.settings.timeout = Duration::from_secs(5);
        let config = place.config().package_network("host");
        let error = refused(&client_of(Backend::new(config), naming(&["demo"]))).await;
        assert_eq!(error.kind(), ErrorKind::InstallTimedOut, "{error}");
        place.assert_clean();
        assert!(!has_containers(place.folder.path()).await);

        let mut place = Place::with_wheels();
        wheel(&place.wheels(), "large", "1.0", 64 << 20);
        place.settings.storage = ByteSize::mib(8);
        let error = place.refused(&["large"]).await;
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        place.assert_clean();
        // The other wheels are small enough.
        place.client(&["demo"]).create(&spec()).await?.kill().await
    })
}

/// Waits until an installer has asked for something.
async fn asked(registry: &Registry) {
    let start = Instant::now();
    while registry.asked().is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "pip asks for nothing"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn dropped() -> Result<(), Failed> {
    run(async {
        let registry = Registry::start([("/simple/demo/".into(), Answer::Silence)]);
        let place = Place::new(registry_at(&registry.url));
        let config = place.config().package_network("host");
        let client = client_of(Backend::new(config), naming(&["demo"]));
        let sandbox = spec();
        tokio::select! {
            _ = client.create(&sandbox) => panic!("nobody answers"),
            () = asked(&registry) => {}
        }
        place.wait_clean().await;
        place.assert_clean();
        Ok(())
    })
}

fn killed() -> Result<(), Failed> {
    run(async {
        let registry = Registry::start([("/simple/demo/".into(), Answer::Silence)]);
        let place = Place::with_wheels();
        let mut owner =
            Owner::installing(&unique_name("owner"), &registry.url, place.folder.path());
        asked(&registry).await;
        assert!(has_containers(place.folder.path()).await);
        owner.kill();
        let start = Instant::now();
        while has_containers(place.folder.path()).await {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "the container is left"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Its folder goes with the next installation, of whatever.
        assert_eq!(place.left("staging"), 1);
        place
            .client(&["demo==1.0"])
            .create(&spec())
            .await?
            .kill()
            .await?;
        assert_eq!((place.left("entries"), place.left("staging")), (1, 0));
        Ok(())
    })
}

fn together() -> Result<(), Failed> {
    run(async {
        let files = tempfile::tempdir().expect("a folder");
        let file = wheel(files.path(), "demo", "1.0", 1 << 20);
        let name = name_of(&file);
        let registry = Registry::start([("/simple/demo/".into(), page(&[&name])), served(&file)]);
        let place = Place::new(PackageSource::default());
        let tasks = (0..4).map(|_| {
            let config = over_the_host(engine::config(), &registry.url, place.folder.path());
            let client = client_of(Backend::new(config), naming(&["demo==1.0"]));
            tokio::spawn(async move {
                let sandbox = client.create(&spec()).await?;
                let shown = python(&sandbox, SHOW).await?;
                sandbox.kill().await.map(|()| shown)
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            assert_eq!(task.await.expect("no panic")?, "1.0\n");
        }
        let asked = registry.asked();
        let fetched = asked.iter().filter(|path| path.ends_with(".whl")).count();
        assert_eq!(fetched, 1, "{asked:?}");
        Ok(())
    })
}

fn reach() -> Result<(), Failed> {
    run(async {
        let place = Place::with_wheels();
        // Makes the cache.
        place
            .client(&["demo"])
            .create(&spec())
            .await?
            .kill()
            .await?;
        // Code could rename the folder between the workspace and the cache, with what hides the cache.
        let deep = spec().workspace(Workspace::read_write(place.folder.path()));
        let error = place.client(&["demo"]).create(&deep).await;
        let error = error.expect_err("deep in the workspace");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let folder = place.folder.path().join("cache");
        let mode = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(&folder, mode).expect("mode");
        let workspace = spec().workspace(Workspace::read_write(&folder));
        let sandbox = place.client(&["demo"]).create(&workspace).await?;
        let own = shell(&sandbox, "touch /workspace/own").await?;
        assert!(own.ok(), "{}", own.stderr_text());
        let look = shell(&sandbox, "ls /workspace/packages").await?;
        assert!(
            !look.ok() && !look.stdout_text().contains("entries"),
            "{}",
            look.output()
        );
        assert_eq!(python(&sandbox, SHOW).await?, "2.0\n");
        sandbox.kill().await
    })
}

fn unconfined() -> Result<(), Failed> {
    run(async {
        let place = Place::with_wheels();
        let mut policy = everything_allowed();
        policy.packages = vec!["demo".into()];
        let client = client_of(Backend::without_policy(place.config()), policy);
        let error = refused(&client).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(error.backend(), Some(UNSAFE_TIER), "{error}");
        assert!(error.fix().is_some());
        Ok(())
    })
}
