//! Detects leftovers of sandboxes in this process and on the host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::SandboxClient;
use sandbox_local::{LocalBackend, LocalConfig};

use crate::support::{namespaces, own_groups, policy};

/// A test's own state folder, and the state before the test.
pub struct Ground {
    state: tempfile::TempDir,
    descriptors: BTreeMap<String, usize>,
}

impl Ground {
    /// Records the state before a test. Two sandboxes have created what all share.
    pub async fn prepare() -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let mut ground = Self {
            state,
            descriptors: BTreeMap::new(),
        };
        for _ in 0..2 {
            let sandbox = ground.client().create(&crate::support::spec()).await;
            let sandbox = sandbox.expect("a sandbox");
            sandbox.shell("true").await.expect("it runs");
            drop(sandbox);
            let others =
                |left: &Vec<String>| left.iter().all(|left| left.starts_with("descriptor"));
            ground.settle(others).await;
        }
        // Threads and tasks close the last descriptors asynchronously.
        tokio::time::sleep(Duration::from_millis(300)).await;
        ground.descriptors = descriptors();
        ground.nothing_is_left("the beginning").await;
        ground
    }

    /// A client with this state folder and its own backend.
    pub fn client(&self) -> SandboxClient {
        let config = LocalConfig::new().state_folder(self.state_folder());
        let config = match namespaces() {
            true => config,
            false => config.without_user_namespaces(),
        };
        let backend = Arc::new(LocalBackend::new(config));
        SandboxClient::with_backend(backend, policy()).expect("a valid policy")
    }

    pub fn state_folder(&self) -> PathBuf {
        self.state.path().join("state")
    }

    /// Waits until nothing is left, at most 20 s.
    pub async fn nothing_is_left(&self, after: &str) {
        let left = self.settle(Vec::is_empty).await;
        assert!(left.is_empty(), "after {after}: {left:#?}");
    }

    async fn settle(&self, enough: impl Fn(&Vec<String>) -> bool) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let left = self.left();
            if enough(&left) || Instant::now() > deadline {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The current leftovers.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        left.extend(
            children()
                .into_iter()
                .map(|child| format!("process {child}")),
        );
        left.extend(
            own_groups()
                .iter()
                .map(|group| format!("group {}", group.display())),
        );
        left.extend(self.in_state_folder());
        for (name, count) in descriptors() {
            let before = self.descriptors.get(&name).copied().unwrap_or(0);
            if count > before {
                left.push(format!("descriptor {name}: {count}, not {before}"));
            }
        }
        let mounts = mounts(self.state.path()).into_iter();
        left.extend(mounts.map(|mount| format!("mount {mount}")));
        left
    }

    /// The entries of the state folder, without shared folders.
    fn in_state_folder(&self) -> Vec<String> {
        let mut left = Vec::new();
        for path in entries(&self.state_folder()) {
            match path.file_name().and_then(|name| name.to_str()) {
                Some("etc") => {}
                // A mount point that only sandboxes use.
                _ if path.is_dir() && entries(&path).is_empty() && is_shared_mount_point(&path) => {
                }
                _ => left.push(format!("file {}", path.display())),
            }
        }
        left
    }
}

/// Whether all sandboxes share this mount point.
fn is_shared_mount_point(path: &Path) -> bool {
    !path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().contains('-'))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The mounts below a folder. Other programs mount elsewhere at the same time.
fn mounts(folder: &Path) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/self/mountinfo").expect("procfs");
    let folder = folder.to_string_lossy().into_owned();
    let below = all.lines().filter(|line| line.contains(&folder));
    below.map(str::to_owned).collect()
}

/// The children of every thread of this process, without the helper in its systemd scope.
pub fn children() -> Vec<i32> {
    let lists = entries(Path::new("/proc/self/task")).into_iter();
    let lists = lists.filter_map(|task| std::fs::read_to_string(task.join("children")).ok());
    let children = lists.collect::<Vec<_>>().join(" ");
    children
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .filter(|pid| !is_scope_helper(*pid))
        .collect()
}

fn is_scope_helper(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sandbox-scope\n")
}

/// The targets of the open descriptors, without the numbers in them.
fn descriptors() -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in entries(Path::new("/proc/self/fd")) {
        let Ok(target) = std::fs::read_link(&entry) else {
            continue;
        };
        let name = target
            .to_string_lossy()
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .collect::<String>();
        // The descriptor of this folder itself.
        if name != "/proc//fd" {
            *kinds.entry(name).or_insert(0) += 1;
        }
    }
    kinds
}
