//! Probes that reach host files outside the roots.

use std::path::{Path, PathBuf};

use super::read;
use crate::canary::Canary;
use crate::host_leftovers::HOST_FOLDERS;
use crate::probes::prelude::*;

/// The path of the token, by both names of its folder.
const TOKENS: [&str; 2] = [
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/run/secrets/kubernetes.io/serviceaccount/token",
];

pub(super) async fn cluster_token(context: &mut ProbeContext) -> Result<(), ProbeError> {
    // A host has no token, so its control reads its own file.
    let canary = context.canary(0o644)?;
    let call = Call::new(["read-any"]).and(canary.path());
    let call = TOKENS.iter().fold(call, |call, path| call.and(path));
    context.host_control(&call).await?;
    context
        .allow_control(&Call::new(["read-any", ITSELF]))
        .await;
    context.attack(&call).await;
    context.host_check(canary.host_check());
    Ok(())
}

/// Files that are removed with this value.
struct Planted(Vec<PathBuf>);

impl Planted {
    /// Puts a file into each folder that this user may write.
    fn new(folders: &[&str], name: &str) -> Self {
        let paths = folders.iter().map(|folder| Path::new(folder).join(name));
        Self(
            paths
                .filter(|path| std::fs::write(path, "").is_ok())
                .collect(),
        )
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        for path in &self.0 {
            // The next run removes what stays.
            let _ = std::fs::remove_file(path);
        }
    }
}

pub(super) async fn host_folders(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let name = context.token().to_owned();
    let planted = Planted::new(HOST_FOLDERS, &name);
    let call = Call::new(["find-name", &name]);
    context.host_control(&call).await?;
    let own = context.inside("own");
    context.allow_control(&Call::new(["create", &own])).await;
    context.attack(&call).await;
    let there = planted.0.iter().all(|path| path.exists());
    context.check_host("the files in the host's folders", there);
    Ok(())
}

pub(super) async fn device_node(context: &mut ProbeContext) -> Result<(), ProbeError> {
    // The folder is on disk, because /tmp may be mounted without devices.
    let node = context.outside()?.join("node");
    let call = |node: &std::path::Path| Call::new(["device"]).and(node).and("1").and("11");
    context.host_control(&call(&node)).await?;
    let own = context.inside("node");
    context.allow_control(&Call::new(["create", &own])).await;
    context
        .attack(&call(std::path::Path::new(&context.inside("device"))))
        .await;
    context.no_host_effect("a device node in the sandbox does not exist on the host");
    Ok(())
}

pub(super) const LINKS: &[ExpectedDenial] = &[
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied("EXDEV", "another mount, or Landlock"),
    denied("EACCES", "Landlock, or permissions"),
    denied("EPERM", "file of another user"),
];

pub(super) async fn hard_link(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o644)?;
    let call = |link: &std::path::Path| {
        let call = Call::new(["read-through-hard-link"]);
        let call = call.and(canary.path()).and(link);
        call.expect(canary.fingerprint())
    };
    let link = context.fixture().write_root().join(context.token());
    context.host_control(&call(&link)).await?;
    let link = context.writable("link").await;
    context
        .allow_control(&Call::new(["create"]).and(link.with_extension("new")))
        .await;
    context.attack(&call(&link)).await;
    context.host_check(canary.host_check());
    Ok(())
}

pub(super) async fn proc_roots(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o644)?;
    let through = |path: &str| Call::new(["read-through-proc", path]);
    let call = through(&canary.path().to_string_lossy()).expect(canary.fingerprint());
    context.host_control(&call).await?;
    context.allow_control(&Call::new(["read", ITSELF])).await;
    context.attack(&call).await;
    context.host_check(canary.host_check());
    Ok(())
}

pub(super) async fn read_home(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let home = std::env::var_os("HOME").ok_or_else(|| ProbeError::new("HOME is not set"))?;
    let folder = TemporaryFolder(std::path::Path::new(&home).join(format!(".{}", context.token())));
    std::fs::create_dir(&folder.0)?;
    let canary = Canary::plant(&folder.0.join("canary"), 0o644)?;
    read(context, &canary).await
}

/// A folder in the user's home that is removed on drop.
struct TemporaryFolder(std::path::PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

pub(super) async fn read_outside(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let granted = Canary::plant(&context.read_folder()?.join("canary"), 0o644)?;
    let canary = context.canary(0o644)?;
    let read = |path: &std::path::Path, canary: &Canary| {
        Call::new(["read"]).and(path).expect(canary.fingerprint())
    };
    let attack = read(canary.path(), &canary);
    context.host_control(&attack).await?;
    let readable = context.granted(&granted).await?;
    context.allow_control(&read(&readable, &granted)).await;
    context.attack(&attack).await;
    context.host_check(canary.host_check());
    Ok(())
}

pub(super) async fn read_private(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o600)?;
    read(context, &canary).await
}

pub(super) async fn read_shadow(context: &mut ProbeContext) -> Result<(), ProbeError> {
    // Without read permission the content is empty, and the host control fails.
    let content = std::fs::read("/etc/shadow").unwrap_or_default();
    let read = Call::new(["read", "/etc/shadow"]).expect(crate::program::fingerprint(&content));
    context.host_control(&read).await?;
    context.allow_control(&Call::new(["read", ITSELF])).await;
    context.attack(&read).await;
    context.no_host_effect("reading leaves no trace");
    Ok(())
}

pub(super) async fn symlink(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o644)?;
    let link = context.fixture().write_root().join(context.token());
    let through = |target: &std::path::Path, link: &std::path::Path| {
        Call::new(["read-through-link"]).and(target).and(link)
    };
    let granted = Canary::plant(&context.read_folder()?.join("canary"), 0o644)?;
    let outside = |link| through(canary.path(), link).expect(canary.fingerprint());
    context.host_control(&outside(&link)).await?;
    let readable = context.granted(&granted).await?;
    let link = context.writable("link").await;
    context
        .allow_control(&through(&readable, &link).expect(granted.fingerprint()))
        .await;
    context.attack(&outside(&link)).await;
    context.host_check(canary.host_check());
    Ok(())
}
