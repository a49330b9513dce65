//! Containers that dockerd lists after it has removed them.
//!
//! After dockerd was killed, its next start can remove one container twice at once: when it sees
//! that the container's process has ended, and when it has read its stored state. The slower
//! removal writes the container back into the table behind the list. It is then listed as "dead"
//! and without a name until dockerd starts again, and no request finds or removes it.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::private_engine::{CLIENT_STATE, PrivateEngine, run};
use super::{EngineLauncher, FaultTest};
use crate::contract::TestResult;
use crate::engine_api::request;
use crate::processes::containing;

pub const TESTS: &[FaultTest] = &[(
    "removed_containers::a_listed_container_with_any_trace_exists",
    any_trace,
)];

/// True if the engine lists a container that no longer exists: inspecting it is a 404, and no
/// process, no control group and nothing in the engine's folder has its ID.
pub fn is_removed(socket: &Path, engine_folder: &Path, listed: &Value) -> bool {
    let id = listed["Id"].as_str().expect("an id");
    let is_removed = listed["State"] == "dead" && trace_of(socket, engine_folder, id).is_none();
    if is_removed {
        eprintln!("container {id} is listed as dead, and nothing of it exists");
    }
    is_removed
}

/// What exists of a container. The records of clients are not the engine's: `prune` removes them.
pub fn trace_of(socket: &Path, engine_folder: &Path, id: &str) -> Option<String> {
    let inspected = request(socket, "GET", &format!("/containers/{id}/json"), "");
    let is_unknown = inspected.is_err_and(|response| response.starts_with("HTTP/1.0 404"));
    if !is_unknown {
        return Some("an answer of the engine".to_owned());
    }
    let processes = containing(id);
    if !processes.is_empty() {
        return Some(format!("processes {processes:?}"));
    }
    let records = engine_folder.join(CLIENT_STATE);
    let entry = entry(engine_folder, id, &records)
        .or_else(|| entry(Path::new("/sys/fs/cgroup"), id, &records))?;
    Some(entry.display().to_string())
}

/// A file or folder at any depth with this text in its name, but not in the folder `except`.
fn entry(folder: &Path, text: &str, except: &Path) -> Option<PathBuf> {
    // A folder that cannot be read has been removed, or is a file system that a container has
    // unmounted.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().find_map(|found| {
        let is_folder = found.file_type().is_ok_and(|kind| kind.is_dir());
        match found.file_name().to_string_lossy().contains(text) {
            true => Some(found.path()),
            false if is_folder && found.path() != except => entry(&found.path(), text, except),
            false => None,
        }
    })
}

fn any_trace(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start(launcher).await;
        let id = sandbox_core::spi::unique_name("removed");
        let listed = json!({ "Id": id, "State": "dead" });
        let is_removed = || is_removed(&engine.socket(), engine.folder(), &listed);
        assert!(is_removed());
        let file = engine.folder().join(format!("{id}.json"));
        std::fs::write(&file, "").expect("written");
        assert!(!is_removed(), "a file");
        std::fs::remove_file(&file).expect("removed");
        let record = engine.state().join("containers").join(&id);
        std::fs::create_dir_all(&record).expect("made");
        assert!(is_removed(), "a client's record");
        let mut process = std::process::Command::new("sh")
            .args(["-c", "echo begun; read line", &id])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        // The kernel shows no arguments while it loads a program.
        let mut begun = [0; 6];
        let mut stdout = process.stdout.take().expect("a pipe");
        stdout.read_exact(&mut begun).expect("a line");
        assert!(!is_removed(), "a process");
        drop(process.stdin.take());
        process.wait().expect("an end");
        assert!(is_removed());
        Ok(())
    })
}
