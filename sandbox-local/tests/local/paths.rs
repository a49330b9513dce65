//! Paths in folders that code can write to: exchanged during a creation, changed between two runs,
//! or moved by code.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbox_core::{
    CapabilityPolicy, HostMount, Result, SandboxClient, SandboxHandle, SandboxSpec, Workspace,
};
use sandbox_lang::packages::PackageSettings;
use sandbox_local::LocalBackend;
use sandbox_testing::users::open_folder;

use crate::harness::{Need, Test, test};

use crate::support::{backend_in, client, config, namespaces, policy, run, sh, spec};

pub const TESTS: &[Test] = &[
    test!(threads exchanged_paths_are_never_mounted),
    test!(async links_made_by_code_are_not_followed_later),
    test!(async links_are_followed_if_the_policy_allows),
    test!(async parents_of_a_nested_read_root_cannot_be_renamed, Need::Namespaces),
    test!(async state_folder_in_a_write_root_cannot_be_replaced, Need::Namespaces),
    test!(async package_cache_in_a_writable_root_cannot_be_replaced),
];

/// The number of sandboxes that are created while paths are exchanged, unless
/// `SANDBOX_TEST_EXCHANGES` is set.
fn rounds() -> usize {
    let asked = std::env::var("SANDBOX_TEST_EXCHANGES").ok();
    asked.map_or(100, |count| count.parse().expect("a number"))
}

/// A host folder that a sandbox may use.
#[derive(Debug, Clone, Copy)]
enum Role {
    Read,
    Write,
    Workspace,
    Mount,
}

/// Where a mount appears.
const TARGET: &str = "/mnt/target";

impl Role {
    /// Those that the host can give.
    fn all() -> &'static [Self] {
        match namespaces() {
            true => &[Self::Read, Self::Write, Self::Workspace, Self::Mount],
            false => &[Self::Read, Self::Write, Self::Workspace],
        }
    }

    fn give(self, folder: &Path) -> (CapabilityPolicy, SandboxSpec) {
        let (mut policy, mut spec) = (policy(), spec());
        // Even if links are followed, the checked folder is the mounted one.
        policy.follow_links = Some(true);
        match self {
            Self::Read => policy.filesystem_read_roots = Some(vec![folder.into()]),
            Self::Write => policy.filesystem_write_roots = Some(vec![folder.into()]),
            Self::Workspace => spec = spec.workspace(Workspace::read_write(folder)),
            Self::Mount => spec = spec.mount(HostMount::read_write(folder, TARGET)),
        }
        (policy, spec)
    }
}

/// Exchanges two paths in a loop while `work` runs.
async fn while_exchanging<T>(one: &Path, other: &Path, work: impl Future<Output = T>) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("exchanged");
            }
        });
        // The loop also ends if an assertion in `work` fails.
        let _over = Over(&over);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
    })
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn exchanged_paths_are_never_mounted() {
    // The state folder is always refused. If code sees it, the mounted folder is not the checked
    // one.
    let place = open_folder();
    let base = place.path().canonicalize().expect("a path");
    let backend = backend_in(&base.join("state"));
    let made = |policy, spec| {
        let client = SandboxClient::with_backend(backend.clone(), policy).expect("a valid policy");
        async move { client.create(&spec).await }
    };
    drop(made(policy(), spec()).await.expect("a state folder"));
    let (data, other) = (base.join("data"), base.join("other"));
    std::fs::create_dir_all(data.join("scratch")).expect("made");
    std::fs::write(data.join("scratch/own"), "").expect("written");
    std::os::unix::fs::symlink(base.join("state"), &other).expect("a link");
    let named = data.join("scratch");
    let look = format!(
        "test -e {0}/own || test -e own || test -e {TARGET}/own || ls -la {0} . {TARGET} ; true",
        named.display()
    );
    let (mut created, mut refused, mut hits) = (0, 0, Vec::new());
    while_exchanging(&data, &other, async {
        for round in 0..rounds() {
            let (policy, spec) = Role::all()[round % Role::all().len()].give(&named);
            let sandbox = match made(policy, spec).await {
                Ok(sandbox) => sandbox,
                Err(error) => {
                    let text = error.to_string();
                    let known = [
                        "state folder",
                        "replaced",
                        "Not a directory",
                        "No such file",
                        "not a folder",
                    ];
                    assert!(known.iter().any(|known| text.contains(known)), "{text}");
                    refused += 1;
                    continue;
                }
            };
            created += 1;
            // Without mounts, the path changes while code runs, and code may see neither folder.
            let seen = sandbox
                .exec(&sh(&look))
                .await
                .expect("it runs")
                .stdout_text();
            if !seen.is_empty() && namespaces() {
                hits.push(seen);
            }
            sandbox.kill().await.expect("it ends");
        }
    })
    .await;
    eprintln!("created {created}, refused {refused}, hits {}", hits.len());
    assert!(hits.is_empty(), "{hits:#?}");
    assert!(refused > 0 || rounds() < 50, "no exchange was met");
}

