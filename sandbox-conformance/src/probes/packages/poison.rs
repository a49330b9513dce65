//! Forged packages in the folder above the package cache.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandbox_core::{Error, ExecRequest};

use crate::host_fixture;
use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;
use crate::probes::swap::WORKSPACE;
use crate::wheel;

/// Code with access to the folder above the cache forges the entry of the suite's package. Another
/// sandbox with the package must not run it. With `absent`, the first sandbox is created without a
/// cache; otherwise the cache has the entry.
pub(super) async fn forged(
    context: &mut ProbeContext,
    absent: bool,
    access: WriteAccess,
) -> Result<(), ProbeError> {
    super::pip_finds_it(context).await;
    let (cache, _guard) = host_fixture::package_cache().await;
    let Some(module) = installed(context, &cache).await? else {
        return Ok(());
    };
    let genuine = std::fs::read(&module)?;
    let aside = cache.with_extension("aside");
    if absent {
        std::fs::rename(cache.join(FOLDER), &aside)?;
    }
    let deviation = attacked(context, &cache, &module, absent, access, &genuine).await;
    restore(&cache, &aside)?;
    if std::fs::read(&module)? != genuine {
        std::fs::write(&module, &genuine)?;
    }
    // The mounted folder may have been replaced.
    context.end_sandbox().await?;
    context.record_attack(behavior(
        "forge an entry of the cache of packages",
        deviation?,
    ));
    context.no_host_effect("the attack checks what another sandbox imports");
    Ok(())
}

/// The host's file of the installed package is changed. Another sandbox must not run it.
pub(super) async fn changed_on_host(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::pip_finds_it(context).await;
    let (cache, _guard) = host_fixture::package_cache().await;
    let Some(module) = installed(context, &cache).await? else {
        return Ok(());
    };
    let genuine = std::fs::read(&module)?;
    let mode = std::fs::metadata(&module)?.permissions();
    std::fs::set_permissions(&module, Permissions::from_mode(0o644))?;
    std::fs::write(&module, format!("token = '{FORGED}'\n"))?;
    std::fs::set_permissions(&module, mode.clone())?;
    let with_package = super::with_package(context.fixture());
    let deviation = match context.once(&with_package).await {
        Ok(sandbox) => {
            let imported = imported(&sandbox).await;
            sandbox.handle().kill().await?;
            let right = imported == host_fixture::package_token();
            Ok((!right).then(|| format!("it imports {imported:?}")))
        }
        Err(error) => Ok(Some(format!("no sandbox afterwards: {error}"))),
    };
    // It may have been installed again at another place.
    if module.exists() && std::fs::read(&module)? != genuine {
        std::fs::set_permissions(&module, Permissions::from_mode(0o644))?;
        std::fs::write(&module, &genuine)?;
        std::fs::set_permissions(&module, mode)?;
    }
    context.record_attack(behavior("import the changed package", deviation));
    context.no_host_effect("the attack checks what another sandbox imports");
    Ok(())
}

/// Allow control: imports the package. Returns its module on the host, or `None` if there is no
/// sandbox, which is recorded.
pub(super) async fn installed(
    context: &mut ProbeContext,
    cache: &Path,
) -> Result<Option<PathBuf>, ProbeError> {
    let with_package = super::with_package(context.fixture());
    let imported = match context.once(&with_package).await {
        Ok(sandbox) => {
            let imported = imported(&sandbox).await;
            sandbox.handle().kill().await?;
            imported
        }
        Err(error) => {
            let attempt = context.record_create_error(error);
            context.record_attack(Step::new("import the package", attempt));
            return Ok(None);
        }
    };
    let failure = (imported != host_fixture::package_token()).then_some(imported);
    context.record_allow_control(control("import the package before the attack", failure));
    match found_below(cache, &format!("{}.py", wheel::NAME)) {
        Some(module) => Ok(Some(module)),
        None => Err(ProbeError::new(format!(
            "the installed package is not below {}",
            cache.display()
        ))),
    }
}

/// The path of the cache below `XDG_CACHE_HOME`.
const FOLDER: &str = "sandbox";
const MOVED: &str = "moved";
const FORGED: &str = "forged by another sandbox";

/// How code can write to the folder above the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteAccess {
    WriteRoot,
    Workspace,
}

