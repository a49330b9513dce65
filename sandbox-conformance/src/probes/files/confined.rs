//! Whether operations on files are confined as code is.

use std::path::Path;

use sandbox_core::{Capability, Enforcement, SandboxHandle};

use crate::canary::Canary;
use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// Files that code of some sandboxes cannot read.
const CLOSED: [&str; 3] = ["/etc/shadow", "/proc/1/environ", "/proc/1/maps"];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o666)?;
    let call = Call::new(["read"]).and(canary.path());
    context
        .host_control(&call.expect(canary.fingerprint()))
        .await?;
    let link = context.inside("folder");
    let folder = canary.path().parent().unwrap_or(Path::new("/"));
    context
        .allow_control(&Call::new(["make", &link, "1"]).and(folder))
        .await;
    let isolation = context
        .with_sandbox(async |sandbox| sandbox.declared(Capability::FilesystemReadRoots))
        .await;
    if let Ok(Some(Enforcement::Unenforced { reason })) = isolation {
        context.not_offered(format!("code itself reads every file: {reason}"));
        return Ok(());
    }
    let attempt = context
        .with_sandbox(async |sandbox| {
            if let Some(value) = beyond_code(sandbox).await {
                return Attempt::Succeeded { value };
            }
            let path = canary.path().display().to_string();
            let paths = [
                path.clone(),
                format!("{link}/canary"),
                format!("/proc/self/root{path}"),
                format!("/proc/1/root{path}"),
                format!("/proc/self/cwd/../../../../../../../..{path}"),
            ];
            let mut signs = vec!["unreached".to_owned()];
            for path in &paths {
                match reached(sandbox.handle(), path, &canary, &mut signs).await {
                    Some(value) => return Attempt::Succeeded { value },
                    None => continue,
                }
            }
            // The host check shows whether one of these changes it.
            for path in &paths[1..] {
                for result in [
                    sandbox.handle().write(path, "overwritten").await,
                    sandbox.handle().remove(path).await,
                ] {
                    signs.extend(result.err().map(|error| sign(&error)));
                }
            }
            Attempt::blocked(signs)
        })
        .await;
    context.record_attack(Step::new(
        "reach a file of the host",
        attempt.unwrap_or_else(|declined| declined),
    ));
    context.host_check(canary.host_check());
    Ok(())
}

fn sign(error: &sandbox_core::Error) -> String {
    format!("error:{}", error.kind().as_str())
}

/// The first closed file that an operation reads and code does not.
async fn beyond_code(sandbox: &ProbeSandbox) -> Option<String> {
    for path in CLOSED {
        let code = sandbox.run(&Call::new(["read", path])).await;
        let is_open_to_code = code.is_ok_and(|run| run.attempt(None).is_success());
        if !is_open_to_code && sandbox.handle().read(path).await.is_ok() {
            return Some(format!("read {path}, which code cannot"));
        }
    }
    None
}

/// How the file was reached, if it was. Collects the errors otherwise.
async fn reached(
    sandbox: &SandboxHandle,
    path: &str,
    canary: &Canary,
    signs: &mut Vec<String>,
) -> Option<String> {
    let folder = path.strip_suffix("/canary").unwrap_or(path);
    match sandbox.read(path).await {
        Ok(content) if content == canary.content() => return Some(format!("read {path}")),
        Ok(_) => {}
        Err(error) => signs.push(sign(&error)),
    }
    match sandbox.exists(path).await {
        Ok(true) => return Some(format!("saw {path}")),
        Ok(false) => {}
        Err(error) => signs.push(sign(&error)),
    }
    match sandbox.list_dir(folder).await {
        Ok(entries) if entries.iter().any(|entry| entry.path.ends_with("canary")) => {
            Some(format!("listed {folder}"))
        }
        Ok(_) => None,
        Err(error) => {
            signs.push(sign(&error));
            None
        }
    }
}
