//! Permission bits of files that are written into a sandbox, and copied in and out.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sandbox_core::{ErrorKind, ExecRequest};

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

const MODES: [u32; 9] = [
    0o100, 0o200, 0o400, 0o500, 0o600, 0o644, 0o755, 0o666, 0o777,
];

/// The bits for others are left out: a copy to the host has the umask of this process.
const COPIED: [u32; 4] = [0o400, 0o500, 0o600, 0o700];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let own = context.outside()?;
    std::fs::create_dir(own.join("tree"))?;
    for mode in COPIED {
        for folder in [own.clone(), own.join("tree")] {
            let path = folder.join(format!("{mode:o}"));
            std::fs::write(&path, "content")?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        }
    }
    let mode = Call::new(["mode"]).and(own.join("500")).expect("500");
    context.host_control(&mode).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let folder = context.inside("modes");
    let deviation = context
        .with_sandbox(async |sandbox| {
            for mode in MODES {
                let path = format!("{folder}/{mode:o}");
                if let Some(deviation) = uploaded(sandbox, &path, mode).await? {
                    return Ok(Some(deviation));
                }
            }
            for mode in COPIED {
                let source = own.join(format!("{mode:o}"));
                let path = format!("{folder}/copied-{mode:o}");
                let copied = copied(sandbox, &source, &path, mode).await?;
                if copied.is_some() {
                    return Ok(copied);
                }
            }
            let tree = copied_folder(sandbox, &own.join("tree"), &format!("{folder}/tree")).await?;
            if tree.is_some() {
                return Ok(tree);
            }
            special_bits(sandbox, &folder, &own).await
        })
        .await
        .map(|result: Result<_, sandbox_core::Error>| match result {
            Ok(deviation) => Ok(deviation),
            Err(error) if error.kind() == ErrorKind::Unsupported => Err(error.to_string()),
            Err(error) => Ok(Some(error.to_string())),
        });
    match deviation {
        Ok(Err(reason)) => context.not_offered(reason),
        Ok(Ok(deviation)) => context.record_attack(behavior("compare modes", Ok(deviation))),
        Err(declined) => context.record_attack(behavior("compare modes", Err(declined))),
    }
    context.no_host_effect("the attack itself compares the modes");
    Ok(())
}

/// A mode that differs, of a file written with this one.
async fn uploaded(
    sandbox: &ProbeSandbox,
    path: &str,
    mode: u32,
) -> sandbox_core::Result<Option<String>> {
    let content = std::io::Cursor::new(b"content");
    sandbox.handle().upload(path, mode, content).await?;
    let seen = sandbox.handle().stat(path).await?.mode;
    Ok(match inside(sandbox, path, mode).await? {
        None if seen == mode => None,
        None => Some(format!("{mode:o} is reported as {seen:o}")),
        other => other,
    })
}

/// The same of a file copied into the sandbox and out again.
async fn copied(
    sandbox: &ProbeSandbox,
    source: &Path,
    path: &str,
    mode: u32,
) -> sandbox_core::Result<Option<String>> {
    sandbox.handle().copy_in(source, path).await?;
    if let Some(deviation) = inside(sandbox, path, mode).await? {
        return Ok(Some(deviation));
    }
    let back = source.with_extension("back");
    sandbox.handle().copy_out(path, &back).await?;
    let found = std::fs::metadata(&back).map(|file| file.permissions().mode() & 0o7777);
    Ok(match found {
        Ok(found) if found == mode => None,
        Ok(found) => Some(format!("{mode:o} came back as {found:o}")),
        Err(error) => Some(format!("{mode:o} did not come back: {error}")),
    })
}

/// The same of files in a folder, each with its own mode.
async fn copied_folder(
    sandbox: &ProbeSandbox,
    source: &Path,
    path: &str,
) -> sandbox_core::Result<Option<String>> {
    sandbox.handle().copy_in(source, path).await?;
    let back = source.with_extension("back");
    sandbox.handle().copy_out(path, &back).await?;
    for mode in COPIED {
        let name = format!("{mode:o}");
        if let Some(deviation) = inside(sandbox, &format!("{path}/{name}"), mode).await? {
            return Ok(Some(format!("in a folder: {deviation}")));
        }
        let found =
            std::fs::metadata(back.join(&name)).map(|file| file.permissions().mode() & 0o7777);
        if !matches!(found, Ok(found) if found == mode) {
            return Ok(Some(format!(
                "in a folder: {mode:o} came back as {found:?}"
            )));
        }
    }
    Ok(None)
}

/// Files with special bits that code may make come back without them.
async fn special_bits(
    sandbox: &ProbeSandbox,
    folder: &str,
    own: &Path,
) -> sandbox_core::Result<Option<String>> {
    for bits in [0o4000, 0o2000, 0o1000] {
        let name = format!("special-{bits:o}");
        let path = format!("{folder}/{name}");
        let content = std::io::Cursor::new(b"content");
        sandbox.handle().upload(&path, 0o644, content).await?;
        let mode = format!("{:o}", bits | 0o700);
        // Where the sandbox denies such bits, the file has none.
        let script = ExecRequest::shell("chmod \"$1\" \"$0\" 2>/dev/null || chmod 700 \"$0\"");
        let made = sandbox.handle().exec(&script.args([&path, &mode])).await?;
        if !made.success() {
            return Ok(Some(format!("chmod {mode}: {}", made.output())));
        }
        let back = own.join(name);
        sandbox.handle().copy_out(&path, &back).await?;
        let found = std::fs::metadata(&back).map(|file| file.permissions().mode() & 0o7777);
        match found {
            Ok(0o700) => {}
            Ok(found) => return Ok(Some(format!("{mode} came back as {found:o}"))),
            Err(error) => return Ok(Some(format!("{mode} did not come back: {error}"))),
        }
    }
    Ok(None)
}

async fn inside(
    sandbox: &ProbeSandbox,
    path: &str,
    mode: u32,
) -> sandbox_core::Result<Option<String>> {
    let run = sandbox.run(&Call::new(["mode", path])).await?;
    let attempt = run.attempt(Some(&format!("{mode:o}")));
    Ok((!attempt.is_success()).then(|| format!("{mode:o} inside: {:?}", run.attempt(None))))
}
