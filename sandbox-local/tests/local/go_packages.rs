//! Modules of Go, from module proxies on this machine.

use sandbox_core::{ErrorKind, ExecRequest, OneShot, SandboxHandle};
use sandbox_lang::packages::RegistrySource;
use sandbox_lang::{CodeRequest, RunCode as _, RunCodeOnce as _};
use sandbox_testing::package_index::PackageIndex;
use sandbox_testing::registries;

use crate::harness::{Need, Test, test};
use crate::libraries::{RegistryFixture, assert_kept};
use crate::support::{policy, sh};

const GO: Need = Need::Program("go");

pub const TESTS: &[Test] = &[
    test!(async modules_of_go_are_found_by_code_and_read_only, GO),
    test!(async library_of_go_is_installed_for_one_run, GO),
    test!(async proxy_of_go_may_be_a_folder, GO),
    test!(async failure_of_go_is_typed, GO),
];

fn fixture(proxies: String) -> RegistryFixture {
    let mut place = RegistryFixture::new();
    let mut source = RegistrySource::go(proxies);
    // The database of checksums is not on this machine.
    source.environment.insert("GOSUMDB".into(), "off".into());
    place.settings.go = Some(source);
    place
}

fn fixture_of(registry: &PackageIndex) -> RegistryFixture {
    fixture(registry.root())
}

/// A program that prints versions of these packages.
fn program(packages: &[&str]) -> String {
    let imports = packages.iter().enumerate();
    let imports = imports.map(|(at, path)| format!("import p{at} \"{path}\"\n"));
    let versions = (0..packages.len()).map(|at| format!("p{at}.Version"));
    format!(
        "package main\n{}func main() {{ println({}) }}\n",
        imports.collect::<String>(),
        versions.collect::<Vec<_>>().join(", ")
    )
}

async fn stderr_of(sandbox: &SandboxHandle, packages: &[&str]) -> String {
    let request = CodeRequest::new("go", program(packages));
    let result = sandbox.run_code(request).await.expect("it compiles");
    let result = result.check().expect("it succeeds");
    result.stderr_text()
}

async fn modules_of_go_are_found_by_code_and_read_only() {
    let registry = registries::go();
    let place = fixture_of(&registry);
    let wanted = ["go:example.org/demo@v1.0.0", "go:example.org/needs"];
    let sandbox = place.sandbox(&wanted).await;
    let both = ["example.org/demo", "example.org/needs/sub"];
    let shown = stderr_of(&sandbox, &both).await;
    assert_eq!(shown, "v1.0.0 needs v1.0.0\n");
    let attack = "d=$(dirname $GOWORK); f=$GOMODCACHE/example.org/demo@v1.0.0/demo.go; cat $f || exit 0; \
                  echo > $f; rm -f $f; touch $d/new; chmod 777 $f $d; mv $d/cache /tmp; ln -s /etc $d/link";
    let tried = sandbox.exec(&sh(attack)).await.expect("it runs");
    assert!(
        tried.stdout_text().contains("package demo"),
        "{}",
        tried.output()
    );
    assert!(!tried.success(), "{}", tried.output());
    sandbox.kill().await.expect("it ends");

    let requests = registry.requests().len();
    let again = place.sandbox(&wanted).await;
    let shown = stderr_of(&again, &both).await;
    assert_eq!(shown, "v1.0.0 needs v1.0.0\n");
    assert_kept(&registry, requests);
    let newest = place.sandbox(&["go:example.org/demo"]).await;
    assert_eq!(stderr_of(&newest, &both[..1]).await, "v1.1.0\n");
    let others = CodeRequest::new("go", program(&both[1..]));
    let ended = newest.run_code(others).await.expect("it runs");
    let error = ended.check().expect_err("not installed").to_string();
    assert!(error.contains("example.org/needs"), "{error}");
    // A module of the code's own that does not take part in the workspace.
    let module = "cd $(mktemp -d) && printf 'module own\\n' > go.mod && printf 'package main\\nfunc main() { println(7) }\\n' > a.go \
                  && GOWORK=off GOCACHE=$PWD/c GOPATH=$PWD/p go run .";
    let own = newest.exec(&ExecRequest::shell(module)).await;
    let own = own.expect("it runs");
    assert_eq!(own.stderr_text(), "7\n", "{}", own.output());
}

async fn library_of_go_is_installed_for_one_run() {
    let registry = registries::go();
    let place = fixture_of(&registry);
    let client = place.client_with(policy().package_installation(true));
    let code = program(&["example.org/demo"]);
    for (library, version) in [
        ("example.org/demo@v1.0.0", "v1.0.0\n"),
        ("go:example.org/demo@v1", "v1.1.0\n"),
    ] {
        let request = CodeRequest::new("go", code.as_str()).library(library);
        let ended = client.run_code(request, OneShot::default()).await;
        let code = ended.expect("it runs").code;
        assert_eq!(code.check().expect("it succeeds").stderr_text(), version);
    }
    for library in ["npm:demo", "example.org/demo@latest", "./demo", "fmt"] {
        let request = CodeRequest::new("go", code.as_str()).library(library);
        let error = client.run_code(request, OneShot::default()).await;
        let error = error.expect_err(library);
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    }
    let allowed = place.client(&["go:example.org/demo@v1.0.0"]);
    let request = CodeRequest::new("go", code).library("example.org/needs");
    let error = allowed.run_code(request, OneShot::default()).await;
    assert_eq!(
        error.expect_err("another").kind(),
        ErrorKind::PolicyExceeded
    );
}

async fn proxy_of_go_may_be_a_folder() {
    let place = RegistryFixture::new();
    let folder = place.folder.path().join("proxy");
    std::fs::create_dir(&folder).expect("made");
    registries::go_folder(&folder);
    let place = fixture(format!("file://{}", folder.display()));
    let sandbox = place.sandbox(&["go:example.org/demo"]).await;
    assert_eq!(stderr_of(&sandbox, &["example.org/demo"]).await, "v1.1.0\n");
}

async fn failure_of_go_is_typed() {
    let registry = registries::go();
    let place = fixture_of(&registry);
    let error = place
        .refused("go:example.org/absent", ErrorKind::PackageNotFound)
        .await;
    let words = error.context();
    assert!(words.contains("example.org/absent"), "Go's own: {error}");
    assert!(!words.contains("creating"), "errors alone: {error}");
    for package in [
        "go:example.org/demo@v1.9.0",
        "go:example.org/demo@v3",
        "go:example.org/lost",
    ] {
        place.refused(package, ErrorKind::PackageNotFound).await;
    }
    place
        .refused("go:denied.example", ErrorKind::RegistryUnreachable)
        .await;
    drop(registry);
    let nowhere = fixture("http://me:secret@127.0.0.1:1".into());
    let error = nowhere
        .refused("go:example.org/demo", ErrorKind::RegistryUnreachable)
        .await;
    assert!(!error.to_string().contains("secret"), "{error}");
}
