//! The guide to a backend of one's own: it shows the toy as it is tested, and whoever follows it gets a row of the matrix.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package's folder.
fn package() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(package().join(path)).expect(path)
}

fn guide() -> String {
    read("../docs/add-a-backend.md")
}

#[test]
fn the_guide_shows_what_is_tested() {
    let guide = guide();
    for file in ["backend.rs", "instance.rs"] {
        let code = read(&format!("tests/toy/{file}"));
        assert!(
            guide.contains(&format!("```rust\n{code}```\n")),
            "docs/add-a-backend.md shows another {file} than tests/toy has"
        );
    }
}

/// What somebody does who follows the guide.
#[derive(Debug, PartialEq, Eq)]
enum Deed<'a> {
    /// Run these lines.
    Run(&'a str),
    /// Write this file, or more of it where it is there.
    Write(&'a str, &'a str),
}

/// The blocks of the guide: commands, and files by the path in the line before them. What is neither is only shown.
fn deeds(guide: &str) -> Vec<Deed<'_>> {
    let mut deeds = Vec::new();
    let mut rest = guide;
    while let Some((before, block)) = rest.split_once("\n```") {
        let (kind, block) = block.split_once('\n').expect("a block");
        let (content, after) = block.split_once("```\n").expect("an end");
        let said = before.trim_end().rsplit('\n').next().unwrap_or_default();
        let named = said.strip_suffix("`:");
        match (kind, named.and_then(|line| line.rsplit('`').next())) {
            ("sh", _) => deeds.push(Deed::Run(content)),
            (_, Some(path)) => deeds.push(Deed::Write(path, content)),
            _ => {}
        }
        rest = after;
    }
    deeds
}

#[test]
fn whoever_follows_the_guide_gets_a_row_of_the_matrix() {
    let Some(cargo) = std::env::var_os("CARGO") else {
        println!("NOT RUN: guide: no cargo runs this test");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let guide = guide();
    let deeds = deeds(&guide);
    let written = deeds.iter().filter(|deed| matches!(deed, Deed::Write(..)));
    assert_eq!((deeds.len(), written.count()), (9, 6), "{deeds:#?}");
    let mut reader = Reader {
        cargo: PathBuf::from(cargo),
        root: package().join("..").canonicalize().expect("the root"),
        place: folder.path().to_owned(),
    };
    let mut last = String::new();
    for deed in deeds {
        match deed {
            Deed::Write(path, content) => reader.write(path, content),
            Deed::Run(lines) => last = reader.run(lines),
        }
    }
    assert!(last.contains("toy-"), "{last}");
    let row = last.lines().find(|line| line.contains("network_access"));
    assert!(row.is_some_and(|row| row.contains("refused")), "{last}");
    let profiles = std::fs::read_dir(reader.place.join("matrix")).expect("a matrix");
    assert_eq!(profiles.count(), 1);
    // The target folder is the workspace's, where each run would leave a crate of its own. What goes is found by the names of its
    // targets: no other crate has a test "suite" or an example "matrix".
    reader.run("cargo clean --package sandbox-toy");
}

/// Somebody who follows the guide.
struct Reader {
    cargo: PathBuf,
    /// The checkout, which the guide takes to be beside the new crate.
    root: PathBuf,
    /// The folder that the last command was in.
    place: PathBuf,
}

impl Reader {
    fn write(&self, path: &str, content: &str) {
        let path = self.place.join(path);
        let folder = path.parent().expect("a folder");
        std::fs::create_dir_all(folder).expect("a folder");
        // What a manifest already says stays; the files that `cargo new` makes up do not.
        let before = match path.ends_with("Cargo.toml") {
            true => std::fs::read_to_string(&path).expect("a manifest") + "\n",
            false => String::new(),
        };
        std::fs::write(path, before + content).expect("a file");
    }

    /// Runs the lines, and gives what they wrote. Nothing is fetched, and what this workspace has built is not built again.
    fn run(&mut self, lines: &str) -> String {
        let lines = lines.replace("../sandbox/", &format!("{}/", self.root.display()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let tools = self.cargo.parent().map(Path::to_owned);
        let path = tools.into_iter().chain(std::env::split_paths(&path));
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
        let output = Command::new("sh")
            .args(["-e", "-c", &format!("{lines}\ncp -n \"$LOCK\" .\npwd")])
            .env("LOCK", self.root.join("Cargo.lock"))
            .env("PATH", std::env::join_paths(path).expect("a path"))
            .env("CARGO_TARGET_DIR", target.expect("the target folder"))
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env("CARGO_NET_OFFLINE", "true")
            .env_remove("SANDBOX_REQUIRE")
            .current_dir(&self.place)
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{lines}\n{out}\n{error}");
        let (said, place) = out.trim_end().rsplit_once('\n').unwrap_or(("", &out));
        self.place = PathBuf::from(place.trim_end());
        said.to_owned()
    }
}

#[test]
fn what_is_only_shown_is_not_done() {
    let guide =
        "Look:\n\n```console\nx\n```\n\nIn `a/b.toml`:\n\n```toml\nc\n```\n\n```sh\nd\n```\n";
    assert_eq!(
        deeds(guide),
        [Deed::Write("a/b.toml", "c\n"), Deed::Run("d\n")]
    );
}
