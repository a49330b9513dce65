//! Folders of the host whose way changes while an engine mounts them: engines take paths.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::Failed;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbox_container::Mutation;
use sandbox_core::{
    Capability, CapabilityPolicy, Error, ErrorKind, SandboxClient, SandboxSpec, Workspace,
};

use crate::family::Backend;
use crate::suite::Test;
use crate::suite::engine::{client, client_of, config, output, run, spec};

pub const TESTS: &[Test] = &[
    (
        "exchanged::nothing_outside_is_seen_while_folders_are_exchanged",
        exchanged,
    ),
    (
        "exchanged::without_the_checks_something_outside_is_seen",
        unchecked,
    ),
    (
        "exchanged::a_way_that_others_can_change_is_refused",
        of_others,
    ),
    (
        "exchanged::a_way_that_code_of_another_sandbox_can_change_is_refused",
        of_another_sandbox,
    ),
    (
        "exchanged::a_link_that_code_has_made_is_not_followed_by_the_next_run",
        planted,
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

/// How many sandboxes are made while folders are exchanged, unless `SANDBOX_TEST_EXCHANGES` says more.
const ROUNDS: usize = 30;

fn rounds() -> usize {
    let more = std::env::var("SANDBOX_TEST_EXCHANGES").ok();
    more.and_then(|more| more.parse().ok()).unwrap_or(ROUNDS)
}

/// A folder that code may enter and write to, whoever it is.
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

/// A client under a policy with this read root, which takes what host folders leave open.
fn reading(root: &Path) -> SandboxClient {
    client(reads(root))
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

fn on(workspace: &Path) -> SandboxSpec {
    spec().workspace(Workspace::read_write(workspace))
}

/// What became of the attempts.
#[derive(Debug, Default)]
struct Count {
    /// Saw the folder that was meant.
    good: usize,
    /// Saw what lies outside.
    outside: usize,
    refused: Vec<String>,
}

impl Count {
    fn attempts(&self) -> usize {
        self.good + self.outside + self.refused.len()
    }
}

/// How long what was exchanged stays: the link, the folder, and so on. At full speed alone hardly any attempt comes as far as a mount,
/// since the folder has to be found twice before.
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

/// Makes sandboxes with a read root below a folder that is exchanged all the time for a link to somewhere else.
async fn count(
    client: impl Fn(&Path) -> SandboxClient,
    is_enough: impl Fn(&Count) -> bool,
) -> sandbox_core::Result<Count> {
    let (_place, base) = place();
    for (folder, content) in [("proj/data/inner", "good"), ("secret/inner", "outside")] {
        let file = make(&base.join(folder)).join("file");
        std::fs::write(&file, content).expect("written");
    }
    symlink(base.join("secret"), base.join("proj/other")).expect("a link");
    let (data, other) = (base.join("proj/data"), base.join("proj/other"));
    let root = data.join("inner");
    let over = AtomicBool::new(false);
    let mut count = Count::default();
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
            let script = format!("cat {}/file", root.display());
            while !is_enough(&count) {
                match client.create(&spec()).await {
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
                        // A link that is found is refused at once: all attempts would be over before it goes.
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

fn exchanged() -> Result<(), Failed> {
    run(async {
        let count = count(reading, |count| count.attempts() >= rounds()).await?;
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

/// The attack is known to work: a backend that neither vouches for folders nor compares them is hit.
fn unchecked() -> Result<(), Failed> {
    run(async {
        let unchecked = |root: &Path| {
            let config = config().mutated(Mutation::Folders);
            client_of(Backend::new(config), reads(root))
        };
        // One hit shows that the attack works, and comes within a few attempts.
        let is_enough = |count: &Count| count.outside > 0 || count.attempts() >= 4 * rounds();
        let count = count(unchecked, is_enough).await?;
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

fn of_others() -> Result<(), Failed> {
    run(async {
        let (_place, base) = place();
        let root = base.join("open/root");
        make(&root);
        open(&base.join("open"), 0o777);
        let error = refused(
            reading(&root).create(&spec()).await,
            "every user can rename",
        );
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        // With the sticky bit only owners rename.
        open(&base.join("open"), 0o1777);
        reading(&root).create(&spec()).await?.kill().await
    })
}

fn of_another_sandbox() -> Result<(), Failed> {
    run(async {
        let (_place, base) = place();
        let proj = base.join("proj");
        make(&proj.join("data"));
        open(&proj, 0o755);
        let client = reading(&base);
        let writer = client.create(&on(&proj)).await?;
        let data = proj.join("data");
        let error = refused(reading(&data).create(&spec()).await, "can exchange a part");
        assert!(error.to_string().contains(writer.name()), "{error}");
        // The same folder, and one beside it.
        for root in [proj.as_path(), make(&base.join("beside"))] {
            reading(root).create(&spec()).await?.kill().await?;
        }
        writer.kill().await?;
        reading(&data).create(&spec()).await?.kill().await
    })
}

fn planted() -> Result<(), Failed> {
    run(async {
        let (_place, base) = place();
        let (proj, secret) = (base.join("proj"), base.join("secret"));
        make(&proj.join("data"));
        std::fs::write(make(&secret).join("file"), "outside").expect("written");
        open(&proj, 0o755);
        let client = reading(&proj.join("data"));
        let first = client.create(&on(&proj)).await?;
        let script = format!("mv data old && ln -s {} data", secret.display());
        output(&first, &script).await?;
        first.kill().await?;
        refused(client.create(&on(&proj)).await, "code can write to");
        refused(
            reading(&proj.join("data")).create(&spec()).await,
            "is a link",
        );
        Ok(())
    })
}

fn deep() -> Result<(), Failed> {
    run(async {
        let (_place, base) = place();
        let data = base.join("data");
        let root = data.join("a/ro");
        make(&root);
        make(&data.join("ro"));
        let with = |root: &Path| {
            let mut policy = reads(root);
            policy.filesystem_write_roots = Some(vec![data.clone()]);
            client(policy)
        };
        refused(with(&root).create(&spec()).await, "replace the folders");
        let sandbox = with(&data.join("ro")).create(&spec()).await?;
        let script = format!("cd {} && mv ro other 2>&1; ls", data.display());
        assert!(output(&sandbox, &script).await?.ends_with("ro\n"));
        sandbox.kill().await
    })
}

fn cache() -> Result<(), Failed> {
    run(async {
        let (_place, base) = place();
        let cache = base.join(".cache/sandbox/packages");
        let client = |cache: &Path| {
            let mut backend = config();
            backend.packages.folder = Some(cache.to_owned());
            client_of(Backend::new(backend), reads(&base))
        };
        let words = "replace the folders";
        assert!(!cache.exists());
        refused(client(&cache).create(&on(&base)).await, words);
        assert!(cache.exists(), "made, so that code cannot");
        refused(client(&cache).create(&on(&base)).await, words);
        let (_elsewhere, elsewhere) = place();
        client(&elsewhere).create(&on(&base)).await?.kill().await
    })
}
