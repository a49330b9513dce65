//! Host folders whose path is replaced by a link while an engine mounts them. Engines take paths,
//! not descriptors.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbox_container::ContainerMutation;
use sandbox_core::{
    Capability, CapabilityPolicy, Error, ErrorKind, HostMount, SandboxClient, SandboxSpec,
    Workspace,
};

use super::{EngineTest, TestEngine};
use crate::contract::{TestResult, output, run};

pub const TESTS: &[EngineTest] = &[
    (
        "exchanged::no_outside_folder_is_mounted_during_exchanges",
        exchanged,
    ),
    (
        "exchanged::no_outside_folder_is_mounted_at_a_target_during_exchanges",
        exchanged_source,
    ),
    (
        "exchanged::without_checks_an_outside_folder_is_mounted",
        unchecked,
    ),
    (
        "exchanged::a_path_that_other_users_can_change_is_refused",
        of_others,
    ),
    (
        "exchanged::a_path_that_code_of_another_sandbox_can_change_is_refused",
        of_another_sandbox,
    ),
    (
        "exchanged::a_read_root_deep_in_a_write_root_is_refused",
        deep,
    ),
    (
        "exchanged::a_package_cache_that_code_could_replace_is_refused",
        cache,
    ),
];

/// The number of sandboxes that are created while folders are exchanged, unless
/// `SANDBOX_TEST_EXCHANGES` is set.
const ROUNDS: usize = 30;

fn rounds() -> usize {
    let more = std::env::var("SANDBOX_TEST_EXCHANGES").ok();
    more.and_then(|more| more.parse().ok()).unwrap_or(ROUNDS)
}

/// A folder that every user may enter and write to.
fn place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let base = place.path().canonicalize().expect("a path");
    open(&base, 0o755);
    (place, base)
}

fn open(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode");
}

fn make(path: &Path) -> &Path {
    std::fs::create_dir_all(path).expect("made");
    path
}

/// A client with this read root, which accepts what cannot be enforced on host folders.
fn reading(engine: &'static TestEngine, root: &Path) -> SandboxClient {
    engine.client(reads(root))
}

fn reads(root: &Path) -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec![root.to_owned()]);
    policy.allow_partial = vec![
        Capability::Disk,
        Capability::Timeout,
        Capability::OpenFiles,
        Capability::Privileges,
    ];
    policy
}

fn on(engine: &'static TestEngine, workspace: &Path) -> SandboxSpec {
    engine.spec().workspace(Workspace::read_write(workspace))
}

/// The results of the attempts.
#[derive(Debug, Default)]
struct ExchangeCount {
    /// The sandbox saw the intended folder.
    good: usize,
    /// The sandbox saw the folder outside of the root.
    outside: usize,
    refused: Vec<String>,
}

impl ExchangeCount {
    fn attempts(&self) -> usize {
        self.good + self.outside + self.refused.len()
    }
}

/// The pauses between exchanges. Without pauses hardly any attempt reaches the mount, because the
/// backend compares the folder twice before.
const PAUSES: [Duration; 8] = [
    Duration::from_millis(20),
    Duration::from_millis(40),
    Duration::ZERO,
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_millis(40),
    Duration::from_millis(20),
    Duration::from_millis(40),
];

/// Where a sandbox gets the folder.
#[derive(Debug, Clone, Copy)]
enum SeenAt {
    /// At its own path, as a read root.
    Root,
    /// At a target, as a mount.
    Target,
}

/// Creates sandboxes with a folder below a folder that is continuously exchanged with a link to
/// another folder.
async fn count(
    engine: &'static TestEngine,
    seen: SeenAt,
    client: impl Fn(&Path) -> SandboxClient,
    is_enough: impl Fn(&ExchangeCount) -> bool,
) -> sandbox_core::Result<ExchangeCount> {
    let (_place, base) = place();
    for (folder, content) in [("proj/data/inner", "good"), ("secret/inner", "outside")] {
        let file = make(&base.join(folder)).join("file");
        std::fs::write(&file, content).expect("written");
    }
    symlink(base.join("secret"), base.join("proj/other")).expect("a link");
    let (data, other) = (base.join("proj/data"), base.join("proj/other"));
    let root = data.join("inner");
    let over = AtomicBool::new(false);
    let mut count = ExchangeCount::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for pause in PAUSES.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                renameat_with(CWD, &data, CWD, &other, RenameFlags::EXCHANGE).expect("exchanged");
                std::thread::sleep(*pause);
            }
        });
        let attempts = async {
            let client = client(&root);
            let seen_at = match seen {
                SeenAt::Root => root.as_path(),
                SeenAt::Target => Path::new("/target"),
            };
            let script = format!("cat {}/file", seen_at.display());
            while !is_enough(&count) {
                let spec = match seen {
                    SeenAt::Root => engine.spec(),
                    SeenAt::Target => engine.spec().mount(HostMount::read_only(&root, seen_at)),
                };
                match client.create(&spec).await {
                    Ok(sandbox) => {
                        let seen = output(&sandbox, &script).await;
                        sandbox.kill().await?;
                        match seen?.as_str() {
                            "good" => count.good += 1,
                            _ => count.outside += 1,
                        }
                    }
                    Err(error) => {
                        count.refused.push(error.to_string());
                        // A link is refused at once. Without this pause all attempts would meet the
                        // same link.
                        tokio::time::sleep(PAUSES[0]).await;
                    }
                }
            }
            Ok(())
        };
        let done =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(attempts));
        over.store(true, Ordering::Relaxed);
        done
    })
    .map(|()| count)
}

