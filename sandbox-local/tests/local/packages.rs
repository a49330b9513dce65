//! Packages that a policy allows, from an index on this machine.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::policy::Requirement;
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Error, ErrorKind, ExecRequest, OneShot, SandboxClient,
    Workspace,
};
use sandbox_lang::{CodeRequest, RunCode, RunCodeOnce};
use sandbox_local::{LocalBackend, PackageSettings, PackageSource};
use sandbox_testing::package_index::{
    FILES, INDEX, IndexResponse, PackageIndex, SplitIndex, page, wheel,
};
use sandbox_testing::processes;
use sandbox_testing::users::open_folder;
use sandbox_testing::wait::{wait_until, wait_until_async};

use crate::harness::{Need, Test, test};
use crate::support::{config, namespaces, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async installed_packages_are_importable_and_read_only, Need::Pip),
    test!(async provision_sandbox_reaches_the_hosts_of_its_registries_alone, Need::Pip),
    test!(async detached_sandbox_keeps_its_packages_for_later_clients, Need::Pip),
    test!(async package_cannot_replace_a_standard_module, Need::Pip),
    test!(async missing_package_is_a_typed_error, Need::Pip),
    test!(async source_package_is_refused_without_running_its_code, Need::Pip),
    test!(async unavailable_or_refusing_index_is_a_typed_error, Need::Pip),
    test!(async installation_respects_time_and_size_limits, Need::Pip),
    test!(async cancelled_installation_leaves_nothing, Need::Pip),
    test!(threads concurrent_installations_of_one_set_run_once, Need::Pip),
    test!(async invalid_package_name_is_refused_early, Need::Pip),
    test!(async forged_cache_entry_is_not_used, Need::Pip),
    test!(async set_that_failed_fails_at_once_until_it_is_cleared, Need::Pip),
    test!(async libraries_of_one_run_are_installed, Need::Pip),
    test!(async only_a_file_with_a_named_hash_is_installed, Need::Pip),
];

/// The test's own cache and package source.
pub struct PackageFixture {
    pub folder: tempfile::TempDir,
    pub settings: PackageSettings,
}

impl PackageFixture {
    fn new(source: PackageSource) -> Self {
        let folder = open_folder();
        let mut settings = PackageSettings::default();
        settings.folder = Some(folder.path().join("cache/packages"));
        settings.source = Some(source);
        settings.timeout = Duration::from_secs(60);
        Self { folder, settings }
    }

    /// Uses wheels in a folder: `demo` 1.0 and 2.0.
    pub fn with_wheels() -> Self {
        let mut place = Self::new(PackageSource::default());
        let wheels = place.folder.path().join("wheels");
        std::fs::create_dir(&wheels).expect("made");
        wheel(&wheels, "demo", "1.0", 0);
        wheel(&wheels, "demo", "2.0", 0);
        place.settings.source = Some(PackageSource::folder(wheels));
        place
    }

    fn of(registry: &PackageIndex) -> Self {
        let mut source = PackageSource::default();
        source.index_url = Some(registry.url.clone());
        source.connect_timeout = Some(60);
        Self::new(source)
    }

    fn client(&self, packages: &[&str]) -> SandboxClient {
        let backend = LocalBackend::new(config().packages(self.settings.clone()));
        SandboxClient::with_backend(Arc::new(backend), naming(packages)).expect("a valid policy")
    }

    async fn refused(&self, packages: &[&str]) -> Error {
        let client = self.client(packages);
        client.create(&spec()).await.expect_err("not installed")
    }

