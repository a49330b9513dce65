//! `sandbox cp`.

#![cfg(feature = "local")]

mod common;

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::unique_seconds;
use serde_json::Value;

/// A sandbox and a folder of the host, which go with the test.
struct Stage {
    name: String,
    folder: tempfile::TempDir,
}

impl Stage {
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

    fn inside(&self, path: &str) -> String {
        format!("{}:{path}", self.name)
    }

    fn cp(&self, source: impl AsRef<Path>, target: impl AsRef<Path>) -> (Option<i32>, String) {
        let arguments = [Path::new("cp"), source.as_ref(), target.as_ref()];
        let (code, stdout, stderr) = common::run_text(arguments);
        assert_eq!(stdout, "");
        (code, stderr)
    }

    fn copies(&self, source: impl AsRef<Path>, target: impl AsRef<Path>) {
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

impl Drop for Stage {
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

#[test]
fn files_are_copied_in_and_out() {
    let stage = Stage::new(&[]);
    let program = stage.write("größe und name.sh", "#!/bin/sh\necho ran\n", 0o755);
    // A new name, with missing parents; a folder; a folder that is only named as one.
    stage.copies(&program, stage.inside("/tmp/a/b/tool"));
    assert_eq!(
        stage.sh("/tmp/a/b/tool; stat -c %a /tmp/a/b/tool"),
        "ran\n755\n"
    );
    stage.copies(&program, stage.inside("/tmp"));
    stage.copies(&program, stage.inside("/tmp/new/"));
    assert_eq!(
        stage.sh("cd /tmp; ls; ls new"),
        "a\ngröße und name.sh\nnew\ngröße und name.sh\n"
    );
    let empty = stage.write("leer", "", 0o640);
    stage.copies(&empty, stage.inside("/workspace/leer"));
    stage.copies(
        stage.inside("/workspace/leer"),
        stage.path("out/deep/er/leer"),
    );
    assert_eq!(
        std::fs::metadata(stage.path("out/deep/er/leer"))
            .unwrap()
            .len(),
        0
    );
    stage.copies(stage.inside("/tmp/größe und name.sh"), stage.path("out/"));
    let copy = stage.path("out/größe und name.sh");
    assert_eq!(
        std::fs::read_to_string(&copy).unwrap(),
        "#!/bin/sh\necho ran\n"
    );
    assert_eq!(mode(&copy) & 0o700, 0o700);
    // Files are replaced, also those that may only be read.
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o444)).unwrap();
    stage.sh("printf second > /tmp/second; chmod 1755 /tmp/second");
    stage.copies(stage.inside("/tmp/second"), &copy);
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "second");
    assert_eq!(mode(&copy) & 0o7000, 0, "no sticky bit");
    assert_eq!(names(&stage.path("out")), ["deep", "größe und name.sh"]);
    // Binary, and more than any buffer holds.
    let bytes = (0..3_000_000_u32)
        .map(|i| ((i * 7) >> 3) as u8)
        .collect::<Vec<_>>();
    std::fs::write(stage.path("large"), &bytes).unwrap();
    stage.copies(stage.path("large"), stage.inside("/tmp/large"));
    stage.copies(stage.inside("/tmp/large"), stage.path("again"));
    assert!(std::fs::read(stage.path("again")).unwrap() == bytes);
}