fn exchanged(engine: &'static TestEngine) -> TestResult {
    none_outside(engine, SeenAt::Root, |root| reading(engine, root))
}

fn exchanged_source(engine: &'static TestEngine) -> TestResult {
    none_outside(engine, SeenAt::Target, |_| {
        engine.client(CapabilityPolicy::new())
    })
}

fn none_outside(
    engine: &'static TestEngine,
    seen: SeenAt,
    client: impl Fn(&Path) -> SandboxClient,
) -> TestResult {
    run(async {
        let is_enough = |count: &ExchangeCount| count.attempts() >= rounds();
        let count = count(engine, seen, client, is_enough).await?;
        println!(
            "{} good, {} outside, {} refused",
            count.good,
            count.outside,
            count.refused.len()
        );
        assert_eq!(count.outside, 0, "{count:?}");
        assert!(count.good > 0, "no folder was ever mounted: {count:?}");
        let about_it = ["link", "exchanged", "Not a directory", "not there"];
        for error in &count.refused {
            assert!(
                about_it.iter().any(|words| error.contains(words)),
                "{error}"
            );
        }
        Ok(())
    })
}

/// The control: the attack succeeds on a backend that neither claims nor compares folders.
fn unchecked(engine: &'static TestEngine) -> TestResult {
    run(async {
        let unchecked = |root: &Path| {
            let config = engine.config().mutated(ContainerMutation::Folders);
            engine.client_with(config, reads(root))
        };
        // One success is enough, and comes within a few attempts.
        let is_enough =
            |count: &ExchangeCount| count.outside > 0 || count.attempts() >= 4 * rounds();
        let count = count(engine, SeenAt::Root, unchecked, is_enough).await?;
        println!("{} good, {} outside", count.good, count.outside);
        assert!(count.outside > 0, "{count:?}");
        Ok(())
    })
}

fn refused(created: sandbox_core::Result<sandbox_core::SandboxHandle>, words: &str) -> Error {
    let error = created.expect_err(words);
    assert!(error.to_string().contains(words), "{error}");
    assert!(error.fix().is_some(), "{error}");
    error
}

fn of_others(engine: &'static TestEngine) -> TestResult {
    run(async {
        let (_place, base) = place();
        let root = base.join("open/root");
        make(&root);
        open(&base.join("open"), 0o777);
        let error = refused(
            reading(engine, &root).create(&engine.spec()).await,
            "every user can rename",
        );
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        // With the sticky bit only owners can rename.
        open(&base.join("open"), 0o1777);
        reading(engine, &root)
            .create(&engine.spec())
            .await?
            .kill()
            .await
    })
}

fn of_another_sandbox(engine: &'static TestEngine) -> TestResult {
    run(async {
        let (_place, base) = place();
        let proj = base.join("proj");
        make(&proj.join("data"));
        open(&proj, 0o755);
        let client = reading(engine, &base);
        let writer = client.create(&on(engine, &proj)).await?;
        let data = proj.join("data");
        let error = refused(
            reading(engine, &data).create(&engine.spec()).await,
            "can exchange a part",
        );
        assert!(error.to_string().contains(writer.name()), "{error}");
        // The same folder, and a folder next to it.
        for root in [proj.as_path(), make(&base.join("beside"))] {
            reading(engine, root)
                .create(&engine.spec())
                .await?
                .kill()
                .await?;
        }
        writer.kill().await?;
        reading(engine, &data)
            .create(&engine.spec())
            .await?
            .kill()
            .await
    })
}

fn deep(engine: &'static TestEngine) -> TestResult {
    run(async {
        let (_place, base) = place();
        let data = base.join("data");
        let root = data.join("a/ro");
        make(&root);
        make(&data.join("ro"));
        let with = |root: &Path| {
            let mut policy = reads(root);
            policy.filesystem_write_roots = Some(vec![data.clone()]);
            engine.client(policy)
        };
        refused(
            with(&root).create(&engine.spec()).await,
            "replace the folders",
        );
        let sandbox = with(&data.join("ro")).create(&engine.spec()).await?;
        let script = format!("cd {} && mv ro other 2>&1; ls", data.display());
        assert!(output(&sandbox, &script).await?.ends_with("ro\n"));
        sandbox.kill().await
    })
}

fn cache(engine: &'static TestEngine) -> TestResult {
    run(async {
        let (_place, base) = place();
        let cache = base.join(".cache/sandbox/packages");
        let client = |cache: &Path| {
            let mut backend = engine.config();
            backend.packages.folder = Some(cache.to_owned());
            engine.client_with(backend, reads(&base))
        };
        let words = "replace the folders";
        assert!(!cache.exists());
        refused(client(&cache).create(&on(engine, &base)).await, words);
        assert!(cache.exists(), "made, so that code cannot");
        refused(client(&cache).create(&on(engine, &base)).await, words);
        let (_elsewhere, elsewhere) = place();
        client(&elsewhere)
            .create(&on(engine, &base))
            .await?
            .kill()
            .await
    })
}
