//! A read root inside a write root, whose parent folder code renames.

use std::path::Path;

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

/// Renames a folder above the read root, and puts another one with another file in its place. The
/// paths inside are those of the host.
fn renamed(fixture: &SwapFixture, renamed: &Path) -> Call {
    let inner = fixture.project.join(DATA).join(INNER);
    let call = Call::new(["rearrange", "rename"]).and(renamed);
    let mut call = call.and(renamed.with_file_name("old"));
    for folder in [&fixture.project, &fixture.project.join(DATA), &inner] {
        call = call.and("folder").and(folder);
    }
    call.and("file").and(inner.join(FILE)).and("attacker")
}

fn setup(fixture: &SwapFixture, writable: &Path) -> SandboxSetup {
    SandboxSetup::with(|policy| {
        policy.filesystem_write_roots = Some(vec![writable.to_owned()]);
        policy.filesystem_read_roots = Some(vec![fixture.project.join(DATA).join(INNER)]);
    })
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let control = SwapFixture::build(context, "control")?;
    let data = control.project.join(DATA);
    context.host_control(&renamed(&control, &data)).await?;
    let fixture = SwapFixture::build(context, "attack")?;
    let project = fixture.project.clone();
    let above = project.parent().unwrap_or(&project);
    // The folder above the read root, and the one above that.
    for (writable, folder) in [(&*project, project.join(DATA)), (above, project.clone())] {
        attack(context, &fixture, writable, &folder).await?;
        if !context.attack_is_blocked() {
            break;
        }
    }
    let inner = fixture.granted(INNER);
    let same = matches!(inner.file.host_check(), HostCheck::Clean { .. });
    context.check_host("the file in the read root, on the host", same);
    Ok(())
}

/// Renames this folder in a write root that has the read root in it.
async fn attack(
    context: &mut ProbeContext,
    fixture: &SwapFixture,
    writable: &Path,
    folder: &Path,
) -> Result<(), ProbeError> {
    let sandbox = match context.once(&setup(fixture, writable)).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            let attempt = context.record_create_error(error);
            context.record_attack(Step::new("create the sandbox", attempt));
            return Ok(());
        }
    };
    let name = folder.file_name().unwrap_or_default();
    let create = Call::new(["create"]).and(fixture.project.join("beside").with_extension(name));
    let allowed = sandbox.run(&create).await?.attempt(None);
    context.record_allow_control(Step::new(create.text(), allowed));
    let call = renamed(fixture, folder);
    let attempt = sandbox.run(&call).await?.attempt(None);
    context.record_attack(Step::new(call.text(), attempt));
    sandbox.handle().kill().await?;
    Ok(())
}
