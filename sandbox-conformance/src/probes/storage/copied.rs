//! A workspace that is a copy, and the folder of the host where a tier has no copy.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use sandbox_core::{
    ErrorKind, HostChange, SandboxClient, SandboxHandle, SandboxSpec, SkipReason, Synced, Workspace,
};

use crate::probes::prelude::*;

/// Such an end removes the sandbox of a killed suite.
const LIFETIME: Duration = Duration::from_secs(60);

/// The files of the host before.
const BEFORE: [&str; 5] = ["same", "edited", "both", "gone", "away"];

/// What code does.
const CODE: &str = "cd /workspace && for name in edited both away met; do echo code > $name; done
    rm gone; mkdir -p new/deep && echo code > new/deep/file && chmod 755 new/deep/file
    ln -s /etc/passwd made; mkfifo pipe";

/// The files of the host after the first return, and their content.
const AFTER: [(&str, &str); 6] = [
    ("edited", "code\n"),
    ("new/deep/file", "code\n"),
    ("both", "changed\n"),
    ("same", "host\n"),
    ("met", "changed\n"),
    ("gone", "host\n"),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let folder = super::own_folder(context)?;
    for name in BEFORE {
        std::fs::write(folder.join(name), "host\n")?;
    }
    // Of an earlier run of this probe.
    let _ = std::fs::remove_file(folder.join("link"));
    symlink("/etc/passwd", folder.join("link"))?;
    let is_copied = context.is_cluster();
    let mut detached = None;
    let compared = match context.client_and_spec().await {
        Err(declined) => Err(declined),
        Ok((client, mut spec)) => {
            spec.name = sandbox_core::spi::unique_name("conformance-copied");
            spec.workspace = Some(Workspace::read_write(&folder));
            if is_copied {
                detached = refused(&client, &spec).await;
            }
            let compared = bring_back(&client, &spec, &folder, is_copied).await;
            if_offered(context, Ok(compared)).map(|wrong| wrong.or(detached))
        }
    };
    context.record_attack(behavior("bring changes back", compared));
    context.no_host_effect("the attack itself compares the files");
    Ok(())
}

async fn bring_back(
    client: &SandboxClient,
    spec: &SandboxSpec,
    folder: &Path,
    is_copied: bool,
) -> Deviation {
    let sandbox = client.create(spec).await?;
    let compared = match is_copied {
        true => copied(&sandbox, folder).await,
        false => shared(&sandbox, folder).await,
    };
    // A stop may have ended it already.
    sandbox.kill().await?;
    compared
}

/// Nobody would bring the changes of a detached sandbox back.
async fn refused(client: &SandboxClient, spec: &SandboxSpec) -> Option<String> {
    let spec = spec.clone().detached(true).lifetime(LIFETIME);
    let answer = match client.create(&spec).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => return None,
        Err(error) => error.to_string(),
        Ok(sandbox) => format!("{:?}", sandbox.kill().await),
    };
    Some(format!("a detached sandbox with a copy: {answer}"))
}

/// Without a copy there is nothing to bring back.
async fn shared(sandbox: &SandboxHandle, folder: &Path) -> Deviation {
    let written = sandbox.shell("echo code > /workspace/met").await?;
    let there = content(folder, "met");
    let (synced, copies) = (sandbox.sync().await?, sandbox.workspace());
    let is_right = there == "code\n" && synced.is_none() && copies.is_none();
    Ok((!is_right).then(|| format!("{}: {there:?}, {synced:?}, {copies:?}", written.output())))
}

async fn copied(sandbox: &SandboxHandle, folder: &Path) -> Deviation {
    let brought = sandbox.workspace().unwrap_or_default().brought;
    let reasons: Vec<_> = brought.skipped.iter().map(|it| &it.reason).collect();
    if brought.files != BEFORE.len() as u64 || reasons != [&SkipReason::Symlink] {
        return Ok(Some(format!("brought in: {brought:?}")));
    }
    let ran = sandbox.shell(CODE).await?;
    if !ran.success() {
        return Ok(Some(ran.output().to_string()));
    }
    let on_host = (|| {
        std::fs::write(folder.join("both"), "changed\n")?;
        std::fs::write(folder.join("met"), "changed\n")?;
        std::fs::remove_file(folder.join("away"))
    })();
    if let Err(error) = on_host {
        return Ok(Some(error.to_string()));
    }
    let synced = sandbox.sync().await?.unwrap_or_default();
    if let Some(wrong) = differs(&synced, folder) {
        return Ok(Some(wrong));
    }
    // Later changes only; a stop brings them back, too.
    let again = sandbox.shell("echo again > /workspace/edited").await?;
    sandbox.stop().await?;
    let last = sandbox.workspace().and_then(|copies| copies.synced);
    let files = last.map_or(0, |synced| synced.copied.files);
    let there = content(folder, "edited");
    let is_right = again.success() && files == 1 && there == "again\n";
    Ok((!is_right).then(|| format!("a stop: {there:?}, {files} files")))
}

fn differs(synced: &Synced, folder: &Path) -> Option<String> {
    let mut conflicts: Vec<_> = synced.conflicts.iter().collect();
    conflicts.sort_by_key(|conflict| &conflict.path);
    let conflicts: Vec<_> = conflicts.iter().map(|it| (&*it.path, it.host)).collect();
    let mut skipped: Vec<_> = synced.copied.skipped.iter().collect();
    skipped.sort_by_key(|skipped| &skipped.source);
    let skipped: Vec<_> = skipped.iter().map(|it| (&*it.source, &it.reason)).collect();
    let is_told = synced.copied.files == 2
        && synced.removed == ["gone"]
        && conflicts
            == [
                ("away", HostChange::Removed),
                ("both", HostChange::Changed),
                ("met", HostChange::Appeared),
            ]
        && skipped
            == [
                ("/workspace/made", &SkipReason::Symlink),
                ("/workspace/pipe", &SkipReason::SpecialFile),
            ];
    let mut wrong = AFTER
        .iter()
        .filter(|(name, right)| content(folder, name) != *right);
    let wrong = wrong.next().map(|(name, _)| *name);
    let is_back = ["away", "made", "pipe"]
        .iter()
        .any(|name| folder.join(name).exists());
    let is_right = is_told && wrong.is_none() && !is_back;
    (!is_right).then(|| format!("{wrong:?} differs; {synced:?}"))
}

fn content(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}