async fn attacked(
    context: &mut ProbeContext,
    cache: &Path,
    module: &Path,
    absent: bool,
    access: WriteAccess,
    genuine: &[u8],
) -> Result<Result<Option<String>, Attempt>, ProbeError> {
    let (setup, seen) = match access {
        WriteAccess::WriteRoot => (
            SandboxSetup::with(|policy| {
                policy.filesystem_write_roots = Some(vec![cache.to_owned()]);
            }),
            cache,
        ),
        WriteAccess::Workspace => (
            SandboxSetup::default().workspace(cache),
            Path::new(WORKSPACE),
        ),
    };
    let inside = |path: &Path| seen.join(path.strip_prefix(cache).unwrap_or(path));
    let writer = match context.once(&setup).await {
        Ok(writer) => writer,
        // A policy that lets code write there is refused.
        Err(error) if names_one_of(&error, &[cache, seen]) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(context.record_create_error(error))),
    };
    let mut call = Call::new(["rearrange"]);
    if !absent {
        let (from, to) = (seen.join(FOLDER), seen.join(MOVED));
        call = call.and("rename").and(from).and(to);
    }
    for folder in folders(cache, module) {
        // Backends refuse a cache that other users may enter.
        let is_cache = folder == cache.join(FOLDER).join("packages");
        let made = if is_cache { "private-folder" } else { "folder" };
        call = call.and(made).and(inside(&folder));
    }
    let content = format!("token = '{FORGED}'\n");
    call = call.and("file").and(inside(module)).and(&content);
    // If writing is denied, the import in the other sandbox decides.
    let forged = match overwrite(&writer, &inside(module), &content).await? {
        true => Attempt::succeeded(),
        false => writer.run(&call).await?.attempt(None),
    };
    // On a cluster a workspace is a copy, which `sync` writes back.
    if access == WriteAccess::Workspace {
        writer.handle().sync().await?;
    }
    writer.handle().kill().await?;
    // The next sandbox also compares the package with its installation. Each must hold by itself.
    let on_host = std::fs::read(module);
    if !absent && on_host.as_ref().is_ok_and(|found| found != genuine) {
        return Ok(Ok(Some(
            "the installed package has changed on the host".into(),
        )));
    }
    let with_package = super::with_package(context.fixture());
    let sandbox = match context.once(&with_package).await {
        Ok(sandbox) => sandbox,
        Err(error) => return Ok(Ok(Some(format!("no sandbox afterwards: {error}")))),
    };
    let imported = imported(&sandbox).await;
    sandbox.handle().kill().await?;
    let right = imported == host_fixture::package_token();
    Ok(Ok((!right).then(|| {
        format!("it imports {imported:?}; the attack: {forged:?}")
    })))
}

fn names_one_of(error: &Error, paths: &[&Path]) -> bool {
    let text = error.to_string();
    paths
        .iter()
        .any(|path| text.contains(&*path.to_string_lossy()))
}

/// Overwrites the module in its place, if it is there, as its owner could.
async fn overwrite(
    writer: &ProbeSandbox,
    module: &Path,
    content: &str,
) -> Result<bool, ProbeError> {
    let script = "[ -e \"$0\" ] && chmod u+w \"${0%/*}\" \"$0\" && printf %s \"$1\" > \"$0\"";
    let request = ExecRequest::shell(script).arg(module).arg(content);
    Ok(writer.handle().exec(&request).await?.success())
}

/// The folders between the cache and a file in it, outermost first.
fn folders(cache: &Path, file: &Path) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1);
    let mut folders: Vec<_> = above
        .take_while(|folder| *folder != cache)
        .map(Path::to_owned)
        .collect();
    folders.reverse();
    folders
}

/// The token of the suite's package in a sandbox, or why it cannot be imported.
pub(super) async fn imported(sandbox: &ProbeSandbox) -> String {
    let code = format!("import {0}; print({0}.token, end='')", wheel::NAME);
    let request = ExecRequest::new("python3").args(["-c", &code]);
    match sandbox.handle().exec(&request).await {
        Ok(result) if result.success() => result.stdout_text(),
        Ok(result) => format!("{}: {}", result.outcome, result.stderr_text()),
        Err(error) => error.to_string(),
    }
}

/// Restores the cache for other probes.
fn restore(cache: &Path, aside: &Path) -> Result<(), ProbeError> {
    let own = cache.join(FOLDER);
    for kept in [aside, &cache.join(MOVED)] {
        if kept.exists() {
            if own.exists() {
                std::fs::remove_dir_all(&own)?;
            }
            std::fs::rename(kept, &own)?;
        }
    }
    Ok(())
}
