//! A read root inside a write root, whose parent folder code renames.

use crate::evidence::HostCheck;
use crate::probes::prelude::*;
use crate::probes::swap_fixture::{DATA, FILE, INNER, SwapFixture};

pub(super) const KEPT: &[ExpectedDenial] = &[
    denied(
        "EBUSY",
        "the folders around the read root are mount points, which cannot be renamed",
    ),
    denied("EACCES", "Landlock"),
    denied("EXDEV", "Landlock, or another mount"),
    denied("EROFS", "read-only mount"),
];

/// The paths inside are those of the host.
fn renamed(fixture: &SwapFixture) -> Call {
    let data = fixture.project.join(DATA);
    let call = Call::new(["rearrange", "rename"]).and(&data);
    let call = call.and(fixture.project.join("old"));
    let call = call.and("folder").and(&data);
    let call = call.and("folder").and(data.join(INNER));
    call.and("file")
        .and(data.join(INNER).join(FILE))
        .and("attacker")
}

fn setup(fixture: &SwapFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| {
        policy.filesystem_write_roots = Some(vec![fixture.project.clone()]);
        policy.filesystem_read_roots = Some(vec![fixture.project.join(DATA).join(INNER)]);
    })
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let control = SwapFixture::build(context, "control")?;
    context.host_control(&renamed(&control)).await?;
    let fixture = SwapFixture::build(context, "attack")?;
    let sandbox = match context.once(&setup(&fixture)).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            let attempt = context.record_create_error(error);
            context.record_attack(Step::new("create the sandbox", attempt));
            return Ok(());
        }
    };
    let create = Call::new(["create"]).and(fixture.project.join("new"));
    let allowed = sandbox.run(&create).await?.attempt(None);
    context.record_allow_control(Step::new(create.text(), allowed));
    let call = renamed(&fixture);
    let attempt = sandbox.run(&call).await?.attempt(None);
    context.record_attack(Step::new(call.text(), attempt));
    sandbox.handle().kill().await?;
    let inner = fixture.granted(INNER);
    let same = matches!(inner.file.host_check(), HostCheck::Clean { .. });
    context.check_host("the file in the read root, on the host", same);
    Ok(())
}
