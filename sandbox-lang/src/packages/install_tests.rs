use std::os::unix::fs::PermissionsExt;

use sandbox_core::fake::{FakeAnswer, FakeBackend};

use sandbox_core::ExecRequest;

use super::super::PackageSource;
use super::*;

/// A Python that is only looked at.
fn interpreter(folder: &Path) -> Interpreter {
    let program = folder.join("python3");
    if !program.exists() {
        std::fs::write(&program, "").expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
    }
    let real = folder.canonicalize().expect("there");
    Interpreter::find(Installer::Pip, folder.to_str().expect("a path"), &[real]).expect("found")
}

async fn provided(folder: &Path, backend: &FakeBackend, source: PackageSource) -> Result<PathBuf> {
    provided_unless(&FailedPackages::default(), folder, backend, source).await
}

async fn provided_unless(
    failed: &FailedPackages,
    folder: &Path,
    backend: &FakeBackend,
    source: PackageSource,
) -> Result<PathBuf> {
    let settings = PackageSettings {
        folder: Some(folder.join("cache/packages")),
        source: Some(source),
        ..PackageSettings::default()
    };
    let packages = ["demo==1".parse().expect("a name")];
    let interpreter = interpreter(folder);
    let request = InstallRequest {
        packages: &packages,
        installer: Installer::Pip,
        interpreter: &interpreter,
        settings: &settings,
        state: &folder.join("state"),
        failed,
        carries_rules: false,
        ends_tls: false,
        sees_host: true,
    };
    provide(backend, &request)
        .await
        .map(|installed| installed.folder)
}

#[tokio::test]
async fn installer_gets_only_index_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("")));
    let seen = backend.seen();
    let source = PackageSource {
        index_url: Some("https://u:p@r.example/simple".into()),
        ..PackageSource::default()
    };
    let found = provided(folder.path(), &backend, source.clone())
        .await
        .expect("installed");
    assert!(found.is_dir());
    let again = provided(folder.path(), &backend, source)
        .await
        .expect("kept");
    assert_eq!(found, again);

    let seen = seen.lock().expect("whole");
    let [request] = seen.as_slice() else {
        panic!("installed once: {seen:?}");
    };
    let names = request.env.keys().map(String::as_str).collect::<Vec<_>>();
    let expected = [
        "HOME",
        "LANG",
        "PIP_BREAK_SYSTEM_PACKAGES",
        "PIP_CONFIG_FILE",
        "PIP_INDEX_URL",
        "PYTHONUSERBASE",
        "TMPDIR",
    ];
    assert_eq!(names, expected);
    let argv = String::from_utf8_lossy(&request.argv.join(&b' ')).into_owned();
    assert!(
        argv.contains("--only-binary=:all:") && argv.ends_with(" -- demo==1"),
        "{argv}"
    );
    assert!(!argv.contains("u:p"), "processes can be listed: {argv}");
    assert!(request.timeout.is_some());
}

