//! What dockerd lists and does not have.
//!
//! A dockerd that was killed removes at its start, twice at once, what was to go with its end: when it sees that the container's process has
//! ended, and when it has read what it kept. The slower one writes the container, which is gone, into the table behind the list: it is
//! listed as "dead", without a name, until dockerd starts again. No request finds or removes it.

use std::io::Read;
use std::path::Path;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use super::Test;
use super::engine::{Engine, run};
use super::listing::ask;
use super::processes::naming;

pub const TESTS: &[Test] = &[("phantom::what_left_anything_is_there", anything)];

/// Whether a listed container is none: the engine does not know it, nothing below `folder`, the engine's own, nor a control group is
/// named after it, and no process serves it.
pub fn is_phantom(socket: &Path, folder: &Path, listed: &Value) -> bool {
    let id = listed["Id"].as_str().expect("an id");
    if listed["State"] != "dead" {
        return false;
    }
    let seen = ask(socket, "GET", &format!("/containers/{id}/json"), "");
    let unknown = seen.is_err_and(|why| why.starts_with("HTTP/1.0 404"));
    let phantom = unknown
        && naming(id).is_empty()
        && !is_named(folder, id)
        && !is_named(Path::new("/sys/fs/cgroup"), id);
    if phantom {
        eprintln!("{id} is listed as dead, and nothing of it is there");
    }
    phantom
}

/// Whether anything in a folder, however deep, has this in its name.
fn is_named(folder: &Path, text: &str) -> bool {
    // What cannot be read has gone, or is a file system that a container has left: none is named there.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        entry.file_name().to_string_lossy().contains(text)
            || is_folder && is_named(&entry.path(), text)
    })
}

/// The control: one trace is enough.
fn anything() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start().await;
        let id = sandbox_core::unique_name("phantom");
        let listed = json!({ "Id": id, "State": "dead" });
        let is_phantom = || is_phantom(&engine.socket(), engine.folder(), &listed);
        assert!(is_phantom());
        let left = engine.folder().join(format!("{id}.json"));
        std::fs::write(&left, "").expect("written");
        assert!(!is_phantom(), "a file");
        std::fs::remove_file(&left).expect("removed");
        let mut process = std::process::Command::new("sh")
            .args(["-c", "echo begun; read line", &id])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        // The kernel shows no arguments yet while a program is being loaded.
        let mut begun = [0; 6];
        let mut stdout = process.stdout.take().expect("a pipe");
        stdout.read_exact(&mut begun).expect("a line");
        assert!(!is_phantom(), "a process");
        drop(process.stdin.take());
        process.wait().expect("an end");
        assert!(is_phantom());
        Ok(())
    })
}
