//! Small registries of npm and gem on loopback, with packages made for the tests.
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

/// Serves what a program puts into a folder.
fn made(folder: &Path, make: &[&str]) -> PackageIndex {
    let output = Command::new(make[0])
        .args(&make[1..])
        .arg(folder)
        .env_remove("RUBYOPT")
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let mut responses = vec![
        ("/".to_owned(), IndexResponse::Content(Vec::new())),
        ("/denied".to_owned(), IndexResponse::Status("403 Forbidden")),
        ("/silent".to_owned(), IndexResponse::Silence),
    ];
    serve(folder, folder, &mut responses);
    PackageIndex::start(responses)
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