#[tokio::test]
async fn failed_installation_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for (outcome, kind) in [
        (Outcome::Exited { code: 1 }, ErrorKind::InstallFailed),
        (Outcome::TimedOut, ErrorKind::InstallTimedOut),
        (Outcome::OutOfMemory, ErrorKind::InstallFailed),
        (Outcome::Signaled { signal: 9 }, ErrorKind::InstallFailed),
    ] {
        let answer = FakeAnswer {
            outcome,
            stdout: Vec::new(),
            stderr: b"ERROR: no luck\n".to_vec(),
            refused: Vec::new(),
        };
        let backend = FakeBackend::new(move |_| Ok(answer.clone()));
        let error = provided(folder.path(), &backend, PackageSource::default()).await;
        let error = error.expect_err("failed");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.context().contains("no luck"), "{error}");
        for name in ["entries", "staging"] {
            let left = std::fs::read_dir(folder.path().join("cache/packages").join(name));
            assert_eq!(left.expect("there").count(), 0, "{name}");
        }
    }
    let backend = FakeBackend::new(|_| {
        Err(Error::new(
            ErrorKind::ProgramNotFound,
            "execute",
            "no python3",
        ))
    });
    let error = provided(folder.path(), &backend, PackageSource::default()).await;
    let error = error.expect_err("failed");
    assert!(error.fix().is_some(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn set_that_failed_is_not_tried_again_for_a_minute() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = FakeBackend::new(|_| {
        Ok(FakeAnswer {
            outcome: Outcome::Exited { code: 1 },
            ..FakeAnswer::stdout("")
        })
    });
    let seen = backend.seen();
    let tries = || seen.lock().expect("whole").len();
    let failed = FailedPackages::default();
    let install = async || {
        let source = PackageSource::default();
        let provided = provided_unless(&failed, folder.path(), &backend, source).await;
        provided.expect_err("it fails").to_string()
    };
    let first = install().await;
    assert!(!first.contains("tried again"), "{first}");
    let second = install().await;
    assert!(
        second.contains("is not tried again for a minute"),
        "{second}"
    );
    assert!(second.contains("clear_failed_packages"), "{second}");
    assert_eq!(tries(), 1);
    failed.clear();
    install().await;
    assert_eq!(tries(), 2);
    tokio::time::advance(Duration::from_secs(61)).await;
    install().await;
    assert_eq!(tries(), 3);
}

/// Installs a package of npm with a backend whose npm only runs `make` in the project's folder.
async fn npm(
    folder: &Path,
    make: impl Fn(&Path) + Send + Sync + 'static,
) -> (Result<Installed>, ExecRequest) {
    let backend = FakeBackend::new(move |request| {
        let mut arguments = request.argv.iter().skip_while(|word| *word != b"--prefix");
        let project = arguments.nth(1).expect("a folder");
        make(Path::new(std::str::from_utf8(project).expect("a path")));
        Ok(FakeAnswer::stdout(""))
    });
    let seen = backend.seen();
    let settings = PackageSettings {
        folder: Some(folder.join("cache/packages")),
        npm: Some(super::super::RegistrySource::npm("https://u:p@r.example/")),
        ..PackageSettings::default()
    };
    let packages = ["npm:demo@^1".parse().expect("a name")];
    let request = InstallRequest {
        packages: &packages,
        installer: Installer::Npm,
        interpreter: &Interpreter::of_image(Installer::Npm, "image"),
        settings: &settings,
        state: &folder.join("state"),
        failed: &FailedPackages::default(),
        carries_rules: false,
        ends_tls: false,
        sees_host: true,
    };
    let installed = provide(&backend, &request).await;
    let request = seen.lock().expect("whole").remove(0);
    (installed, request)
}

#[tokio::test]
async fn npm_gets_its_packages_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (installed, request) = npm(folder.path(), |project| {
        let asked = std::fs::read_to_string(project.join("package.json")).expect("there");
        assert!(asked.contains("\"demo\": \"^1\""), "{asked}");
        let modules = project.join("node_modules");
        std::fs::create_dir(&modules).expect("made");
        std::fs::write(modules.join(".package-lock.json"), r#"{"packages": {}}"#).expect("written");
    })
    .await;
    let folder = installed.expect("installed").folder;
    assert!(folder.ends_with("base/node_modules"), "{folder:?}");
    let argv = String::from_utf8_lossy(&request.argv.join(&b' ')).into_owned();
    assert!(
        argv.starts_with("npm install ") && argv.contains("--ignore-scripts"),
        "{argv}"
    );
    assert!(!argv.contains("demo") && !argv.contains("u:p"), "{argv}");
    assert_eq!(request.env["npm_config_ignore_scripts"], "true");
    assert_eq!(request.env["npm_config_registry"], "https://u:p@r.example/");
}

#[tokio::test]
async fn what_is_no_folder_of_modules_is_not_kept() {
    type Make = fn(&Path);
    let hostile: [(&str, Make); 4] = [
        ("nothing", |_| {}),
        ("a link to the modules", |project| {
            std::os::unix::fs::symlink("/etc", project.join("node_modules")).expect("a link");
        }),
        ("a link to the project", |project| {
            std::fs::remove_dir_all(project).expect("removed");
            std::os::unix::fs::symlink("/usr/lib", project).expect("a link");
        }),
        ("a link to the list", |project| {
            std::fs::create_dir(project.join("node_modules")).expect("made");
            let list = project.join("node_modules/.package-lock.json");
            std::os::unix::fs::symlink("/etc/passwd", list).expect("a link");
        }),
    ];
    for (what, make) in hostile {
        let folder = tempfile::tempdir().expect("a folder");
        let (installed, _) = npm(folder.path(), make).await;
        let error = installed.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InstallFailed, "{what}: {error}");
        for name in ["entries", "staging"] {
            let left = std::fs::read_dir(folder.path().join("cache/packages").join(name));
            assert_eq!(left.expect("there").count(), 0, "{what}: {name}");
        }
    }
}
