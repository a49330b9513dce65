use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use super::super::PackageSource;
use super::*;

fn interpreter(folder: &Path) -> Interpreter {
    let program = folder.join("python3");
    std::fs::write(&program, "").expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
    let path = folder.to_str().expect("a path");
    let real = folder.canonicalize().expect("there");
    Interpreter::find(sandbox_core::policy::Installer::Pip, path, &[real]).expect("found")
}

fn packages(names: &[&str]) -> Vec<Requirement> {
    names
        .iter()
        .map(|name| name.parse().expect("a name"))
        .collect()
}

/// A temporary folder with an interpreter and an empty cache.
struct CacheFolder {
    folder: tempfile::TempDir,
    python: Interpreter,
    cache: Cache,
}

impl CacheFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let python = interpreter(folder.path());
        let packages = folder.path().join("sandbox/packages");
        let cache = Cache::open(&packages, &folder.path().join("state")).expect("made");
        Self {
            folder,
            python,
            cache,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The key of these packages from the default source.
    fn key(&self, names: &[&str]) -> CacheKey {
        let source = PackageSource::default().resolved();
        CacheKey::of(&self.python, &source, &packages(names), Path::new("/state"))
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

#[test]
fn key_depends_on_packages_indexes_and_interpreter() {
    let folder = tempfile::tempdir().expect("a folder");
    let python = interpreter(folder.path());
    let source = PackageSource::default().resolved();
    let state = Path::new("/state");
    let key = |names: &[&str]| CacheKey::of(&python, &source, &packages(names), state);
    assert_eq!(key(&["a", "b"]), key(&["A", "b"]));
    assert_ne!(key(&["a", "b"]), key(&["ab"]));
    assert_ne!(key(&["a"]), key(&["a==1"]));
    let other = PackageSource::folder("/wheels").resolved();
    let a = packages(&["a"]);
    assert_ne!(key(&["a"]), CacheKey::of(&python, &other, &a, state));
    assert_ne!(
        key(&["a"]),
        CacheKey::of(&python, &source, &a, Path::new("/other"))
    );
    // Each of these changes which servers an installation trusts.
    let mut trusting = [(); 4].map(|()| PackageSource::default());
    trusting[0].trusted_hosts = vec!["r.example".into()];
    trusting[1].certificates = Some("/etc/ca.pem".into());
    trusting[2].proxy = Some("http://proxy:8080".into());
    trusting[3]
        .variables
        .insert("SSL_CERT_FILE".into(), "/ca".into());
    for source in trusting {
        assert_ne!(
            key(&["a"]),
            CacheKey::of(&python, &source.resolved(), &a, state),
            "{source:?}"
        );
    }
}

#[tokio::test]
async fn entry_appears_only_when_complete() {
    let folder = CacheFolder::new();
    let (cache, python) = (&folder.cache, &folder.python);
    let (wanted, key) = (packages(&["a"]), folder.key(&["a"]));
    assert_eq!(cache.find(&key), CacheLookup::Nothing);

    let lock = cache.lock(&key).await.expect("free");
    let staging = cache.stage(&key, &lock).expect("made");
    std::fs::write(staging.base().join("module.py"), "1").expect("written");
    assert_eq!(cache.find(&key), CacheLookup::Nothing);
    drop(staging);
    let left = || {
        std::fs::read_dir(cache.folder.join("staging"))
            .expect("there")
            .count()
    };
    assert_eq!(left(), 0, "dropping it removes it");

    let staging = cache.stage(&key, &lock).expect("made");
    std::fs::write(staging.base().join("module.py"), "2").expect("written");
    let base = cache
        .publish(&key, staging, python, &wanted)
        .expect("published");
    assert_eq!(cache.find(&key), CacheLookup::Genuine(base.clone()));
    assert_eq!(std::fs::read(base.join("module.py")).expect("there"), b"2");
    assert_eq!(left(), 0);
    let contents = std::fs::read_to_string(base.with_file_name("contents.json")).expect("there");
    assert!(contents.contains("\"a\""), "{contents}");
}

#[tokio::test]
async fn forged_or_changed_entry_is_not_used() {
    let folder = CacheFolder::new();
    let (cache, python) = (&folder.cache, &folder.python);
    let cache_folder = folder.path().join("sandbox/packages");
    let (wanted, key) = (packages(&["a"]), folder.key(&["a"]));
    // The name, the layout, the owner and the mode of a forged entry are right.
    let forged = cache.entry(&key).join("base");
    std::fs::create_dir_all(&forged).expect("made");
    std::fs::write(forged.join("module.py"), "forged").expect("written");
    assert_eq!(cache.find(&key), CacheLookup::Unproven);
    let lock = cache.lock(&key).await.expect("free");
    let install = || {
        let staging = cache.stage(&key, &lock).expect("made");
        std::fs::write(staging.base().join("module.py"), "genuine").expect("written");
        cache
            .publish(&key, staging, python, &wanted)
            .expect("published")
    };
    let base = install();
    assert_eq!(cache.find(&key), CacheLookup::Genuine(base.clone()));
    assert_eq!(
        std::fs::read(base.join("module.py")).expect("there"),
        b"genuine"
    );

    // Another folder replaces the cache.
    std::fs::rename(&cache_folder, folder.path().join("away")).expect("moved");
    std::fs::create_dir_all(&base).expect("made");
    std::fs::write(base.join("module.py"), "forged!").expect("written");
    assert_eq!(cache.find(&key), CacheLookup::Unproven);
    std::fs::remove_dir_all(cache.entry(&key)).expect("removed");
    symlink(
        folder.path().join("away/entries").join(&key.0),
        cache.entry(&key),
    )
    .expect("a link");
    for name in ["staging", "locks"] {
        std::fs::create_dir(cache_folder.join(name)).expect("made");
    }
    assert_eq!(
        cache.find(&key),
        CacheLookup::Unproven,
        "the genuine tree, over a link"
    );
    std::fs::remove_file(cache.entry(&key)).expect("removed");
    std::fs::write(cache.entry(&key), "").expect("written");
    assert_eq!(cache.find(&key), CacheLookup::Unproven);
    install();
}

#[tokio::test]
async fn leftovers_of_killed_installations_are_removed() {
    let folder = CacheFolder::new();
    let cache = &folder.cache;
    let (mine, living, dead) = (
        folder.key(&["mine"]),
        folder.key(&["living"]),
        folder.key(&["dead"]),
    );
    let staging = |key: &CacheKey| cache.folder.join("staging").join(format!("{}.x", key.0));
    for key in [&mine, &living, &dead] {
        std::fs::create_dir_all(staging(key).join("work/base")).expect("made");
    }
    let held = cache.lock(&living).await.expect("free");
    let lock = cache.lock(&mine).await.expect("free");
    let _new = cache.stage(&mine, &lock).expect("made");
    let found = [&mine, &living, &dead].map(|key| staging(key).exists());
    assert_eq!(found, [false, true, false]);
    drop(held);
}

#[tokio::test]
async fn lock_waits_for_its_holder() {
    let folder = CacheFolder::new();
    let (cache, key) = (&folder.cache, folder.key(&["a"]));
    let first = cache.lock(&key).await.expect("free");
    let second = tokio::time::timeout(Duration::from_millis(200), cache.lock(&key)).await;
    assert!(second.is_err(), "it is locked");
    drop(first);
    cache.lock(&key).await.expect("free again");
}

#[test]
fn folder_writable_by_others_is_refused() {
    let parent = tempfile::tempdir().expect("a folder");
    let refused =
        |folder: &Path| Cache::open(folder, &parent.path().join("state")).expect_err("refused");

    let open = parent.path().join("open/packages");
    std::fs::create_dir_all(&open).expect("made");
    mode(&open, 0o755);
    assert_eq!(refused(&open).fix(), Some("chmod 700 it"));
    mode(&open, 0o700);
    mode(open.parent().expect("one"), 0o777);
    assert!(refused(&open).context().contains("others may write"));

    let link = parent.path().join("link");
    symlink(parent.path(), &link).expect("a link");
    assert!(refused(&link).context().contains("not a folder"));

    let file = parent.path().join("file");
    std::fs::write(&file, "").expect("written");
    assert!(refused(&file.join("packages")).fix().is_some());
    assert!(
        refused(Path::new("relative"))
            .context()
            .contains("absolute")
    );
    let other = rustix::process::geteuid().as_raw() + 1;
    let error = super::prepare(&parent.path().join("mine"), other).expect_err("another user's");
    assert!(
        error.1.contains(&format!("not to user {other}")),
        "{error:?}"
    );
}