/// A project folder for code, and a private folder outside of it.
struct Project {
    place: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let place = open_folder();
        for folder in ["project/data", "private"] {
            std::fs::create_dir_all(place.path().join(folder)).expect("made");
        }
        std::fs::write(place.path().join("private/key"), "PRIVATE").expect("written");
        Self { place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().expect("a path").join(name)
    }

    async fn create(
        &self,
        policy: CapabilityPolicy,
        workspace: Option<&str>,
    ) -> Result<SandboxHandle> {
        let mut spec = spec();
        if let Some(name) = workspace {
            spec = spec.workspace(Workspace::read_write(self.path(name)));
        }
        client(policy).create(&spec).await
    }
}

async fn links_made_by_code_are_not_followed_later() {
    let project = Project::new();
    let mut policy = policy();
    policy.filesystem_read_roots = Some(vec![project.path("project/data")]);
    let plant = format!(
        "mv data old; ln -s {} data",
        project.path("private").display()
    );
    let sandbox = project.create(policy.clone(), Some("project")).await;
    let sandbox = sandbox.expect("the first run");
    sandbox.exec(&sh(&plant)).await.expect("it runs");
    sandbox.kill().await.expect("it ends");
    if !project.path("project/data").is_symlink() {
        // Without mounts, code may not rename folders that it can only read.
        std::fs::rename(project.path("project/data"), project.path("project/old")).expect("moved");
        std::os::unix::fs::symlink(project.path("private"), project.path("project/data"))
            .expect("a link");
    }
    for follow in [None, Some(true)] {
        policy.follow_links = follow;
        let error = project.create(policy.clone(), Some("project")).await;
        let error = error.expect_err("a link in the workspace").to_string();
        assert!(
            error.contains("in a folder that the code can write to"),
            "{error}"
        );
    }
    // A policy without the project allows the link, which leads out of its folder.
    let data = project.path("project/data");
    for &role in Role::all() {
        let (mut policy, spec) = role.give(&data);
        policy.follow_links = None;
        let error = client(policy).create(&spec).await.expect_err("a link");
        let text = error.to_string();
        assert!(
            text.contains("outside of the folder that it stands in"),
            "{text}"
        );
        assert!(
            text.contains("private") && text.contains("--follow"),
            "{text}"
        );
    }
}

async fn links_are_followed_if_the_policy_allows() {
    let project = Project::new();
    let link = project.path("link");
    std::os::unix::fs::symlink(project.path("private"), &link).expect("a link");
    std::os::unix::fs::symlink("../private", project.path("project/out")).expect("a link");
    for (path, follow, works) in [
        (&link, None, true),
        (&project.path("project/out"), None, false),
        (&project.path("project/out"), Some(true), true),
    ] {
        let mut policy = policy();
        policy.filesystem_read_roots = Some(vec![path.clone()]);
        policy.follow_links = follow;
        match client(policy).create(&spec()).await {
            Ok(sandbox) => {
                assert!(works, "{}", path.display());
                let read = sh(&format!("cat {}/key", path.display()));
                let result = sandbox.exec(&read).await.expect("it runs");
                assert_eq!(result.stdout_text(), "PRIVATE", "{}", result.stderr_text());
            }
            Err(error) => assert!(!works, "{error}"),
        }
    }
}

