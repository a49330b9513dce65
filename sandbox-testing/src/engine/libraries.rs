//! Packages of npm, installed in a container of an image with Node.js.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bollard::query_parameters::RemoveImageOptions;
use sandbox_container::PackageSettings;
use sandbox_core::spi::unique_name;
use sandbox_core::{BuildRequest, CapabilityPolicy, ErrorKind, ExecRequest, SandboxClient};
use sandbox_lang::packages::RegistrySource;

use super::package_cache::creation_error;
use super::{EngineTest, TestEngine};
use crate::contract::packages::policy_with;
use crate::contract::{PYTHON, TestResult, run, shell};
use crate::package_index::PackageIndex;
use crate::registries;

pub const TESTS: &[EngineTest] = &[("libraries::of_npm_are_found_by_code_and_read_only", npm)];

/// The host's Node.js and npm, which the tests' image gets.
struct HostNode {
    node: PathBuf,
    npm: PathBuf,
}

fn host_node() -> Option<HostNode> {
    let folder = PathBuf::from(std::env::var_os("SANDBOX_TEST_NODE")?);
    let node = folder.join("node").canonicalize().ok()?;
    let npm = Path::new("/usr/bin/npm").canonicalize().ok()?;
    let npm = npm.parent()?.parent()?.to_owned();
    let is_whole = npm.join("bin/npm-cli.js").exists() && npm.join("node_modules").exists();
    is_whole.then_some(HostNode { node, npm })
}

/// Why the tests cannot make their image; `None` if they can.
pub fn missing_node() -> Option<String> {
    let reason =
        "needs SANDBOX_TEST_NODE, the folder of a Node.js, and an npm in /usr with its modules";
    host_node().is_none().then(|| reason.to_owned())
}

/// An image with Node.js and npm.
async fn image(engine: &'static TestEngine) -> String {
    const DOCKERFILE: &str = "ARG BASE\nFROM ${BASE}\nCOPY node /usr/local/bin/node\nCOPY npm /usr/local/lib/npm\n\
        RUN ln -s ../lib/npm/bin/npm-cli.js /usr/local/bin/npm\n";
    let host = host_node().expect("checked before");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("Dockerfile"), DOCKERFILE).expect("written");
    std::fs::copy(&host.node, folder.path().join("node")).expect("copied");
    let mut copy = Command::new("cp");
    copy.arg("-rL")
        .arg(&host.npm)
        .arg(folder.path().join("npm"));
    assert!(copy.status().expect("cp").success());
    let tag = format!("sandbox-test/{}:1", unique_name("node"));
    let request = BuildRequest::new(folder.path())
        .tag(&tag)
        .arg("BASE", PYTHON);
    let client = engine.client(CapabilityPolicy::new());
    let built = client.build_image(&request, &mut |_| {}).await;
    built.unwrap_or_else(|error| panic!("{error}"));
    tag
}

fn client(
    engine: &'static TestEngine,
    image: &str,
    registry: &PackageIndex,
    folder: &Path,
    packages: &[&str],
) -> SandboxClient {
    let mut settings = PackageSettings::default();
    settings.folder = Some(folder.join("cache/packages"));
    settings.npm = Some(RegistrySource::npm(registry.root()));
    settings.timeout = Duration::from_secs(120);
    let config = engine
        .config()
        .packages(settings)
        .package_network("host")
        .default_image(image);
    engine.client_with(config, policy_with(packages))
}

fn npm(engine: &'static TestEngine) -> TestResult {
    run(async {
        let image = image(engine).await;
        let registry = registries::npm();
        let folder = tempfile::tempdir().expect("a folder");
        let client = |packages: &[&str]| client(engine, &image, &registry, folder.path(), packages);
        let sandbox = client(&["npm:demo@^1", "npm:scripted"])
            .create(&engine.spec())
            .await?;
        let code = "import demo from 'demo'; import { createRequire } from 'module';\n\
            console.log(demo.version, createRequire(import.meta.url)('demo').version)";
        sandbox.write("/tmp/x/a.mjs", code).await?;
        let shown = sandbox
            .exec(&ExecRequest::new("node").arg("/tmp/x/a.mjs"))
            .await?;
        assert_eq!(
            shown.stdout_text(),
            "1.0.0 1.0.0\n",
            "{}",
            shown.stderr_text()
        );
        let program = sandbox.exec(&ExecRequest::new("demo")).await?;
        assert_eq!(
            program.stdout_text(),
            "ran 1.0.0\n",
            "{}",
            program.stderr_text()
        );
        let attack = "d=/node_modules/demo; echo > $d/index.js; rm -f $d/index.js; touch $d/new /node_modules/new; \
                      chmod 777 $d; mv $d /tmp; ls $d /node_modules /node_modules/scripted; test -e $d/new";
        let tried = shell(&sandbox, attack).await?;
        assert!(!tried.success(), "{}", tried.output());
        assert!(
            !tried.stdout_text().contains("ran"),
            "a script: {}",
            tried.output()
        );
        let notes = sandbox.enforcement().notes().join("\n");
        assert!(notes.contains("scripted"), "{notes}");
        sandbox.kill().await?;
        for (package, kind) in [
            ("npm:missing", ErrorKind::PackageNotFound),
            ("npm:denied", ErrorKind::RegistryUnreachable),
            ("npm:native", ErrorKind::PackageNeedsBuild),
            ("npm:git", ErrorKind::PackageNeedsBuild),
        ] {
            let error = creation_error(engine, &client(&[package])).await;
            assert_eq!(error.kind(), kind, "{error}");
        }
        // The base has no Ruby.
        let error = creation_error(engine, &client(&["gem:demo"])).await;
        assert_eq!(error.kind(), ErrorKind::InstallFailed, "{error}");
        assert!(
            error.fix().is_some_and(|fix| fix.contains("Ruby")),
            "{error}"
        );
        let api = engine.api();
        let removed = api.remove_image(&image, None::<RemoveImageOptions>, None);
        removed.await.expect("the image is removed");
        Ok(())
    })
}