#[test]
fn folders_are_copied_in_and_out() {
    let stage = Stage::new(&[]);
    stage.write("tree/one", "1", 0o644);
    stage.write("tree/sub/ünïcode", "2", 0o600);
    stage.write("tree/sub/run", "3", 0o755);
    std::fs::create_dir_all(stage.path("tree/empty/below")).unwrap();
    let tree = stage.path("tree");
    // Into an existing folder under its name, else under the new name; DIR/. is what is in it.
    stage.copies(&tree, stage.inside("/tmp"));
    stage.copies(&tree, stage.inside("/tmp/renamed/deep"));
    stage.copies(tree.join("."), stage.inside("/tmp/content"));
    let list = "find . -type f -o -type d -empty | LC_ALL=C sort";
    let expected = "./empty/below\n./one\n./sub/run\n./sub/ünïcode\n";
    for folder in ["tree", "renamed/deep", "content"] {
        assert_eq!(
            stage.sh(&format!("cd /tmp/{folder}; {list}")),
            expected,
            "{folder}"
        );
    }
    assert_eq!(
        stage.sh("stat -c %a /tmp/tree/sub/run /tmp/tree/sub/*code"),
        "755\n600\n"
    );
    stage.copies(stage.inside("/tmp/tree"), stage.path("out"));
    stage.copies(stage.inside("/tmp/tree"), stage.path("out"));
    stage.copies(stage.inside("/tmp/tree/."), stage.path("merged"));
    stage.copies(stage.inside("/tmp/content/sub/"), stage.path("merged"));
    for folder in ["out", "out/tree"] {
        let folder = stage.path(folder);
        assert_eq!(
            std::fs::read_to_string(folder.join("sub/ünïcode")).unwrap(),
            "2"
        );
        assert!(folder.join("empty/below").is_dir());
        assert_eq!(mode(folder.join("sub/run")) & 0o700, 0o700);
    }
    assert_eq!(names(&stage.path("merged")), ["empty", "one", "sub"]);
    let document = common::run_text([
        "cp",
        "-o",
        "json",
        &stage.inside("/tmp/tree"),
        stage.path("json").to_str().unwrap(),
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
    let stage = Stage::new(&[]);
    stage.sh("cd /tmp; mkdir d; echo x > d/file; ln -s /etc/passwd d/link; ln -s / d/root; mkfifo d/fifo");
    stage.sh("ln -s /etc/passwd /tmp/top; mkdir /tmp/d/closed; echo y > /tmp/d/closed/in; chmod 0 /tmp/d/closed");
    let (code, stderr) = stage.cp(stage.inside("/tmp/d"), stage.path("out"));
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
    assert_eq!(names(&stage.path("out")), ["closed", "file"]);
    let (code, stderr) = stage.cp(stage.inside("/tmp/top"), stage.path("top"));
    assert_eq!(code, Some(125));
    assert!(stderr.contains("/tmp/top: a symbolic link"), "{stderr}");
    assert!(!stage.path("top").exists());

    stage.write("in/file", "x", 0o644);
    symlink("/etc/passwd", stage.path("in/link")).unwrap();
    symlink("..", stage.path("in/up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(stage.path("in/socket")).unwrap();
    let (code, stderr) = stage.cp(stage.path("in"), stage.inside("/tmp/in"));
    assert_eq!(code, Some(125));
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
    assert_eq!(stage.sh("ls -A /tmp/in"), "file\n");
    let (code, stderr) = stage.cp(stage.path("in/link"), stage.inside("/tmp/passwd"));
    assert_eq!(code, Some(125));
    assert!(stderr.contains("a symbolic link"), "{stderr}");
    for special in ["/dev/zero", stage.path("in/socket").to_str().unwrap()] {
        let (code, stderr) = stage.cp(special, stage.inside("/tmp/special"));
        assert_eq!(code, Some(125));
        assert!(
            stderr.contains("neither a regular file nor a folder"),
            "{stderr}"
        );
    }
}

#[test]
fn copy_out_does_not_write_through_host_links() {
    let stage = Stage::new(&[]);
    stage.sh("mkdir -p /tmp/d/sub; echo guest > /tmp/d/file; echo guest > /tmp/d/sub/file");
    let outside = stage.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "host").unwrap();
    // Planted where the copy goes.
    std::fs::create_dir_all(stage.path("out/d")).unwrap();
    symlink(outside.join("file"), stage.path("out/d/file")).unwrap();
    symlink(&outside, stage.path("out/d/sub")).unwrap();
    let (code, stderr) = stage.cp(stage.inside("/tmp/d"), stage.path("out"));
    assert_eq!(code, Some(125), "{stderr}");
    assert_eq!(
        std::fs::read_to_string(outside.join("file")).unwrap(),
        "host"
    );
    assert_eq!(names(&outside), ["file"]);
    // The link to a file was replaced, like any file.
    let copied = std::fs::symlink_metadata(stage.path("out/d/file")).unwrap();
    assert!(copied.is_file());
    assert_eq!(
        names(&stage.path("out/d")),
        ["file", "sub"],
        "no temporary file is left"
    );
}

#[test]
fn links_in_writable_folders_cannot_redirect_copies() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::set_permissions(&work, std::fs::Permissions::from_mode(0o777)).unwrap();
    let stage = Stage::new(&[
        "--workspace",
        work.to_str().unwrap(),
        "--allow-partial",
        "disk",
        "--allow-partial",
        "filesystem_write_roots",
    ]);
    let secret = stage.write("secret", "secret", 0o600);
    // The code swaps a folder for a link as fast as it can, while the folder is copied in.
    std::fs::create_dir_all(work.join("d/swapped")).unwrap();
    std::fs::write(work.join("d/swapped/secret"), "harmless").unwrap();
    let target = secret.parent().unwrap().display().to_string();
    let swap = format!(
        "cd /workspace/d && mv swapped real && while :; do ln -sfn {target} swapped; rm -f swapped; cp -r real swapped 2>/dev/null; rm -rf swapped; done"
    );
    let mut code = std::process::Command::new(common::program())
        .args(["exec", "-n", &stage.name, "--", "sh", "-c", &swap])
        .spawn()
        .unwrap();
    for round in 0..30 {
        let inside = stage.inside(&format!("/tmp/copy{round}"));
        // Whatever it meets, it may fail.
        let _ = stage.cp(work.join("d"), inside);
    }
    code.kill().unwrap();
    code.wait().unwrap();
    let found = stage.sh("grep -rlx secret /tmp || true");
    assert_eq!(found, "");
}

#[test]
fn link_planted_above_copy_source_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::set_permissions(&work, std::fs::Permissions::from_mode(0o777)).unwrap();
    let stage = Stage::new(&[
        "--workspace",
        work.to_str().unwrap(),
        "--allow-partial",
        "disk",
        "--follow",
    ]);
    stage.write("outside/priv", "secret", 0o600);
    let outside = stage.path("outside").display().to_string();
    stage.sh(&format!(
        "mkdir real; echo own > real/priv; ln -s {outside} sub; ln -s real inner"
    ));
    for planted in ["sub/priv", "inner/priv", "sub", "sub/."] {
        let (code, stderr) = stage.cp(work.join(planted), stage.inside("/tmp/x"));
        assert_eq!(code, Some(125), "{planted}: {stderr}");
        assert!(stderr.contains("link"), "{stderr}");
    }
    assert_eq!(stage.sh("ls /tmp"), "");
    stage.copies(work.join("real/priv"), stage.inside("/tmp/x"));

    // Somebody else's link, in a sandbox whose policy does not follow links.
    let stage = Stage::new(&[]);
    stage.write("outside/file", "", 0o644);
    std::fs::create_dir(stage.path("proj")).unwrap();
    symlink("../outside", stage.path("proj/sub")).unwrap();
    symlink("outside", stage.path("stays")).unwrap();
    let (code, stderr) = stage.cp(stage.path("proj/sub/file"), stage.inside("/tmp/x"));
    assert_eq!(code, Some(125), "{stderr}");
    assert!(
        stderr.contains("outside of the folder that it stands in"),
        "{stderr}"
    );
    stage.copies(stage.path("stays/file"), stage.inside("/tmp/x"));
}

#[test]
fn limit_option_bounds_copy_out() {
    let stage = Stage::new(&["--disk", "64MiB"]);
    stage.sh("cd /tmp; mkdir d; truncate -s 1T d/sparse || truncate -s 60M d/sparse; echo small > d/small");
    let out = stage.path("out");
    let (code, _, stderr) = common::run_text([
        Path::new("cp"),
        Path::new("--limit"),
        Path::new("1MiB"),
        Path::new(&stage.inside("/tmp/d")),
        &out,
    ]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("not copied: /tmp/d/sparse: "), "{stderr}");
    assert_eq!(names(&out), ["small"]);
}

#[test]
fn bad_copy_arguments_are_refused() {
    let stage = Stage::new(&["--timeout", "30s"]);
    let file = stage.write("file", "", 0o644);
    let missing = stage.path("missing");
    for (source, target, expected) in [
        (PathBuf::from("a"), PathBuf::from("b"), "SRC or DST must be"),
        (
            stage.inside("/a").into(),
            stage.inside("/b").into(),
            "cannot both be in a sandbox",
        ),
        (
            file.clone(),
            stage.inside("relative").into(),
            "not absolute",
        ),
        (missing, stage.inside("/tmp").into(), "No such file"),
        (
            stage.inside("/no/such").into(),
            stage.path("x"),
            "nothing is there",
        ),
        (file.clone(), stage.inside("/proc/x").into(), "/proc/x"),
        (file.join("."), stage.inside("/tmp").into(), "not a folder"),
    ] {
        let (code, stderr) = stage.cp(&source, &target);
        assert_eq!(code, Some(125), "{source:?} {target:?}");
        assert!(stderr.contains(expected), "{expected}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert!(!stage.path("x").exists());
    let start = std::time::Instant::now();
    stage.sh("mkfifo /tmp/fifo");
    let (code, _) = stage.cp(stage.inside("/tmp/fifo"), stage.path("fifo"));
    assert_eq!(code, Some(125));
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "it waited for a FIFO"
    );
}