async fn parents_of_a_nested_read_root_cannot_be_renamed() {
    let place = open_folder();
    let base = place.path().canonicalize().expect("a path");
    std::fs::create_dir_all(base.join("d/a/ro")).expect("made");
    std::fs::write(base.join("d/a/ro/config"), "mine").expect("written");
    let mut policy = policy();
    policy.filesystem_write_roots = Some(vec![base.join("d")]);
    policy.filesystem_read_roots = Some(vec![base.join("d/a/ro")]);
    let script = format!(
        "cd {}/d; touch a/new && mv a/new kept; mv a b; rm -rf a; mkdir -p a/ro; echo attacker > a/ro/config",
        base.display()
    );
    run(policy, &script).await;
    assert!(
        base.join("d/kept").exists(),
        "the folder above can be written"
    );
    let config = std::fs::read_to_string(base.join("d/a/ro/config"));
    assert_eq!(config.expect("it is there"), "mine");
}

async fn state_folder_in_a_write_root_cannot_be_replaced() {
    let place = open_folder();
    let base = place.path().canonicalize().expect("a path");
    let state = base.join("x/y/state");
    std::fs::create_dir_all(base.join("x/y")).expect("made");
    let backend = backend_in(&state);
    for role in [Role::Write, Role::Workspace] {
        let (policy, spec) = role.give(&base);
        let client = SandboxClient::with_backend(backend.clone(), policy).expect("a valid policy");
        let sandbox = client.create(&spec).await.expect("a sandbox");
        let folder = match role {
            Role::Workspace => "/workspace".to_owned(),
            _ => base.display().to_string(),
        };
        let script = format!(
            "cd {folder}; touch new; ls x/y/state; mv x z; mv x/y x/z; mkdir -p x/y/state/forged"
        );
        let result = sandbox.exec(&sh(&script)).await.expect("it runs");
        assert_eq!(result.stdout_text(), "");
        sandbox.kill().await.expect("it ends");
        assert!(base.join("new").exists() && state.join("scratch").exists());
        assert!(!state.join("forged").exists() && !base.join("z").exists());
    }
}

async fn package_cache_in_a_writable_root_cannot_be_replaced() {
    for is_running in [false, true] {
        let place = open_folder();
        let base = place.path().canonicalize().expect("a path");
        let mut settings = PackageSettings::default();
        let cache = base.join(".cache/sandbox/packages");
        settings.folder = Some(cache.clone());
        if is_running {
            std::fs::create_dir_all(cache.join("entries")).expect("made");
        }
        let backend = std::sync::Arc::new(LocalBackend::new(config().packages(settings)));
        for role in [Role::Write, Role::Workspace] {
            let (policy, spec) = role.give(&base);
            let client =
                SandboxClient::with_backend(backend.clone(), policy).expect("a valid policy");
            let sandbox = match client.create(&spec).await {
                Ok(sandbox) => sandbox,
                Err(error) => {
                    assert!(!namespaces(), "{error}");
                    assert!(error.to_string().contains("installed packages"), "{error}");
                    continue;
                }
            };
            let folder = match role {
                Role::Workspace => "/workspace".to_owned(),
                _ => base.display().to_string(),
            };
            let script = format!(
                "cd {folder}; touch new; mv .cache old; mv .cache/sandbox .cache/old; mkdir -p .cache/sandbox/packages/forged"
            );
            sandbox.exec(&sh(&script)).await.expect("it runs");
            sandbox.kill().await.expect("it ends");
            assert!(base.join("new").exists() && cache.is_dir());
            assert!(!cache.join("forged").exists() && !base.join("old").exists());
        }
    }
}
