//! A sandbox that can write to two folders of the host.

use sandbox_core::{ErrorKind, MountSource};

use crate::host_fixture::make_folder;
use crate::probes::prelude::*;
use crate::probes::swap_fixture::{DATA, INNER, SwapFixture};

/// Whether another sandbox gets a folder below must not depend on which of the two it is. A tier
/// that looks for such folders may refuse both.
pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let fixture = SwapFixture::build(context, "attack")?;
    let project = &fixture.project;
    let first = project.with_file_name("first");
    make_folder(&first)?;
    let one = SandboxSetup::default().workspace(project);
    let two = SandboxSetup::with(|policy| {
        policy.mount_sources = Some(vec![MountSource::read_write(project)]);
    });
    let deviation = match (
        answer(context, &fixture, &one).await?,
        two.workspace(&first),
    ) {
        (Err(declined), _) => Err(declined),
        (Ok(only), both) => {
            let second = answer(context, &fixture, &both).await?;
            second.map(|second| (only != second).then(|| format!("{second:?}, not {only:?}")))
        }
    };
    context.record_attack(behavior("create a sandbox with a folder below", deviation));
    context.no_host_effect("nothing is written");
    Ok(())
}

/// Creates a sandbox that reads a folder below the project while this one can write to it: why it
/// is refused, if it is.
async fn answer(
    context: &mut ProbeContext,
    fixture: &SwapFixture,
    writer: &SandboxSetup,
) -> Result<Result<Option<ErrorKind>, Attempt>, ProbeError> {
    let writer = match context.once(writer).await {
        Ok(writer) => writer,
        Err(error) => return Ok(Err(context.record_create_error(error))),
    };
    let below = fixture.project.join(DATA).join(INNER);
    let reader = context
        .once(&SandboxSetup::with(|policy| {
            policy.filesystem_read_roots = Some(vec![below]);
        }))
        .await;
    writer.handle().kill().await?;
    match reader {
        Ok(reader) => {
            reader.handle().kill().await?;
            Ok(Ok(None))
        }
        Err(error) => Ok(Ok(Some(error.kind()))),
    }
}
