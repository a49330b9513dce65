//! A FIFO that an earlier run put in place of a file.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;
use crate::probes::swap::WORKSPACE;
use crate::probes::swap_fixture::{DATA, FILE, SwapFixture};

pub(super) const NOT_OPENED: &[ExpectedDenial] = &[
    denied("error:path", "only regular files and folders are copied"),
    ExpectedDenial {
        sign: NOT_PLANTED,
        means: "only regular files and folders are copied back from a copied workspace",
    },
];

const NOT_PLANTED: &str = "no_fifo_on_the_host";

/// The time limit of a small copy.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let replaced = |project: &Path| {
        let file = project.join(DATA).join(FILE);
        let call = Call::new(["rearrange", "rename"]).and(&file);
        call.and(project.join("old")).and("fifo").and(&file)
    };
    let control_scene = SwapFixture::build(context, "control")?;
    let call = replaced(&control_scene.project);
    host::run(&context.fixture().program(), &call).await?;
    let fifo = control_scene.project.join(DATA).join(FILE);
    let mut reader = tokio::process::Command::new("cat");
    let reader = reader.arg(&fifo).kill_on_drop(true).output();
    let ended = tokio::time::timeout(Duration::from_secs(1), reader).await;
    let failure = ended.is_ok().then(|| "the read ended".to_owned());
    context.record_host_control(control("read a FIFO on the host, without an end", failure));

    let fixture = SwapFixture::build(context, "attack")?;
    let source = fixture.project.join(DATA).join(FILE);
    let first = match context
        .once(&SandboxSetup::default().workspace(&fixture.project))
        .await
    {
        Ok(first) => first,
        Err(error) => {
            let attempt = context.record_create_error(error);
            context.record_attack(Step::new("create the first sandbox", attempt));
            return Ok(());
        }
    };
    let allowed = match copied(&first, &source).await {
        Some(Ok(())) => Attempt::succeeded(),
        other => Attempt::unclear(format!("{other:?}")),
    };
    context.record_allow_control(Step::new("copy the file", allowed));
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
    context.record_attack(Step::new(format!("{}, and copy it", call.text()), attempt));
    // Opening the FIFO releases a blocked reader.
    let mut options = std::fs::OpenOptions::new();
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    options.read(true).write(true).custom_flags(nonblocking);
    drop(options.open(&source));
    first.handle().kill().await?;
    context.no_host_effect("the attack checks that the copy ends");
    Ok(())
}

fn is_regular(path: &Path) -> Result<bool, ProbeError> {
    let found = std::fs::symlink_metadata(path);
    let found = found.map_err(|cause| ProbeError::new(format!("{}: {cause}", path.display())))?;
    Ok(found.is_file())
}

/// Copies the file; `None` if the copy does not end.
async fn copied(sandbox: &ProbeSandbox, source: &Path) -> Option<sandbox_core::Result<()>> {
    let target = format!("/tmp/{}", sandbox_core::spi::unique_name("copy"));
    let copy = sandbox.handle().copy_in(source, &target);
    let ended = tokio::time::timeout(LIMIT, copy).await.ok()?;
    Some(ended.map(drop))
}
