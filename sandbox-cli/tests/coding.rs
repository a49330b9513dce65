//! `sandbox run --preset coding`: the project, this user's toolchains, and git.

#![cfg(feature = "local")]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use common::{sandbox, text};

/// A home with a toolchain and with credentials, and a project.
fn home() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let base = place.path().canonicalize().unwrap();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&base, mode(0o755)).unwrap();
    let home = base.join("home/me");
    for (file, content) in [
        (".cargo/bin/own-tool", "#!/bin/sh\necho tool of the user\n"),
        (".cargo/credentials.toml", "token = 'secret'"),
        (".cargo/config.toml", "token = 'secret'"),
        (".rustup/toolchains/stable/bin/rustc", ""),
        (".netrc", "secret"),
        ("project/README", "x"),
    ] {
        let path = home.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    std::fs::set_permissions(home.join(".cargo/bin/own-tool"), mode(0o755)).unwrap();
    let project = home.join("project");
    (place, home, project)
}

#[track_caller]
fn run_in(folder: &Path, home: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = sandbox(arguments);
    for name in [
        "CARGO_HOME",
        "RUSTUP_HOME",
        "PYENV_ROOT",
        "NVM_DIR",
        "VIRTUAL_ENV",
    ] {
        command.env_remove(name);
    }
    let bin = home.join(".cargo/bin");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let output = command
        .env("HOME", home)
        .env("PATH", path)
        .current_dir(folder)
        .output()
        .unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn project_and_toolchains_are_there_and_credentials_are_not() {
    let (_place, home, project) = home();
    let shown = home.display();
    let script = format!(
        "pwd; echo made > made; own-tool; find {shown} -type f; echo $USER $CARGO_HOME; \
         cat {shown}/.cargo/credentials.toml {shown}/.netrc"
    );
    let arguments = ["run", "--preset", "coding", "--", "sh", "-c", &script];
    let (code, stdout, stderr) = run_in(&project, &home, &arguments);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    let tool = format!("{shown}/.cargo/bin/own-tool");
    let rustc = format!("{shown}/.rustup/toolchains/stable/bin/rustc");
    let (mut files, rest): (Vec<_>, Vec<_>) =
        stdout.lines().partition(|line| line.contains("home/me/"));
    files.sort_unstable();
    assert_eq!(files, [tool.as_str(), rustc.as_str()], "{stdout}{stderr}");
    assert_eq!(
        rest,
        ["/workspace", "tool of the user", "sandbox /tmp/cargo"],
        "{stderr}"
    );
    assert!(!stdout.contains("secret"), "{stdout}");
    assert_eq!(
        stderr.matches("No such file or directory").count(),
        2,
        "{stderr}"
    );
    assert!(
        stderr.contains("toolchains of this user: rustup, cargo"),
        "{stderr}"
    );
    let made = std::fs::read_to_string(project.join("made")).unwrap();
    assert_eq!(made, "made\n");
}

#[test]
fn git_commits_in_the_project() {
    let (_place, home, project) = home();
    std::fs::write(
        home.join(".gitconfig"),
        "[user]\nname = Ann\nemail = ann@example.org\n",
    )
    .unwrap();
    let script =
        "git init -q . && git add README && git commit -qm first && git log --format='%an %ae'";
    for (options, code) in [(&[][..], 0), (&["--workspace", ".:ro"], 1)] {
        let script = if code == 0 {
            script
        } else {
            "git log --format=%s && git commit --allow-empty -qm x"
        };
        let arguments = [
            &["run", "-q", "--preset", "coding"],
            options,
            &["--", "sh", "-c", script],
        ];
        let (ended, stdout, stderr) = run_in(&project, &home, &arguments.concat());
        let expected = if code == 0 {
            "Ann ann@example.org\n"
        } else {
            "first\n"
        };
        assert_eq!(stdout, expected, "{stderr}");
        // A read-only folder can be looked at, and not changed.
        assert_eq!(ended == Some(0), code == 0, "{stderr}");
    }
}

#[test]
fn missing_program_of_the_host_says_how_to_bring_it_in() {
    let (_place, home, project) = home();
    let (code, _, stderr) = run_in(&project, &home, &["run", "--", "own-tool", "x"]);
    assert_eq!(code, Some(127), "{stderr}");
    let found = format!("this host has {}/.cargo/bin/own-tool", home.display());
    assert!(
        stderr.contains(&found) && stderr.contains("--preset coding"),
        "{stderr}"
    );
}

#[test]
fn home_is_not_made_writable() {
    let (_place, home, _) = home();
    for folder in [home.as_path(), Path::new("/")] {
        let arguments = ["run", "--preset", "coding", "--", "true"];
        let (code, _, stderr) = run_in(folder, &home, &arguments);
        assert_eq!(code, Some(125), "{stderr}");
        assert!(stderr.contains("more than a project"), "{stderr}");
    }
}

#[test]
fn project_can_be_read_only() {
    let (_place, home, project) = home();
    let options = ["run", "-q", "--preset", "coding", "--workspace-read-only"];
    let line = [
        &options[..],
        &["--", "sh", "-c", "cat README; echo y >README"],
    ]
    .concat();
    let (code, stdout, stderr) = run_in(&project, &home, &line);
    assert_eq!((code, &*stdout), (Some(2), "x"), "{stderr}");
    assert!(stderr.contains("Read-only file system"), "{stderr}");
    let without = ["run", "--workspace-read-only", "--", "true"];
    let (code, _, stderr) = run_in(&project, &home, &without);
    assert_eq!(code, Some(125), "{stderr}");
    assert!(stderr.contains("the sandbox has no workspace"), "{stderr}");
}
