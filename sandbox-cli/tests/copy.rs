//! `sandbox cp`.

#![cfg(feature = "local")]

mod common;

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::unique_seconds;
use serde_json::Value;

/// A sandbox and a folder of the host. Dropping this removes both.
struct CopyTest {
    name: String,
    folder: tempfile::TempDir,
}

impl CopyTest {
    fn new(options: &[&str]) -> Self {
        let name = format!("copy-{}", unique_seconds().replace('.', "-"));
        let arguments = [&["create", "-q", "--ttl", "2m", "--name", &name], options].concat();
        let (code, _, stderr) = common::run_text(&arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        let folder = tempfile::tempdir().unwrap();
        Self { name, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn in_sandbox(&self, path: &str) -> String {
        format!("{}:{path}", self.name)
    }

    fn cp(&self, source: impl AsRef<Path>, target: impl AsRef<Path>) -> (Option<i32>, String) {
        let arguments = [Path::new("cp"), source.as_ref(), target.as_ref()];
        let (code, stdout, stderr) = common::run_text(arguments);
        assert_eq!(stdout, "");
        (code, stderr)
    }

    fn assert_copies(&self, source: impl AsRef<Path>, target: impl AsRef<Path>) {
        assert_eq!(self.cp(source, target), (Some(0), String::new()));
    }

    fn sh(&self, script: &str) -> String {
        let (code, stdout, stderr) =
            common::run_text(["exec", &self.name, "--", "sh", "-c", script]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{script}");
        stdout
    }

    fn write(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for CopyTest {
    fn drop(&mut self) {
        let _ = common::run(["rm", &self.name]);
    }
}

fn mode(path: impl AsRef<Path>) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    names.sort();
    names
}

/// A workspace in `folder` that code may write.
fn writable_folder(folder: &Path) -> PathBuf {
    let work = folder.join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::set_permissions(&work, std::fs::Permissions::from_mode(0o777)).unwrap();
    work
}

#[test]
fn files_are_copied_in_and_out() {
    let test = CopyTest::new(&[]);
    let program = test.write("größe und name.sh", "#!/bin/sh\necho ran\n", 0o755);
    // A new name with missing parents, a folder, and a name that ends in a slash.
    test.assert_copies(&program, test.in_sandbox("/tmp/a/b/tool"));
    assert_eq!(
        test.sh("/tmp/a/b/tool; stat -c %a /tmp/a/b/tool"),
        "ran\n755\n"
    );
    test.assert_copies(&program, test.in_sandbox("/tmp"));
    test.assert_copies(&program, test.in_sandbox("/tmp/new/"));
    assert_eq!(
        test.sh("cd /tmp; ls; ls new"),
        "a\ngröße und name.sh\nnew\ngröße und name.sh\n"
    );
    let empty = test.write("leer", "", 0o640);
    test.assert_copies(&empty, test.in_sandbox("/workspace/leer"));
    test.assert_copies(
        test.in_sandbox("/workspace/leer"),
        test.path("out/deep/er/leer"),
    );
    assert_eq!(
        std::fs::metadata(test.path("out/deep/er/leer"))
            .unwrap()
            .len(),
        0
    );
    test.assert_copies(test.in_sandbox("/tmp/größe und name.sh"), test.path("out/"));
    let copy = test.path("out/größe und name.sh");
    assert_eq!(
        std::fs::read_to_string(&copy).unwrap(),
        "#!/bin/sh\necho ran\n"
    );
    assert_eq!(mode(&copy) & 0o700, 0o700);
    // Files are replaced, including read-only ones.
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o444)).unwrap();
    test.sh("printf second > /tmp/second; chmod 1755 /tmp/second");
    test.assert_copies(test.in_sandbox("/tmp/second"), &copy);
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "second");
    assert_eq!(mode(&copy) & 0o7000, 0, "no sticky bit");
    assert_eq!(names(&test.path("out")), ["deep", "größe und name.sh"]);
    // Binary data, larger than any buffer.
    let bytes = (0..3_000_000_u32)
        .map(|i| ((i * 7) >> 3) as u8)
        .collect::<Vec<_>>();
    std::fs::write(test.path("large"), &bytes).unwrap();
    test.assert_copies(test.path("large"), test.in_sandbox("/tmp/large"));
    test.assert_copies(test.in_sandbox("/tmp/large"), test.path("again"));
    assert!(std::fs::read(test.path("again")).unwrap() == bytes);
}

#[test]
fn folders_are_copied_in_and_out() {
    let test = CopyTest::new(&[]);
    test.write("tree/one", "1", 0o644);
    test.write("tree/sub/ünïcode", "2", 0o600);
    test.write("tree/sub/run", "3", 0o755);
    std::fs::create_dir_all(test.path("tree/empty/below")).unwrap();
    let tree = test.path("tree");
    // An existing target contains the folder afterwards, a new target becomes it. DIR/. is its
    // content.
    test.assert_copies(&tree, test.in_sandbox("/tmp"));
    test.assert_copies(&tree, test.in_sandbox("/tmp/renamed/deep"));
    test.assert_copies(tree.join("."), test.in_sandbox("/tmp/content"));
    let list = "find . -type f -o -type d -empty | LC_ALL=C sort";
    let expected = "./empty/below\n./one\n./sub/run\n./sub/ünïcode\n";
    for folder in ["tree", "renamed/deep", "content"] {
        assert_eq!(
            test.sh(&format!("cd /tmp/{folder}; {list}")),
            expected,
            "{folder}"
        );
    }
    assert_eq!(
        test.sh("stat -c %a /tmp/tree/sub/run /tmp/tree/sub/*code"),
        "755\n600\n"
    );
    test.assert_copies(test.in_sandbox("/tmp/tree"), test.path("out"));
    test.assert_copies(test.in_sandbox("/tmp/tree"), test.path("out"));
    test.assert_copies(test.in_sandbox("/tmp/tree/."), test.path("merged"));
    test.assert_copies(test.in_sandbox("/tmp/content/sub/"), test.path("merged"));
    for folder in ["out", "out/tree"] {
        let folder = test.path(folder);
        assert_eq!(
            std::fs::read_to_string(folder.join("sub/ünïcode")).unwrap(),
            "2"
        );
        assert!(folder.join("empty/below").is_dir());
        assert_eq!(mode(folder.join("sub/run")) & 0o700, 0o700);
    }
    assert_eq!(names(&test.path("merged")), ["empty", "one", "sub"]);
    let document = common::run_text([
        "cp",
        "-o",
        "json",
        &test.in_sandbox("/tmp/tree"),
        test.path("json").to_str().unwrap(),
    ]);
    let document: Value = serde_json::from_str(&document.1).unwrap();
    assert_eq!(
        (&document["files"], &document["bytes"]),
        (&3.into(), &3.into())
    );
    assert_eq!(document["folders"], 4);
}

#[test]
fn links_and_special_files_are_skipped_and_reported() {
    let test = CopyTest::new(&[]);
    test.sh("cd /tmp; mkdir d; echo x > d/file; ln -s /etc/passwd d/link; ln -s / d/root; mkfifo d/fifo");
    test.sh("ln -s /etc/passwd /tmp/top; mkdir /tmp/d/closed; echo y > /tmp/d/closed/in; chmod 0 /tmp/d/closed");
    let (code, stderr) = test.cp(test.in_sandbox("/tmp/d"), test.path("out"));
    assert_eq!(code, Some(125));
    for name in [
        "link: a symbolic link",
        "root: a symbolic link",
        "fifo: not a regular file",
        "closed: cannot be read",
    ] {
        assert!(
            stderr.contains(&format!("not copied: /tmp/d/{name}")),
            "{name}: {stderr}"
        );
    }
    assert_eq!(names(&test.path("out")), ["closed", "file"]);
    let (code, stderr) = test.cp(test.in_sandbox("/tmp/top"), test.path("top"));
    assert_eq!(code, Some(125));
    assert!(stderr.contains("/tmp/top: a symbolic link"), "{stderr}");
    assert!(!test.path("top").exists());

    test.write("in/file", "x", 0o644);
    symlink("/etc/passwd", test.path("in/link")).unwrap();
    symlink("..", test.path("in/up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(test.path("in/socket")).unwrap();
    let (code, stderr) = test.cp(test.path("in"), test.in_sandbox("/tmp/in"));
    assert_eq!(code, Some(125));
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
    assert_eq!(test.sh("ls -A /tmp/in"), "file\n");
    let (code, stderr) = test.cp(test.path("in/link"), test.in_sandbox("/tmp/passwd"));
    assert_eq!(code, Some(125));
    assert!(stderr.contains("a symbolic link"), "{stderr}");
    for special in ["/dev/zero", test.path("in/socket").to_str().unwrap()] {
        let (code, stderr) = test.cp(special, test.in_sandbox("/tmp/special"));
        assert_eq!(code, Some(125));
        assert!(
            stderr.contains("neither a regular file nor a folder"),
            "{stderr}"
        );
    }
}

#[test]
fn copy_out_does_not_write_through_host_links() {
    let test = CopyTest::new(&[]);
    test.sh("mkdir -p /tmp/d/sub; echo guest > /tmp/d/file; echo guest > /tmp/d/sub/file");
    let outside = test.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "host").unwrap();
    // Links at the target of the copy.
    std::fs::create_dir_all(test.path("out/d")).unwrap();
    symlink(outside.join("file"), test.path("out/d/file")).unwrap();
    symlink(&outside, test.path("out/d/sub")).unwrap();
    let (code, stderr) = test.cp(test.in_sandbox("/tmp/d"), test.path("out"));
    assert_eq!(code, Some(125), "{stderr}");
    assert_eq!(
        std::fs::read_to_string(outside.join("file")).unwrap(),
        "host"
    );
    assert_eq!(names(&outside), ["file"]);
    // The link to a file is replaced, like any file.
    let copied = std::fs::symlink_metadata(test.path("out/d/file")).unwrap();
    assert!(copied.is_file());
    assert_eq!(
        names(&test.path("out/d")),
        ["file", "sub"],
        "no temporary file is left"
    );
}

#[test]
fn links_in_writable_folders_cannot_redirect_copies() {
    let folder = tempfile::tempdir().unwrap();
    let work = writable_folder(folder.path());
    let test = CopyTest::new(&[
        "--workspace",
        work.to_str().unwrap(),
        "--allow-partial",
        "disk",
        "--allow-partial",
        "filesystem_write_roots",
    ]);
    let secret = test.write("secret", "secret", 0o600);
    // Code continuously swaps a folder with a link while the folder is copied in.
    std::fs::create_dir_all(work.join("d/swapped")).unwrap();
    std::fs::write(work.join("d/swapped/secret"), "harmless").unwrap();
    let target = secret.parent().unwrap().display().to_string();
    let swap = format!(
        "cd /workspace/d && mv swapped real && while :; do ln -sfn {target} swapped; rm -f swapped; cp -r real swapped 2>/dev/null; rm -rf swapped; done"
    );
    let mut code = std::process::Command::new(common::program())
        .args(["exec", "-n", &test.name, "--", "sh", "-c", &swap])
        .spawn()
        .unwrap();
    for round in 0..30 {
        let inside = test.in_sandbox(&format!("/tmp/copy{round}"));
        // The copy may fail because of the swaps.
        let _ = test.cp(work.join("d"), inside);
    }
    code.kill().unwrap();
    code.wait().unwrap();
    let found = test.sh("grep -rlx secret /tmp || true");
    assert_eq!(found, "");
}

#[test]
fn link_planted_above_copy_source_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let work = writable_folder(folder.path());
    let test = CopyTest::new(&[
        "--workspace",
        work.to_str().unwrap(),
        "--allow-partial",
        "disk",
        "--follow",
    ]);
    test.write("outside/priv", "secret", 0o600);
    let outside = test.path("outside").display().to_string();
    test.sh(&format!(
        "mkdir real; echo own > real/priv; ln -s {outside} sub; ln -s real inner"
    ));
    for planted in ["sub/priv", "inner/priv", "sub", "sub/."] {
        let (code, stderr) = test.cp(work.join(planted), test.in_sandbox("/tmp/x"));
        assert_eq!(code, Some(125), "{planted}: {stderr}");
        assert!(stderr.contains("link"), "{stderr}");
    }
    assert_eq!(test.sh("ls /tmp"), "");
    test.assert_copies(work.join("real/priv"), test.in_sandbox("/tmp/x"));

    // A link of the host, in a sandbox whose policy does not follow links.
    let test = CopyTest::new(&[]);
    test.write("outside/file", "", 0o644);
    std::fs::create_dir(test.path("proj")).unwrap();
    symlink("../outside", test.path("proj/sub")).unwrap();
    symlink("outside", test.path("stays")).unwrap();
    let (code, stderr) = test.cp(test.path("proj/sub/file"), test.in_sandbox("/tmp/x"));
    assert_eq!(code, Some(125), "{stderr}");
    assert!(
        stderr.contains("outside of the folder that it stands in"),
        "{stderr}"
    );
    test.assert_copies(test.path("stays/file"), test.in_sandbox("/tmp/x"));
}

#[test]
fn limit_option_bounds_copy_out() {
    let test = CopyTest::new(&["--disk", "64MiB"]);
    test.sh("cd /tmp; mkdir d; truncate -s 1T d/sparse || truncate -s 60M d/sparse; echo small > d/small");
    let out = test.path("out");
    let (code, _, stderr) = common::run_text([
        Path::new("cp"),
        Path::new("--limit"),
        Path::new("1MiB"),
        Path::new(&test.in_sandbox("/tmp/d")),
        &out,
    ]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("not copied: /tmp/d/sparse: "), "{stderr}");
    assert_eq!(names(&out), ["small"]);
}

#[test]
fn bad_copy_arguments_are_refused() {
    let test = CopyTest::new(&["--timeout", "30s"]);
    let file = test.write("file", "", 0o644);
    let missing = test.path("missing");
    for (source, target, expected) in [
        (PathBuf::from("a"), PathBuf::from("b"), "SRC or DST must be"),
        (
            test.in_sandbox("/a").into(),
            test.in_sandbox("/b").into(),
            "cannot both be in a sandbox",
        ),
        (
            file.clone(),
            test.in_sandbox("").into(),
            "no path in the sandbox",
        ),
        (missing, test.in_sandbox("/tmp").into(), "No such file"),
        (
            test.in_sandbox("/no/such").into(),
            test.path("x"),
            "nothing is there",
        ),
        (file.clone(), test.in_sandbox("/proc/x").into(), "/proc/x"),
        (
            file.join("."),
            test.in_sandbox("/tmp").into(),
            "not a folder",
        ),
    ] {
        let (code, stderr) = test.cp(&source, &target);
        assert_eq!(code, Some(125), "{source:?} {target:?}");
        assert!(stderr.contains(expected), "{expected}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert!(!test.path("x").exists());
    let start = std::time::Instant::now();
    test.sh("mkfifo /tmp/fifo");
    let (code, _) = test.cp(test.in_sandbox("/tmp/fifo"), test.path("fifo"));
    assert_eq!(code, Some(125));
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "it waited for a FIFO"
    );
}
