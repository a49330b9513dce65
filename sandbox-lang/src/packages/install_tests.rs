use std::os::unix::fs::PermissionsExt;

use sandbox_core::fake::{FakeAnswer, FakeBackend};

use super::*;

/// A Python that is only looked at.
fn interpreter(folder: &Path) -> Interpreter {
    let program = folder.join("python3");
    if !program.exists() {
        std::fs::write(&program, "").expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
    }
    let real = folder.canonicalize().expect("there");
    Interpreter::find(folder.to_str().expect("a path"), &[real]).expect("found")
}

async fn provided(folder: &Path, backend: &FakeBackend, source: PackageSource) -> Result<PathBuf> {
    let settings = PackageSettings {
        folder: Some(folder.join("cache/packages")),
        source: Some(source),
        ..PackageSettings::default()
    };
    let packages = ["demo==1".parse().expect("a name")];
    let interpreter = interpreter(folder);
    let request = InstallRequest {
        packages: &packages,
        interpreter: &interpreter,
        settings: &settings,
        state: &folder.join("state"),
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
