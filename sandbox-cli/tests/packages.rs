//! `sandbox run --package`.

mod common;

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use common::{run_text, sandbox, text};
use sandbox_testing::users::open_folder;
use sandbox_testing::{named_tests, pip, trials};

fn main() -> ExitCode {
    trials::main(&[
        (
            pip::missing(),
            named_tests![
                requested_package_is_installed_and_reported,
                policy_file_lists_allowed_packages,
                hashes_of_a_lock_file_are_checked,
            ],
        ),
        (
            None,
            named_tests![
                invalid_package_names_are_refused,
                lock_file_has_packages_with_hashes_alone,
            ],
        ),
    ])
}

/// Makes a wheel of the package `demo`.
const MAKE: &str = "\
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '/demo-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('demo.py', 'version = 1')
    wheel.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')
    wheel.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('demo-1.0.dist-info/RECORD', '')
";

/// Runs the command with wheels of a folder and no registry, and its own cache.
fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    run_with(folder, &[("PIP_NO_INDEX", "1")], arguments)
}

/// The same with these settings of pip.
fn run_with(folder: &Path, settings: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = sandbox(arguments);
    for name in ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"] {
        command.env_remove(name);
    }
    let command = command
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env("PIP_CONFIG_FILE", "/dev/null")
        .env("PIP_FIND_LINKS", folder.join("wheels"))
        .envs(settings.iter().copied());
    command.output().unwrap()
}

fn with_wheel() -> tempfile::TempDir {
    let folder = open_folder();
    std::fs::create_dir(folder.path().join("wheels")).unwrap();
    let made = Command::new("/usr/bin/python3")
        .args(["-c", MAKE])
        .arg(folder.path().join("wheels"))
        .status();
    assert!(made.unwrap().success());
    folder
}

fn requested_package_is_installed_and_reported() {
    let folder = with_wheel();
    let arguments = [
        "run",
        "--package",
        "demo",
        "-c",
        "import demo; print(demo.version)",
    ];
    for _ in 0..2 {
        let output = run_in(folder.path(), &arguments);
        let stderr = text(&output.stderr);
        assert_eq!(text(&output.stdout), "1\n", "{stderr}");
        // A folder of wheels needs no network.
        let enforced = stderr.split("partial: ").next().unwrap_or_default();
        assert!(
            enforced.contains("package_installation, packages"),
            "{stderr}"
        );
        assert!(!stderr.contains("installed again"), "{stderr}");
    }
    // Another process changes an installed file.
    let changed = Command::new("find")
        .arg(folder.path().join("cache"))
        .args(["-name", "demo.py", "-exec", "sh", "-c"])
        .args(["echo version = 2 > \"$1\"", "sh", "{}", ";"])
        .status();
    assert!(changed.unwrap().success());
    let output = run_in(folder.path(), &arguments);
    let stderr = text(&output.stderr);
    assert_eq!(text(&output.stdout), "1\n", "{stderr}");
    assert!(stderr.contains("installed again: demo"), "{stderr}");
    let output = run_in(
        folder.path(),
        &["run", "--package", "demo==2", "-c", "pass"],
    );
    assert_eq!(output.status.code(), Some(125));
    let stderr = text(&output.stderr);
    // An installation that takes longer than a second is announced.
    let is_error = |line: &&str| !line.starts_with("sandbox: installing ");
    let errors = stderr.lines().filter(is_error).collect::<Vec<_>>();
    assert!(
        matches!(errors[..], [line] if line.contains("demo==2")),
        "{stderr}"
    );
}

fn policy_file_lists_allowed_packages() {
    let folder = with_wheel();
    let file = folder.path().join("policy.toml");
    let file = file.to_str().unwrap();
    let run = |policy: &str, package: &str| {
        std::fs::write(file, format!("version = 1\n{policy}")).unwrap();
        let arguments = [
            "run",
            "--policy",
            file,
            "--package",
            package,
            "-c",
            "import demo",
        ];
        let output = run_in(folder.path(), &arguments);
        (output.status.code(), text(&output.stderr))
    };
    for policy in [
        "",
        "packages = [\"demo\", \"other\"]",
        "package_installation = true",
    ] {
        let (code, stderr) = run(policy, "Demo");
        assert_eq!(code, Some(0), "{policy}: {stderr}");
    }
    for (policy, package) in [
        ("packages = [\"other\"]", "demo"),
        ("packages = [\"demo\"]", "demo==1.0"),
        ("package_installation = false", "demo"),
    ] {
        let (code, stderr) = run(policy, package);
        assert_eq!(code, Some(125), "{policy}: {stderr}");
        assert!(stderr.contains("policy.toml"), "{stderr}");
    }
    // A registry on the loopback takes the whole network.
    std::fs::write(file, "version = 1\nrequire_all = true\nmemory = \"64MiB\"").unwrap();
    let index = [("PIP_INDEX_URL", "http://127.0.0.1:1/simple")];
    let arguments = ["run", "--policy", file, "--package", "demo", "-c", ""];
    let output = run_with(folder.path(), &index, &arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("package_installation"), "{stderr}");
}

fn hashes_of_a_lock_file_are_checked() {
    let folder = with_wheel();
    let wheel = folder.path().join("wheels/demo-1.0-py3-none-any.whl");
    let sum = Command::new("sha256sum").arg(wheel).output().unwrap();
    let sum = text(&sum.stdout)[..64].to_owned();
    let lock = folder.path().join("requirements.txt");
    let run = |hash: &str| {
        std::fs::write(&lock, format!("demo==1.0 \\\n    --hash=sha256:{hash}\n")).unwrap();
        let lock = lock.to_str().unwrap();
        let code = "import demo; print(demo.version)";
        run_in(folder.path(), &["run", "--package-lock", lock, "-c", code])
    };
    let output = run(&sum);
    let stderr = text(&output.stderr);
    assert_eq!(text(&output.stdout), "1\n", "{stderr}");
    let output = run(&"0".repeat(64));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("the hashes name"), "{stderr}");
}

fn lock_file_has_packages_with_hashes_alone() {
    let folder = open_folder();
    let lock = folder.path().join("requirements.txt");
    let option = format!("--package-lock={}", lock.display());
    let refused = |word: &str| {
        let (code, _, stderr) = run_text(["run", &option, "-c", "pass"]);
        assert_eq!(code, Some(125), "{stderr}");
        assert!(stderr.contains(word), "{stderr}");
    };
    refused("requirements.txt");
    for (content, word) in [
        ("demo==1.0\n", "no hash"),
        ("--index-url https://example.org\n", "option"),
    ] {
        std::fs::write(&lock, content).unwrap();
        refused(word);
    }
}

fn invalid_package_names_are_refused() {
    for bad in [
        "-r",
        "./demo",
        "demo; true",
        "https://example.org/demo.whl",
        "demo @ file:///x",
        "a b",
        "",
    ] {
        let option = format!("--package={bad}");
        let (code, _, stderr) = run_text(["run", &option, "-c", "pass"]);
        assert_eq!(code, Some(125), "{bad:?}");
        assert!(stderr.contains("not the name of a package"), "{stderr}");
    }
    let (code, _, stderr) = run_text(["run", "--package=a", "--package=a==1", "-c", "pass"]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("the same package"), "{stderr}");
    let (code, _, stderr) = run_text(["run", "-b", "local_unsafe", "--package=a", "-c", "pass"]);
    assert_eq!(code, Some(125));
    assert!(
        stderr.contains("installs none") && stderr.contains("fix:"),
        "{stderr}"
    );
}
