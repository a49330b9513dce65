//! Packages for other sandboxes, made by code that can write around the cache of packages.

use std::path::{Path, PathBuf};

use sandbox_core::ExecRequest;

use crate::grounds;
use crate::pool::Sandbox;
use crate::probes::prelude::*;
use crate::wheel;

/// Code writes in the folder around the cache, and forges the entry of the suite's package there. Another sandbox with the package
/// must not run what it wrote. `absent`: there is no cache when the first sandbox is made, else there is one with the entry.
pub(super) async fn forged(stage: &mut Stage, absent: bool) -> Result<(), Trouble> {
    super::pip_finds_it(stage).await;
    let (cache, _guard) = grounds::package_cache().await;
    let with_package = super::with_package(stage.grounds());
    let imported = match stage.once(&with_package).await {
        Ok(sandbox) => {
            let imported = imported(&sandbox).await;
            sandbox.handle().kill().await?;
            imported
        }
        Err(error) => {
            let attempt = stage.not_created(error);
            stage.attack_was(Step::new("import the package", attempt));
            return Ok(());
        }
    };
    let genuine = grounds::package_token();
    let failure = (imported != genuine).then(|| imported.clone());
    stage.allow_control_was(control("import the package before the attack", failure));
    let module = found_below(&cache, &format!("{}.py", wheel::NAME));
    let Some(module) = module else {
        return Err(Trouble::new(format!(
            "the installed package is not below {}",
            cache.display()
        )));
    };
    let aside = cache.with_extension("aside");
    if absent {
        std::fs::rename(cache.join(FOLDER), &aside)?;
    }
    let told = attacked(stage, &cache, &module, absent).await;
    restore(&cache, &aside)?;
    // What it has mounted may have been replaced.
    stage.end_sandbox().await?;
    stage.attack_was(behavior("forge an entry of the cache of packages", told?));
    stage.nothing_to_watch("what another sandbox imports is the test");
    Ok(())
}

/// The part of the cache's path that backends make below `XDG_CACHE_HOME`.
const FOLDER: &str = "sandbox";
const MOVED: &str = "moved";
const FORGED: &str = "forged by another sandbox";

async fn attacked(
    stage: &mut Stage,
    cache: &Path,
    module: &Path,
    absent: bool,
) -> Result<Result<Option<String>, Attempt>, Trouble> {
    let setting =
        Setting::with(|policy| policy.filesystem_write_roots = Some(vec![cache.to_owned()]));
    let writer = match stage.once(&setting).await {
        Ok(writer) => writer,
        // A policy under which code could write there is refused.
        Err(error) if error.to_string().contains(&*cache.to_string_lossy()) => {
            return Ok(Ok(None));
        }
        Err(error) => return Ok(Err(stage.not_created(error))),
    };
    let mut call = Call::new(["rearrange"]);
    if !absent {
        let (from, to) = (cache.join(FOLDER), cache.join(MOVED));
        call = call.and("rename").and(from).and(to);
    }
    for folder in folders(cache, module) {
        // Backends refuse a cache that others may enter.
        let is_cache = folder == cache.join(FOLDER).join("packages");
        let made = if is_cache { "private-folder" } else { "folder" };
        call = call.and(made).and(folder);
    }
    let content = format!("token = '{FORGED}'\n");
    call = call.and("file").and(module).and(content);
    // Where it is denied, what the other sandbox imports says the rest.
    let forged = writer.run(&call).await?.attempt(None);
    writer.handle().kill().await?;
    let with_package = super::with_package(stage.grounds());
    let sandbox = match stage.once(&with_package).await {
        Ok(sandbox) => sandbox,
        Err(error) => return Ok(Ok(Some(format!("no sandbox afterwards: {error}")))),
    };
    let imported = imported(&sandbox).await;
    sandbox.handle().kill().await?;
    let right = imported == grounds::package_token();
    Ok(Ok((!right).then(|| {
        format!("it imports {imported:?}; the attack: {forged:?}")
    })))
}

/// The folders between the cache's and a file in it, outer before inner.
fn folders(cache: &Path, file: &Path) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1);
    let mut folders: Vec<_> = above
        .take_while(|folder| *folder != cache)
        .map(Path::to_owned)
        .collect();
    folders.reverse();
    folders
}

/// What the suite's package says in a sandbox, or why there is none.
async fn imported(sandbox: &Sandbox) -> String {
    let code = format!("import {0}; print({0}.token, end='')", wheel::NAME);
    let request = ExecRequest::new("python3").args(["-c", &code]);
    match sandbox.handle().exec(&request).await {
        Ok(result) if result.ok() => result.stdout_text(),
        Ok(result) => format!("{}: {}", result.outcome, result.stderr_text()),
        Err(error) => error.to_string(),
    }
}

/// Puts the cache back as the first sandbox left it, so that other probes find it.
fn restore(cache: &Path, aside: &Path) -> Result<(), Trouble> {
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
