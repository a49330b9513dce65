//! The guide for adding a backend: its code equals the toy, and its steps lead to a row in the
//! matrix.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use sandbox_testing::{named_tests, trials};

fn main() -> ExitCode {
    let missing = std::env::var_os("CARGO")
        .is_none()
        .then_some("cargo did not start this test");
    trials::main(&[
        (
            None,
            named_tests![
                guide_shows_the_tested_code,
                blocks_without_a_command_or_path_are_skipped,
            ],
        ),
        (
            missing,
            named_tests![steps_of_the_guide_lead_to_a_matrix_row],
        ),
    ])
}

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

fn guide_shows_the_tested_code() {
    let guide = guide();
    for file in ["backend.rs", "instance.rs"] {
        let code = read(&format!("tests/toy/{file}"));
        assert!(
            guide.contains(&format!("```rust\n{code}```\n")),
            "docs/add-a-backend.md shows another {file} than tests/toy has"
        );
    }
}

/// A step of the guide.
#[derive(Debug, PartialEq, Eq)]
enum GuideStep<'a> {
    /// Run these lines.
    Run(&'a str),
    /// Write this file, or append to it.
    Write(&'a str, &'a str),
}

/// The steps of the guide: commands, and files whose path is in the line before the block. Other
/// blocks are skipped.
fn guide_steps(guide: &str) -> Vec<GuideStep<'_>> {
    let mut guide_steps = Vec::new();
    let mut rest = guide;
    while let Some((before, block)) = rest.split_once("\n```") {
        let (kind, block) = block.split_once('\n').expect("a block");
        let (content, after) = block.split_once("```\n").expect("an end");
        let line = before.trim_end().rsplit('\n').next().unwrap_or_default();
        let named = line.strip_suffix("`:");
        match (kind, named.and_then(|line| line.rsplit('`').next())) {
            ("sh", _) => guide_steps.push(GuideStep::Run(content)),
            (_, Some(path)) => guide_steps.push(GuideStep::Write(path, content)),
            _ => {}
        }
        rest = after;
    }
    guide_steps
}

fn steps_of_the_guide_lead_to_a_matrix_row() {
    let cargo = std::env::var_os("CARGO").expect("cargo");
    let folder = tempfile::tempdir().expect("a folder");
    let guide = guide();
    let guide_steps = guide_steps(&guide);
    let written = guide_steps
        .iter()
        .filter(|step| matches!(step, GuideStep::Write(..)));
    assert_eq!(
        (guide_steps.len(), written.count()),
        (9, 6),
        "{guide_steps:#?}"
    );
    let mut runner = GuideRunner {
        cargo: PathBuf::from(cargo),
        root: package().join("..").canonicalize().expect("the root"),
        place: folder.path().to_owned(),
    };
    let mut last = String::new();
    for step in guide_steps {
        match step {
            GuideStep::Write(path, content) => runner.write(path, content),
            GuideStep::Run(lines) => last = runner.run(lines),
        }
    }
    assert!(last.contains("toy-"), "{last}");
    let row = last.lines().find(|line| line.contains("network_access"));
    assert!(row.is_some_and(|row| row.contains("refused")), "{last}");
    let profiles = std::fs::read_dir(runner.place.join("matrix")).expect("a matrix");
    assert_eq!(profiles.count(), 1);
    // All runs share the workspace's target folder, so the new crate's files are removed. Cargo
    // finds them by the names of its targets: no other crate has a test "suite" or an example
    // "matrix".
    runner.run("cargo clean --package sandbox-toy");
}

/// Runs the steps of the guide.
struct GuideRunner {
    cargo: PathBuf,
    /// The checkout. The guide expects it beside the new crate.
    root: PathBuf,
    /// The current folder of the commands.
    place: PathBuf,
}

impl GuideRunner {
    fn write(&self, path: &str, content: &str) {
        let path = self.place.join(path);
        let folder = path.parent().expect("a folder");
        std::fs::create_dir_all(folder).expect("a folder");
        // Content is appended to a manifest. Other files of `cargo new` are replaced.
        let before = match path.ends_with("Cargo.toml") {
            true => std::fs::read_to_string(&path).expect("a manifest") + "\n",
            false => String::new(),
        };
        std::fs::write(path, before + content).expect("a file");
    }

    /// Runs the lines and returns their output. Cargo is offline and uses the workspace's target
    /// folder.
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
        let (line, place) = out.trim_end().rsplit_once('\n').unwrap_or(("", &out));
        self.place = PathBuf::from(place.trim_end());
        line.to_owned()
    }
}

fn blocks_without_a_command_or_path_are_skipped() {
    let guide =
        "Look:\n\n```console\nx\n```\n\nIn `a/b.toml`:\n\n```toml\nc\n```\n\n```sh\nd\n```\n";
    assert_eq!(
        guide_steps(guide),
        [GuideStep::Write("a/b.toml", "c\n"), GuideStep::Run("d\n")]
    );
}