    pub fn left(&self, name: &str) -> Vec<PathBuf> {
        let folder = self.folder.path().join("cache/packages").join(name);
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Asserts that a failed installation has left nothing.
    fn assert_clean(&self) {
        assert_eq!(self.left("entries"), Vec::<PathBuf>::new());
        assert_eq!(self.left("staging"), Vec::<PathBuf>::new());
    }
}

pub fn naming(packages: &[&str]) -> CapabilityPolicy {
    let mut policy = policy();
    policy.packages = packages.iter().map(|name| (*name).to_owned()).collect();
    policy
}

pub const SHOW: &str = "import demo; print(demo.version)";

pub fn python(code: &str) -> ExecRequest {
    ExecRequest::new("python3").arg("-c").arg(code)
}

async fn installed_packages_are_importable_and_read_only() {
    let place = PackageFixture::with_wheels();
    let client = place.client(&["Demo==1.0"]);
    let sandbox = client.create(&spec()).await.expect("installed");
    // A folder of wheels needs no network.
    for status in ["packages", "package_installation"] {
        let capability = status.parse().expect("a capability");
        let enforcement = sandbox.enforcement().get(capability).expect("reported");
        // Without namespaces, the sandbox that installs has the host's network.
        let has_gap = capability == Capability::PackageInstallation && !namespaces();
        assert_eq!(enforcement.is_enforced(), !has_gap, "{enforcement}");
    }
    let result = sandbox.exec(&python(SHOW)).await.expect("it runs");
    assert_eq!(result.stdout_text(), "1.0\n", "{}", result.stderr_text());
    let result = sandbox
        .exec(&ExecRequest::new("demo"))
        .await
        .expect("found");
    assert_eq!(
        result.stdout_text(),
        "ran 1.0\n",
        "{}",
        result.stderr_text()
    );
    let attack = "d=$(python3 -c 'import demo; print(demo.__file__)'); echo 'version = 3' > $d; rm -f $d; \
                  touch $(dirname $d)/new; chmod 777 $d; mv $d /tmp";
    sandbox.exec(&sh(attack)).await.expect("it runs");
    sandbox.kill().await.expect("it ends");

    let again = client.create(&spec()).await.expect("kept");
    let result = again.exec(&python(SHOW)).await.expect("it runs");
    assert_eq!(result.stdout_text(), "1.0\n", "{}", result.stderr_text());
    assert_eq!(place.left("entries").len(), 1);
    assert_eq!(place.left("staging"), Vec::<PathBuf>::new());

    // Another version has another folder. Without packages there is none.
    let newest = place
        .client(&["demo"])
        .create(&spec())
        .await
        .expect("installed");
    let result = newest.exec(&python(SHOW)).await.expect("it runs");
    assert_eq!(result.stdout_text(), "2.0\n", "{}", result.stderr_text());
    let none = place.client(&[]).create(&spec()).await.expect("a sandbox");
    let result = none.exec(&python(SHOW)).await.expect("it runs");
    assert!(!result.success());
}

async fn provision_sandbox_reaches_the_hosts_of_its_registries_alone() {
    if !namespaces() {
        // Without a network of its own, the provision sandbox has the host's.
        return;
    }
    let registry = SplitIndex::start();
    let mut source = PackageSource::default();
    source.index_url = Some(registry.url());
    source.trusted_hosts = vec![INDEX.into(), FILES.into()];
    let mut place = PackageFixture::new(source);
    let here = Ipv4Addr::LOCALHOST.into();
    let created = async |place: &PackageFixture| {
        let config = config().packages(place.settings.clone());
        let backend = LocalBackend::new(config.host(INDEX, here).host(FILES, here));
        let client = SandboxClient::with_backend(Arc::new(backend), naming(&["demo"]));
        client.expect("a valid policy").create(&spec()).await
    };
    place.settings.hosts = vec!["other.test".parse().expect("a rule")];
    let error = created(&place).await.expect_err("the files are elsewhere");
    assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
    assert_eq!(registry.files.requests(), Vec::<String>::new());

    place.settings.hosts = vec![registry.files_rule().parse().expect("a rule")];
    let sandbox = created(&place).await.expect("installed");
    let report = sandbox.enforcement().get(Capability::PackageInstallation);
    let report = report.expect("reported").to_string();
    assert!(
        report.contains("only the servers of files.test, index.test"),
        "{report}"
    );
    let result = sandbox.exec(&python(SHOW)).await.expect("it runs");
    assert_eq!(result.stdout_text(), "1.0\n", "{}", result.stderr_text());
}

async fn detached_sandbox_keeps_its_packages_for_later_clients() {
    let place = PackageFixture::with_wheels();
    let client = place.client(&["demo==1.0"]);
    let spec = spec().detached(true);
    let name = spec.name.clone();
    drop(client.create(&spec).await.expect("installed"));
    let found = place.client(&[]).get(&name).await.expect("kept");
    let result = found.exec(&python(SHOW)).await.expect("it runs");
    assert_eq!(result.stdout_text(), "1.0\n", "{}", result.stderr_text());
    client.remove(&name).await.expect("removed");
}

async fn package_cannot_replace_a_standard_module() {
    let mut place = PackageFixture::with_wheels();
    let wheels = place.folder.path().join("wheels");
    wheel(&wheels, "colorsys", "1.0", 0);
    place.settings.source = Some(PackageSource::folder(wheels));
    let client = place.client(&["colorsys"]);
    let sandbox = client.create(&spec()).await.expect("installed");
    let code = "import colorsys; print(hasattr(colorsys, 'version'))";
    let result = sandbox.exec(&python(code)).await.expect("it runs");
    assert_eq!(result.stdout_text(), "False\n", "{}", result.stderr_text());
}

async fn missing_package_is_a_typed_error() {
    let place = PackageFixture::with_wheels();
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
}

async fn source_package_is_refused_without_running_its_code() {
    let registry = PackageIndex::start([("/simple/demo/".into(), page(&["demo-1.0.tar.gz"]))]);
    let place = PackageFixture::of(&registry);
    let error = place.refused(&["demo"]).await;
    assert_eq!(error.kind(), ErrorKind::PackageNeedsBuild, "{error}");
    assert!(error.fix().is_some());
    let asked = registry.requests();
    assert!(
        !asked.iter().any(|path| path.contains("tar.gz")),
        "{asked:?}"
    );
    place.assert_clean();
}

async fn set_that_failed_fails_at_once_until_it_is_cleared() {
    let place = PackageFixture::with_wheels();
    let client = place.client(&["late"]);
    let refused = async || {
        let error = client.create(&spec()).await.expect_err("not installed");
        assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
        error.to_string()
    };
    let first = refused().await;
    assert!(!first.contains("not tried again"), "{first}");
    wheel(&place.folder.path().join("wheels"), "late", "1.0", 0);
    let second = refused().await;
    assert!(second.contains("not tried again"), "{second}");
    client.clear_failed_packages();
    let sandbox = client.create(&spec()).await.expect("installed");
    sandbox.kill().await.expect("it ends");
}

async fn libraries_of_one_run_are_installed() {
    let place = PackageFixture::with_wheels();
    let backend = LocalBackend::new(config().packages(place.settings.clone()));
    let policy = policy().package_installation(true);
    let client = SandboxClient::with_backend(Arc::new(backend), policy).expect("a valid policy");
    let request = || CodeRequest::new("python", SHOW);
    let ended = client
        .run_code(request().library("demo==1.0"), OneShot::default())
        .await;
    let code = ended.expect("it runs").code;
    assert_eq!(code.check().expect("it succeeds").stdout_text(), "1.0\n");
    let sandbox = client
        .create(&spec().package("demo==2.0"))
        .await
        .expect("installed");
    let code = sandbox
        .run_code(request().library("Demo"))
        .await
        .expect("it is there");
    assert_eq!(code.check().expect("it succeeds").stdout_text(), "2.0\n");
    let error = sandbox.run_code(request().library("demo==1.0")).await;
    assert_eq!(error.expect_err("another").kind(), ErrorKind::Unsupported);
    sandbox.kill().await.expect("it ends");
}

async fn only_a_file_with_a_named_hash_is_installed() {
    let place = PackageFixture::with_wheels();
    let wheels = place.folder.path().join("wheels");
    let sum = |version: &str| {
        let file = wheels.join(format!("demo-{version}-py3-none-any.whl"));
        let output = Command::new("sha256sum")
            .arg(file)
            .output()
            .expect("it runs");
        let text = String::from_utf8(output.stdout).expect("a hash");
        text.split(' ').next().expect("a hash").to_owned()
    };
    let (own, other) = (sum("1.0"), sum("2.0"));
    let lock = format!("demo==1.0 \\\n    --hash=sha256:{other} \\\n    --hash=sha256:{own}\n");
    let locked = Requirement::read_lock_file(&lock).expect("valid");
    let locked = locked[0].to_string();
    let sandbox = place.client(&[&locked]).create(&spec()).await;
    let sandbox = sandbox.expect("the file has one of the hashes");
    let shown = sandbox.exec(&python(SHOW)).await.expect("it runs");
    assert_eq!(shown.stdout_text(), "1.0\n", "{}", shown.stderr_text());
    sandbox.kill().await.expect("it ends");

    let wrong = format!("demo==1.0#sha256:{other}");
    let error = place.refused(&[&wrong]).await;
    assert_eq!(error.kind(), ErrorKind::InstallFailed, "{error}");
    assert!(error.context().starts_with("demo==1.0: a file"), "{error}");
    // The one from the cache is not used for another hash, nor for none.
    assert_eq!(place.left("entries").len(), 1);
    let plain = place.client(&["demo==1.0"]).create(&spec()).await;
    plain.expect("installed").kill().await.expect("it ends");
    assert_eq!(place.left("entries").len(), 2);
}

async fn unavailable_or_refusing_index_is_a_typed_error() {
    let registry = PackageIndex::start([(
        "/simple/demo/".into(),
        IndexResponse::Status("403 Forbidden"),
    )]);
    let place = PackageFixture::of(&registry);
    let error = place.refused(&["demo"]).await;
    assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
    let error = place.refused(&["other"]).await;
    assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
    drop(registry);

    let mut source = PackageSource::default();
    // The port is closed, and errors do not show the password.
    source.index_url = Some("http://me:secret@127.0.0.1:1/simple/".into());
    let place = PackageFixture::new(source);
    let error = place.refused(&["demo"]).await;
    assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    place.assert_clean();
}

async fn installation_respects_time_and_size_limits() {
    let registry = PackageIndex::start([("/simple/demo/".into(), IndexResponse::Silence)]);
    let mut place = PackageFixture::of(&registry);
    place.settings.timeout = Duration::from_secs(3);
    let error = place.refused(&["demo"]).await;
    assert_eq!(error.kind(), ErrorKind::InstallTimedOut, "{error}");
    place.assert_clean();

    let mut place = PackageFixture::with_wheels();
    wheel(
        &place.folder.path().join("wheels"),
        "large",
        "1.0",
        64 << 20,
    );
    place.settings.storage = ByteSize::mib(8);
    let error = place.refused(&["large"]).await;
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    place.assert_clean();
    // The other wheels are small enough.
    place
        .client(&["demo"])
        .create(&spec())
        .await
        .expect("installed");
}

async fn cancelled_installation_leaves_nothing() {
    let registry = PackageIndex::start([("/simple/demo/".into(), IndexResponse::Silence)]);
    let place = PackageFixture::of(&registry);
    let client = place.client(&["demo"]);
    let sandbox = spec();
    let create = client.create(&sandbox);
    let requested = async || !registry.requests().is_empty();
    tokio::select! {
        _ = create => panic!("the index does not respond"),
        () = wait_until_async("pip sends a request", Duration::from_secs(30), requested) => {}
    }
    let marker = place.folder.path().to_string_lossy().into_owned();
    wait_until("no installer", Duration::from_secs(10), || {
        processes::containing(&marker).is_empty()
    });
    place.assert_clean();
}

async fn concurrent_installations_of_one_set_run_once() {
    let folder = open_folder();
    let made = wheel(folder.path(), "demo", "1.0", 1 << 20);
    let file = made
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let registry = PackageIndex::start([
        ("/simple/demo/".into(), page(&[&file])),
        (
            format!("/files/{file}"),
            IndexResponse::Content(std::fs::read(&made).expect("there")),
        ),
    ]);
    let place = PackageFixture::of(&registry);
    let tasks = (0..6).map(|_| {
        let client = place.client(&["demo==1.0"]);
        tokio::spawn(async move {
            let sandbox = client.create(&spec()).await?;
            sandbox.exec(&python(SHOW)).await
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        let result = task.await.expect("no panic").expect("installed");
        assert_eq!(result.stdout_text(), "1.0\n", "{}", result.stderr_text());
    }
    let fetched = registry
        .requests()
        .iter()
        .filter(|path| path.ends_with(".whl"))
        .count();
    assert_eq!(fetched, 1, "{:?}", registry.requests());
}

async fn invalid_package_name_is_refused_early() {
    let place = PackageFixture::with_wheels();
    for bad in [
        "-r file",
        "--index-url=http://x",
        "demo; rm -rf /",
        "/wheels/demo.whl",
        "git+https://x/y",
        "demo @ file:///x",
    ] {
        let backend = LocalBackend::new(config().packages(place.settings.clone()));
        let error = SandboxClient::with_backend(Arc::new(backend), naming(&[bad]));
        let error = error.expect_err(bad);
        assert_eq!(error.kind(), ErrorKind::InvalidPolicy, "{error}");
    }
    assert!(!Path::new(&place.folder.path().join("cache")).exists());
}

/// A sandbox does not use packages that code of another sandbox has forged, in an existing cache or
/// before the cache exists.
async fn forged_cache_entry_is_not_used() {
    for removed in [false, true] {
        let place = PackageFixture::with_wheels();
        let client = place.client(&["demo==1.0"]);
        client.create(&spec()).await.expect("installed");
        let [entry] = place.left("entries").try_into().expect("one entry");
        let module = find(&entry, "demo.py").expect("the module");
        let module = module.strip_prefix(place.folder.path()).expect("below");
        let site = module.parent().expect("a folder").display();
        if removed {
            // Code may know the name of an entry.
            std::fs::remove_dir_all(place.folder.path().join("cache")).expect("removed");
        }
        let attack = format!(
            "umask 077; cd /workspace; mv cache away; mkdir -p {site}; echo 'version = \"forged\"' > {site}/demo.py; \
             mkdir -p cache/packages/locks cache/packages/staging; cat {site}/demo.py"
        );
        let around = spec().workspace(Workspace::read_write(place.folder.path()));
        if let Ok(sandbox) = place.client(&[]).create(&around).await {
            let tried = sandbox.exec(&sh(&attack)).await.expect("it runs");
            println!("the attack: {}", tried.output());
        } else {
            assert!(!namespaces(), "only Landlock alone refuses that");
        }
        let sandbox = client.create(&spec()).await.expect("installed");
        let result = sandbox.exec(&python(SHOW)).await.expect("it runs");
        assert_eq!(result.stdout_text(), "1.0\n", "{}", result.stderr_text());
    }
}

/// The file of this name in a tree.
fn find(tree: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(tree).ok()?.flatten();
    entries
        .map(|entry| entry.path())
        .find_map(|path| match path.is_dir() {
            true => find(&path, name),
            false => (path.file_name()? == name).then_some(path),
        })
}
