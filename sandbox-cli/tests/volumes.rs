//! `sandbox run -v`: host paths at paths of the sandbox, and what a policy file allows of them.

#![cfg(feature = "local")]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use common::run_text;

#[test]
fn volumes_appear_at_their_targets() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    for name in ["in", "out"] {
        std::fs::create_dir(base.join(name)).unwrap();
        std::fs::set_permissions(base.join(name), Permissions::from_mode(0o777)).unwrap();
    }
    std::fs::write(
        base.join("in/main.py"),
        "print(open('/data/in/x').read(), __file__)",
    )
    .unwrap();
    std::fs::write(base.join("in/x"), "seen").unwrap();
    let (read, write) = (base.join("in"), base.join("out"));
    let (read, write) = (read.display(), write.display());
    let script = "cat /data/in/x; echo y > /out/y; echo z > /data/in/z";
    let (code, stdout, stderr) = run_text([
        "run",
        "-q",
        "-v",
        &format!("{read}:/data/in/:ro"),
        &format!("--volume={write}:/out:rw"),
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_ne!(code, Some(0), "{stderr}");
    assert_eq!(stdout, "seen");
    assert!(stderr.contains("Read-only file system"), "{stderr}");
    assert!(base.join("out/y").exists() && !base.join("in/z").exists());

    // A program in a mount runs where the mount is.
    let program = base.join("in/main.py");
    let (code, stdout, stderr) = run_text([
        "run",
        "-q",
        "-v",
        &format!("{read}:/data/in:ro"),
        program.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, "seen /data/in/main.py\n");

    // As Docker users name the workspace.
    let volume = format!("{write}:/workspace");
    let (code, stdout, stderr) = run_text(["run", "-q", "-v", &volume, "--", "ls"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "y\n"), "{stderr}");
}

#[test]
fn policy_file_bounds_the_sources_of_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    for name in ["tests", "results", "other"] {
        std::fs::create_dir(base.join(name)).unwrap();
    }
    let policy = base.join("policy.toml");
    let [tests, results, other] = ["tests", "results", "other"].map(|name| base.join(name));
    let content = format!(
        "version = 1\nallow_partial = ['disk']\n\
         mount_sources = [{{ path = {tests:?}, read_only = true }}, {{ path = {results:?} }}]"
    );
    std::fs::write(&policy, content).unwrap();
    let run = |source: &std::path::Path, rest: &str| {
        let volume = format!("{}:/x{rest}", source.display());
        run_text([
            "run",
            "-q",
            "--policy",
            policy.to_str().unwrap(),
            "-v",
            &volume,
            "--",
            "ls",
            "/x",
        ])
    };
    for (source, rest) in [(&tests, ":ro"), (&results, ""), (&results, ":ro")] {
        let (code, _, stderr) = run(source, rest);
        assert_eq!(code, Some(0), "{stderr}");
    }
    for (source, rest) in [(&tests, ""), (&other, ":ro"), (&base, ":ro")] {
        let (code, _, stderr) = run(source, rest);
        assert_eq!(code, Some(125), "{stderr}");
        assert!(
            stderr.contains("--volume") && stderr.contains("allows"),
            "{stderr}"
        );
    }
}

#[test]
fn names_of_the_policy_file_are_storage() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    std::fs::create_dir(base.join("lab")).unwrap();
    std::fs::set_permissions(base.join("lab"), Permissions::from_mode(0o777)).unwrap();
    std::fs::write(base.join("lab/x"), "seen").unwrap();
    let policy = base.join("policy.toml");
    let content = format!(
        "version = 1\nallow_partial = ['disk']\nfilesystem_read_roots = []\n[storage]\n\
         lab = {{ path = {:?} }}\nfixed = {{ path = {:?}, read_only = true }}\n\
         cache = {{ volume = 'cache' }}",
        base.join("lab"),
        base.join("lab")
    );
    std::fs::write(&policy, content).unwrap();
    let run = |options: &[&str], script: &str| {
        let first = ["run", "-q", "--policy", policy.to_str().unwrap()];
        run_text([&first[..], options, &["--", "sh", "-c", script]].concat())
    };
    let (code, stdout, stderr) = run(&["--workspace", "lab"], "pwd; cat x; echo y > y");
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "/workspace\nseen"),
        "{stderr}"
    );
    assert!(base.join("lab/y").exists());
    let (code, stdout, stderr) = run(&["-v", "fixed:/fixed:ro"], "cat /fixed/x");
    assert_eq!((code, stdout.as_str()), (Some(0), "seen"), "{stderr}");
    for (option, says) in [
        ("fixed:/a", "read-only"),
        ("cache:/a", "has no volume cache"),
        ("other:/a", "No such file"),
    ] {
        let (code, _, stderr) = run(&["-v", option], "true");
        assert_eq!(code, Some(125), "{stderr}");
        assert!(
            stderr.contains(says) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
}
