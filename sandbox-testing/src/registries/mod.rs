//! Small registries of npm, gem, Go, cargo and R on loopback, with packages made for the tests.
//!
//! | package | npm | gem |
//! |---|---|---|
//! | `demo` 1.0.0, 2.0.0 | exports its version; has a program | the same |
//! | `needs` 1.0.0 | depends on `demo` | depends on `demo` and `json` |
//! | `@scope/demo` 1.0.0 | exports its version | – |
//! | `scripted` 1.0.0 | has scripts that write the file `ran` | – |
//! | `native` 1.0.0 | must be compiled | must be compiled |
//! | `plugin` 1.0.0 | – | extends gem itself |
//! | `git` 1.0.0 | depends on a Git repository | – |
//! | `linked` 1.0.0 | depends on the folder `/etc` | – |
//! | `outside` 1.0.0 | has files and programs with `..` in their paths | – |
//!
//! Go's module proxy has in `example.org`: `demo` v1.0.0 and v1.1.0, `needs/sub` v1.0.0, which imports
//! `demo`, and `lost` v1.0.0, which imports a module that is nowhere.
//!
//! cargo's registry has `demo` 1.0.0 and 2.0.0, `needs` 1.0.0, which depends on `demo` 1 and has the
//! feature `extra`, and `built` 1.0.0, whose build script writes a file `ran` beside itself.
//!
//! R's repository has `demo` 2.0, and 1.0 in its archive, `needs`, which imports `demo`, `built`, which
//! tries to reach the repository and to write a file while it is installed, `native`, which is compiled,
//! `broken`, whose code fails, `changed`, whose file is not that of the index, `lost`, which imports a
//! package that is nowhere, and `newer`, which needs an R of the future.

use std::path::Path;
use std::process::Command;

use crate::package_index::{IndexResponse, PackageIndex};

/// A registry of npm.
///
/// # Panics
///
/// If `/usr/bin/python3` is missing or fails.
pub fn npm() -> PackageIndex {
    let folder = tempfile::tempdir().expect("a folder");
    let make = ["/usr/bin/python3", "-c", include_str!("npm.py")];
    made(folder.path(), &make)
}

/// A registry of gem.
///
/// # Panics
///
/// If `/usr/bin/ruby` is missing or fails.
pub fn gem() -> PackageIndex {
    let folder = tempfile::tempdir().expect("a folder");
    let make = ["/usr/bin/ruby", "-e", include_str!("gem.rb"), "--"];
    made(folder.path(), &make)
}

/// A module proxy of Go.
///
/// # Panics
///
/// If `/usr/bin/python3` is missing or fails.
pub fn go() -> PackageIndex {
    let folder = tempfile::tempdir().expect("a folder");
    made(folder.path(), &go_command())
}

/// The files of [`go`] in an existing folder.
///
/// # Panics
///
/// As [`go`].
pub fn go_folder(folder: &Path) {
    make(folder, &go_command());
}

fn go_command() -> [&'static str; 3] {
    ["/usr/bin/python3", "-c", include_str!("go.py")]
}

/// A repository of R.
///
/// # Panics
///
/// If `/usr/bin/python3` is missing or fails.
pub fn cran() -> PackageIndex {
    let folder = tempfile::tempdir().expect("a folder");
    made(folder.path(), &cran_command())
}

/// The files of [`cran`] in an existing folder.
///
/// # Panics
///
/// As [`cran`].
pub fn cran_folder(folder: &Path) {
    make(folder, &cran_command());
}

fn cran_command() -> [&'static str; 3] {
    ["/usr/bin/python3", "-c", include_str!("cran.py")]
}

/// A registry of cargo. Its address for cargo is `sparse+` and [`PackageIndex::root`] with `/`.
///
/// # Panics
///
/// If `/usr/bin/python3` is missing or fails.
pub fn cargo() -> PackageIndex {
    let folder = tempfile::tempdir().expect("a folder");
    cargo_folder(folder.path());
    PackageIndex::start_with(|root| {
        let config = format!("{{\"dl\": \"{root}/crates\"}}").into_bytes();
        let denied = IndexResponse::Status("403 Forbidden");
        let mut responses = vec![
            ("/config.json".to_owned(), IndexResponse::Content(config)),
            ("/de/ni/denied".to_owned(), denied),
        ];
        serve(folder.path(), folder.path(), &mut responses);
        responses
    })
}

/// The files of [`cargo`] in an existing folder, as a `local-registry`.
///
/// # Panics
///
/// As [`cargo`].
pub fn cargo_folder(folder: &Path) {
    let script = include_str!("cargo.py");
    make(folder, &["/usr/bin/python3", "-c", script]);
}

/// Serves what a program puts into a folder.
fn made(folder: &Path, command: &[&str]) -> PackageIndex {
    make(folder, command);
    let mut responses = vec![
        ("/".to_owned(), IndexResponse::Content(Vec::new())),
        ("/denied".to_owned(), IndexResponse::Status("403 Forbidden")),
        ("/silent".to_owned(), IndexResponse::Silence),
        (
            "/denied.example/@v/list".to_owned(),
            IndexResponse::Status("403 Forbidden"),
        ),
    ];
    serve(folder, folder, &mut responses);
    PackageIndex::start(responses)
}

/// Runs a program that puts a registry's files into a folder.
fn make(folder: &Path, command: &[&str]) {
    let output = Command::new(command[0])
        .args(&command[1..])
        .arg(folder)
        .env_remove("RUBYOPT")
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

fn serve(root: &Path, folder: &Path, responses: &mut Vec<(String, IndexResponse)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            serve(root, &path, responses);
            continue;
        }
        let name = path.strip_prefix(root).expect("below").display();
        let content = std::fs::read(&path).expect("a file");
        responses.push((format!("/{name}"), IndexResponse::Content(content)));
    }
}
