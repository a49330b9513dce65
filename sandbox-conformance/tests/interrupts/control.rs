//! Controls of these tests: each kind of leftover is planted, found, and removed.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_testing::users::needs_root;

use crate::leftovers::{Leftovers, mark};
use crate::suite::{Suite, SuiteProcess, send};
use crate::tier::{Tier, state};

/// How long the kernel may take to end a killed process.
const CLEANUP_LIMIT: Duration = Duration::from_secs(30);

/// Finds each planted leftover, and nothing else.
pub fn seen(tier: &Tier) {
    let mut suite = Suite::stand_in(tier);
    let process = suite.process();
    wait_for_child(process);
    #[cfg(feature = "engines")]
    let container = tier
        .socket
        .as_deref()
        .map(|socket| engine::Planted::new(socket, process));
    let remains = Leftovers::of(&suite);
    suite.send("-KILL");
    assert_eq!(suite.end().code(), None);
    for child in remains.started() {
        assert_sees(&remains, &format!("process {}: sleep", child.pid));
        send("-KILL", child.pid);
    }
    #[cfg(feature = "engines")]
    if let Some(container) = container {
        container.check(&remains);
    }
    wait_until("nothing is left", || remains.left().is_empty());
    processes(&remains, process);
    files(&remains, process);
    records(&remains, process);
}

/// Why mounts and control groups cannot be planted here.
pub fn missing() -> Option<String> {
    if let Some(reason) = needs_root() {
        return Some(reason.to_owned());
    }
    let folder = group_folder(&format!("control-{}", std::process::id()));
    match fs::create_dir(&folder) {
        Ok(()) => fs::remove_dir(&folder).err(),
        Err(error) => Some(error),
    }
    .map(|error| format!("{}: {error}", folder.display()))
}

/// Finds a planted mount and a planted control group, and nothing else.
pub fn mounts_and_groups_seen(tier: &Tier) {
    let mut suite = Suite::stand_in(tier);
    let process = suite.process();
    wait_for_child(process);
    let remains = Leftovers::of(&suite);
    suite.send("-KILL");
    assert_eq!(suite.end().code(), None);
    for child in remains.started() {
        send("-KILL", child.pid);
    }
    wait_until("nothing is left", || remains.left().is_empty());
    mounts(&remains, process);
    groups(&remains, process);
}

fn wait_for_child(suite: SuiteProcess) {
    wait_until("it has a child", || {
        SuiteProcess::all().iter().any(|(_, of)| *of == suite.pid)
    });
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < CLEANUP_LIMIT,
            "not after {CLEANUP_LIMIT:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(feature = "engines")]
fn sees(remains: &Leftovers, sign: &str) -> bool {
    remains.left().iter().any(|left| left.starts_with(sign))
}

fn assert_sees(remains: &Leftovers, sign: &str) {
    let left = remains.left();
    assert!(
        left.iter().any(|one| one.starts_with(sign)),
        "{sign:?}: {left:#?}"
    );
}

/// Finds these leftovers, removes them, and then finds nothing.
fn check(remains: &Leftovers, signs: &[&str], remove: impl FnOnce()) {
    let left = remains.left();
    remove();
    for sign in signs {
        assert!(
            left.iter().any(|one| one.starts_with(sign)),
            "{sign:?}: {left:#?}"
        );
    }
    wait_until("it was removed", || remains.left().is_empty());
}

/// Programs with the suite's mark in their arguments or environment.
fn processes(remains: &Leftovers, suite: SuiteProcess) {
    let marked = format!("{}control", mark(suite.pid));
    let mut by_name = Command::new("sleep");
    by_name.arg0(&marked);
    let mut by_variable = Command::new("sleep");
    by_variable.env("CONTROL", &marked);
    for mut command in [by_name, by_variable] {
        let command = command.arg("600").stdin(Stdio::null());
        let mut child = command.spawn().expect("a program");
        check(remains, &[&format!("process {}:", child.id())], || {
            child.kill().expect("killed");
            child.wait().expect("a child");
        });
    }
}

fn files(remains: &Leftovers, suite: SuiteProcess) {
    let home = std::env::var("HOME").map(PathBuf::from);
    // Not the names of a run, so that no cleanup removes them.
    let mut files = vec![
        PathBuf::from(format!("/var/tmp/sandbox-{}control", mark(suite.pid))),
        format!("/tmp/{}control", mark(suite.pid)).into(),
        format!("/tmp/probe-{}-control", suite.pid).into(),
        format!("/dev/shm/probe-{}-control", suite.pid).into(),
    ];
    files.extend(home.map(|home| home.join(format!(".probe-{}-control", suite.pid))));
    for file in files {
        fs::write(&file, "").expect("a file");
        check(remains, &[&format!("file {}", file.display())], || {
            fs::remove_file(&file).expect("removed");
        });
    }
}

fn mounts(remains: &Leftovers, suite: SuiteProcess) {
    let folder = tempfile::Builder::new()
        .prefix(&mark(suite.pid))
        .tempdir()
        .expect("a folder");
    run("mount", &["-t", "tmpfs", "none"], folder.path());
    check(remains, &["mount ", "file "], || {
        run("umount", &[], folder.path());
        folder.close().expect("removed");
    });
}

fn run(program: &str, arguments: &[&str], place: &Path) {
    let done = Command::new(program).args(arguments).arg(place).status();
    assert!(
        done.expect(program).success(),
        "{program} {}",
        place.display()
    );
}

/// A control group of cgroup v2, or of one hierarchy of v1.
fn group_folder(name: &str) -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    let pids = root.join("pids");
    let root = if pids.is_dir() { pids.as_path() } else { root };
    root.join(name)
}

