//! Options of an engine that tighten its sandboxes.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandbox_core::{ErrorKind, ExecRequest, SandboxClient, SandboxHandle, SandboxSpec};

use crate::probes::prelude::*;
use crate::tightened::{FILE_SIZE, HOST_NAME, MASKED, Tightened};

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let file = context.inside("file");
    let deviation = match (context.client_and_spec().await, context.tightened()?) {
        (Err(declined), _) => Err(declined),
        // The options are the engines' own.
        (Ok(_), None) => Ok(None),
        (Ok((client, mut spec)), Some(tightened)) => {
            let usual = context
                .with_sandbox(async |sandbox| covered(sandbox.handle()).await)
                .await;
            spec.name = sandbox_core::spi::unique_name("conformance-tightened");
            match flat(usual) {
                Ok(usual) => flat(Ok(
                    compare(&tightened, &client, &spec, (&usual, &file)).await
                )),
                Err(declined) => Err(declined),
            }
        }
    };
    context.record_attack(behavior("tighten sandboxes", deviation));
    context.no_host_effect("the attack reads the sandbox's own mounts");
    Ok(())
}

async fn compare(
    tightened: &Tightened,
    client: &SandboxClient,
    spec: &SandboxSpec,
    (usual, file): (&BTreeSet<String>, &str),
) -> Deviation {
    let with = |backend| SandboxClient::with_backend(backend, client.policy().clone());
    for (options, backend) in &tightened.refused {
        let created = with(Arc::clone(backend))?.create(spec).await;
        let kind = created.map(drop).map_err(|error| error.kind());
        // An engine may lack the option.
        if !matches!(kind, Err(ErrorKind::InvalidSpec | ErrorKind::Unsupported)) {
            return Ok(Some(format!("{options}: {kind:?}")));
        }
    }
    let sandbox = with(Arc::clone(&tightened.backend))?.create(spec).await?;
    let found = differs(&sandbox, usual, file).await;
    sandbox.kill().await?;
    found
}

async fn differs(sandbox: &SandboxHandle, usual: &BTreeSet<String>, file: &str) -> Deviation {
    let covered = covered(sandbox).await?;
    let lost: Vec<_> = usual.difference(&covered).collect();
    if !lost.is_empty() {
        return Ok(Some(format!("not covered with options: {lost:?}")));
    }
    let request = ExecRequest::shell(
        "cat /proc/sys/kernel/hostname; head -c 4000000 /dev/zero > \"$0\"; cat \"$1\"",
    );
    let result = sandbox.exec(&request.arg(file).arg(MASKED)).await?;
    let text = result.stdout_text().to_string();
    let size = sandbox.stat(file).await?.size;
    if text != format!("{HOST_NAME}\n") || size != FILE_SIZE || !covered.contains(MASKED) {
        return Ok(Some(format!(
            "host name and {MASKED}: {text:?}; {size} bytes"
        )));
    }
    Ok(None)
}

/// The kernel's files and folders that something is mounted over.
async fn covered(sandbox: &SandboxHandle) -> sandbox_core::Result<BTreeSet<String>> {
    let mounts = sandbox.shell("cat /proc/self/mountinfo").await?;
    let text = mounts.stdout_text();
    let targets = text.lines().filter_map(|line| line.split(' ').nth(4));
    let kernel = targets.filter(|it| it.starts_with("/proc/") || it.starts_with("/sys/"));
    Ok(kernel.map(str::to_owned).collect())
}
