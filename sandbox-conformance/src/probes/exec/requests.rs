//! The fields of a request, one by one.

use sandbox_core::{ErrorKind, ExecRequest, SandboxHandle};

use crate::probes::prelude::*;

/// A variable of the sandbox, and its value there.
pub(super) const VARIABLE: [&str; 2] = ["PROBE_VISIBLE", "yes"];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = format!("{}-folder", context.token());
    plain_feature(context, "set each field", async |sandbox| {
        for check in [
            variables(sandbox).await?,
            folders(sandbox, &folder).await?,
            temporary(sandbox, &folder).await?,
            users(sandbox).await?,
        ] {
            if check.is_some() {
                return Ok(check);
            }
        }
        Ok(None)
    })
    .await
}

async fn text(sandbox: &SandboxHandle, request: ExecRequest) -> sandbox_core::Result<String> {
    let result = sandbox.exec(&request).await?;
    Ok(result.check()?.stdout_text().trim_end().to_owned())
}

/// A variable of the request replaces the sandbox's, for this execution alone.
async fn variables(sandbox: &SandboxHandle) -> Deviation {
    let [name, value] = VARIABLE;
    let show = || ExecRequest::shell(format!("echo ${name}"));
    let usual = text(sandbox, show()).await?;
    let own = text(sandbox, show().env(name, "own")).await?;
    let later = text(sandbox, show()).await?;
    let found = [usual, own, later];
    Ok((found != [value, "own", value]).then(|| format!("{name} is {found:?}")))
}

/// A relative working folder starts in the sandbox's, and a relative program in the working folder.
async fn folders(sandbox: &SandboxHandle, folder: &str) -> Deviation {
    let usual = text(sandbox, ExecRequest::new("pwd")).await?;
    let make = "mkdir $0 && printf '#!/bin/sh\\npwd\\n' > $0/tool && chmod 755 $0/tool";
    text(sandbox, ExecRequest::shell(make).arg(folder)).await?;
    let own = format!("{usual}/{folder}");
    let relative = text(sandbox, ExecRequest::new("pwd").workdir(folder)).await?;
    let absolute = text(sandbox, ExecRequest::new("pwd").workdir(&own)).await?;
    let program = text(sandbox, ExecRequest::new("./tool").workdir(folder)).await?;
    let below = format!("{folder}/tool");
    let from_usual = text(sandbox, ExecRequest::new(&below)).await?;
    text(sandbox, ExecRequest::new("rm").args(["-r", folder])).await?;
    let found = [relative, absolute, program, from_usual];
    let expected = [&own, &own, &own, &usual];
    Ok((found.iter().ne(expected)).then(|| format!("{found:?}, not {expected:?}")))
}

/// Code can write to the folder for temporary files, and execute files from it.
async fn temporary(sandbox: &SandboxHandle, name: &str) -> Deviation {
    let path = format!("{}/{name}", sandbox.temporary_folder());
    let make = "printf '#!/bin/sh\\necho ran' > $0 && chmod 755 $0";
    text(sandbox, ExecRequest::shell(make).arg(&path)).await?;
    let found = text(sandbox, ExecRequest::new(&path)).await?;
    sandbox.remove(&path).await?;
    let is_right = path.starts_with('/') && found == "ran";
    Ok((!is_right).then(|| format!("{path}: {found:?}")))
}

/// The sandbox's own user is always possible, and no unprivileged other one.
async fn users(sandbox: &SandboxHandle) -> Deviation {
    let ids = || ExecRequest::shell("echo $(id -u):$(id -g)");
    let usual = text(sandbox, ids()).await?;
    let number = usual.split(':').next().unwrap_or_default().to_owned();
    for user in [usual.clone(), number] {
        let found = text(sandbox, ids().user(&user)).await;
        match found {
            Ok(found) if found == usual => {}
            found => return Ok(Some(format!("as its own user {user}: {found:?}"))),
        }
    }
    let other = sandbox.exec(&ids().user("54321")).await;
    match other {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        other => Ok(Some(format!("as another user: {other:?}"))),
    }
}
