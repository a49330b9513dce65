//! Modules of Go, downloaded in a container of an image with Go.

use std::time::Duration;

use sandbox_container::PackageSettings;
use sandbox_core::{ErrorKind, SandboxClient};
use sandbox_lang::packages::RegistrySource;
use sandbox_lang::{CodeRequest, RunCode as _};

use super::package_cache::creation_error;
use super::{EngineTest, TestEngine};
use crate::contract::packages::policy_with;
use crate::contract::{LANGUAGES, PYTHON, TestResult, run, shell};
use crate::registries;

pub const TESTS: &[EngineTest] = &[(
    "go_packages::are_found_by_code_and_read_only",
    found_and_read_only,
)];

fn found_and_read_only(engine: &'static TestEngine) -> TestResult {
    run(async {
        let registry = registries::go();
        let folder = tempfile::tempdir().expect("a folder");
        let mut source = RegistrySource::go(registry.root());
        // The database of checksums is not on this machine.
        source.environment.insert("GOSUMDB".into(), "off".into());
        let mut settings = PackageSettings::default();
        settings.folder = Some(folder.path().join("cache/packages"));
        settings.go = Some(source);
        settings.timeout = Duration::from_secs(120);
        let client = |image: &str, packages: &[&str]| -> SandboxClient {
            let config = engine
                .config()
                .packages(settings.clone())
                .package_network("host")
                .default_image(image);
            engine.client_with(config, policy_with(packages))
        };
        let wanted = ["go:example.org/demo@v1.0.0", "go:example.org/needs"];
        let sandbox = client(LANGUAGES, &wanted).create(&engine.spec()).await?;
        let code = "package main\nimport \"example.org/demo\"\nimport \"example.org/needs/sub\"\n\
            func main() { println(demo.Version, sub.Version) }\n";
        let result = sandbox.run_code(CodeRequest::new("go", code)).await?;
        let shown = result.check()?.stderr_text();
        assert_eq!(shown, "v1.0.0 needs v1.0.0\n");
        let attack = "d=/go-packages/cache/example.org/demo@v1.0.0; cat $d/demo.go || exit 0; echo > $d/demo.go; \
                      rm -f $d/demo.go; touch $d/new /go-packages/new; chmod 777 $d; mv $d /tmp; test -e $d/new";
        let tried = shell(&sandbox, attack).await?;
        let read = tried.stdout_text();
        assert!(read.contains("package demo"), "{}", tried.output());
        assert!(!tried.success(), "{}", tried.output());
        sandbox.kill().await?;
        let absent = client(LANGUAGES, &["go:example.org/absent"]);
        let error = creation_error(engine, &absent).await;
        assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
        // This image has no Go.
        let error = creation_error(engine, &client(PYTHON, &["go:example.org/demo"])).await;
        assert_eq!(error.kind(), ErrorKind::InstallFailed, "{error}");
        let fix = error.fix().unwrap_or_default();
        assert!(fix.contains("golang"), "{error}");
        Ok(())
    })
}