fn groups(remains: &Leftovers, suite: SuiteProcess) {
    let folder = group_folder(&format!("control-{}-{}-x", suite.pid, suite.start));
    fs::create_dir(&folder).expect("a group");
    check(remains, &["group "], || {
        fs::remove_dir(&folder).expect("removed")
    });
}

/// The record of a detached sandbox in a tier's folder.
fn records(remains: &Leftovers, suite: SuiteProcess) {
    let folder = state().join(format!("control-{}-{}-x", suite.pid, suite.start));
    fs::create_dir_all(&folder).expect("a folder");
    let text = format!(
        "{{\"labels\":{{\"run\":\"{}.{}.era\"}}}}",
        suite.pid, suite.start
    );
    fs::write(folder.join("record.json"), text).expect("a file");
    check(remains, &["record ", "state "], || {
        fs::remove_dir_all(&folder).expect("removed");
    });
}

#[cfg(feature = "engines")]
mod engine {
    use std::path::Path;

    use serde_json::json;

    use super::{assert_sees, sees};
    use crate::leftovers::Leftovers;
    use crate::suite::SuiteProcess;
    use sandbox_testing::engine_api::request;

    const IMAGE: &str = "sandbox-test/busybox:latest";

    /// A container of a suite that never runs, with a volume and an image made from it. It has no
    /// label of a tier, so no client takes it for a sandbox.
    pub struct Planted<'a> {
        socket: &'a Path,
        container: String,
        image: String,
        is_removed: bool,
    }

    impl<'a> Planted<'a> {
        pub fn new(socket: &'a Path, suite: SuiteProcess) -> Self {
            let owner = format!("0:{}:{}:control", suite.pid, suite.start);
            let body = json!({
                "Image": IMAGE,
                "Cmd": ["true"],
                "Labels": {"sandbox.owner": owner},
                "Volumes": {"/volume": {}},
            });
            let made = request(socket, "POST", "/containers/create", &body.to_string());
            let made = made.expect("a container");
            let container = made["Id"].as_str().expect("an id").to_owned();
            let made = request(
                socket,
                "POST",
                &format!("/commit?container={container}"),
                "{}",
            );
            let made = made.expect("an image");
            let image = made["Id"].as_str().expect("an id").to_owned();
            Self {
                socket,
                container,
                image,
                is_removed: false,
            }
        }

        fn remove(&self, path: &str) {
            request(self.socket, "DELETE", path, "").expect("removed");
        }

        fn image(&self) -> String {
            format!("/images/{}?force=true", self.image)
        }

        fn container(&self) -> String {
            format!("/containers/{}?force=true", self.container)
        }

        /// Removes one after the other. The volume is removed as a leftover of its container.
        pub fn check(mut self, remains: &Leftovers) {
            for kind in ["container ", "volume ", "image "] {
                assert_sees(remains, kind);
            }
            self.remove(&self.image());
            assert!(!sees(remains, "image "));
            self.remove(&self.container());
            assert!(!sees(remains, "container "));
            assert_sees(remains, "volume ");
            for volume in remains.volumes() {
                self.remove(&format!("/volumes/{volume}"));
            }
            assert!(!sees(remains, "volume "));
            self.is_removed = true;
        }
    }

    impl Drop for Planted<'_> {
        fn drop(&mut self) {
            if self.is_removed {
                return;
            }
            // After a failed assertion.
            for path in [self.image(), self.container() + "&v=true"] {
                if let Err(why) = request(self.socket, "DELETE", &path, "") {
                    eprintln!("{path}: {why}");
                }
            }
        }
    }
}
