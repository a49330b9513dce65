//! A FIFO that code of an earlier run has put where a file was.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use crate::pool::Sandbox;
use crate::probes::prelude::*;
use crate::probes::scene::{DATA, FILE, Scene};
use crate::probes::swap::WORKSPACE;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "second_run::fifo",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Isolation,
    summary: "replaces a file by a FIFO, and waits for it to be copied into a second sandbox, which would never end",
    setting: plain,
    permitting: None,
    denials: NOT_OPENED,
    run: |stage| Box::pin(run(stage)),
};

const NOT_OPENED: &[Denial] = &[
    Denial {
        sign: "error:path",
        means: "only regular files and folders are copied",
    },
    Denial {
        sign: NOT_PLANTED,
        means: "a workspace that is a copy brings back regular files and folders alone",
    },
];

const NOT_PLANTED: &str = "no_fifo_on_the_host";

/// How long a copy of a few bytes may take.
const LIMIT: Duration = Duration::from_secs(10);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let replaced = |project: &Path| {
        let file = project.join(DATA).join(FILE);
        let call = Call::new(["rearrange", "rename"]).and(&file);
        call.and(project.join("old")).and("fifo").and(&file)
    };
    let control_scene = Scene::build(stage, "control")?;
    let call = replaced(&control_scene.project);
    host::run(&stage.grounds().program(), &call).await?;
    let fifo = control_scene.project.join(DATA).join(FILE);
    let mut reader = tokio::process::Command::new("cat");
    let reader = reader.arg(&fifo).kill_on_drop(true).output();
    let ended = tokio::time::timeout(Duration::from_secs(1), reader).await;
    let failure = ended.is_ok().then(|| "it was read to its end".to_owned());
    stage.host_control_was(control("read a FIFO on the host, for ever", failure));

    let scene = Scene::build(stage, "attack")?;
    let source = scene.project.join(DATA).join(FILE);
    let first = match stage
        .once(&Setting::default().workspace(&scene.project))
        .await
    {
        Ok(first) => first,
        Err(error) => {
            let attempt = stage.not_created(error);
            stage.attack_was(Step::new("create the first sandbox", attempt));
            return Ok(());
        }
    };
    let allowed = match copied(&first, &source).await {
        Some(Ok(())) => Attempt::succeeded(),
        other => Attempt::unclear(format!("{other:?}")),
    };
    stage.allow_control_was(Step::new("copy the file", allowed));
    let call = replaced(Path::new(WORKSPACE));
    let made = first.run(&call).await?.attempt(None);
    let synced = first.handle().sync().await;
    let attempt = match (made, synced) {
        (Attempt::Succeeded { .. }, Ok(_)) => match copied(&first, &source).await {
            None => Attempt::succeeded(),
            Some(Err(error)) => Attempt::blocked([format!("error:{}", error.kind().as_str())]),
            Some(Ok(())) if is_regular(&source)? => Attempt::blocked([NOT_PLANTED.to_owned()]),
            Some(Ok(())) => Attempt::unclear("a FIFO was copied"),
        },
        other => Attempt::unclear(format!("the first run: {other:?}")),
    };
    stage.attack_was(Step::new(format!("{}, and copy it", call.text()), attempt));
    // Whoever waits for it goes on.
    let mut options = std::fs::OpenOptions::new();
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    options.read(true).write(true).custom_flags(nonblocking);
    drop(options.open(&source));
    first.handle().kill().await?;
    stage.nothing_to_watch("that the copy ends is the test");
    Ok(())
}

fn is_regular(path: &Path) -> Result<bool, Trouble> {
    let found = std::fs::symlink_metadata(path);
    let found = found.map_err(|cause| Trouble::new(format!("{}: {cause}", path.display())))?;
    Ok(found.is_file())
}

/// Copies the file; `None` where that does not end.
async fn copied(sandbox: &Sandbox, source: &Path) -> Option<sandbox_core::Result<()>> {
    let target = format!("/tmp/{}", sandbox_core::unique_name("copy"));
    let copy = sandbox.handle().copy_in(source, &target);
    let ended = tokio::time::timeout(LIMIT, copy).await.ok()?;
    Some(ended.map(drop))
}
