//! The local tier's state folder as a workspace.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::canary::Canary;
use crate::host_fixture::make_folder;
use crate::probes::prelude::*;
use crate::probes::swap::{self, LinkSwapper, WORKSPACE, refusal};
use crate::probes::swap_fixture::{DATA, FILE, SwapFixture};

/// Refusing an unchanged folder proves nothing about a swapped one. Only sandboxes created during a
/// swap do. Without protection, one in nine was hit.
const WHILE: Duration = Duration::from_secs(4);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if context.tier() != "local" {
        return Err(ProbeError::new(
            "the suite does not know this tier's state folder",
        ));
    }
    let user = rustix::process::geteuid().as_raw();
    let state = sandbox_host::state::folder(None, user);
    let (Some(parent), Some(name)) = (state.parent(), state.file_name()) else {
        return Err(ProbeError::new("the state folder has no name"));
    };
    let control_scene = SwapFixture::build(context, "control")?;
    let (folder, _) = named(&control_scene, name.as_ref())?;
    // The folder exists once a sandbox was created.
    if !context
        .allow_control(&Call::new(["alive"]))
        .await
        .is_success()
    {
        return Ok(());
    }
    let swapper = swap::process(context, &control_scene.project, parent).await?;
    let read = Call::new(["read"]).and(folder.join(FILE));
    let program = context.fixture().program();
    let mut led_away = false;
    for _ in 0..1000 {
        led_away = !host::run(&program, &read).await?.attempt(None).is_success();
        if led_away {
            break;
        }
    }
    drop(swapper);
    let failure = (!led_away).then(|| "the file never disappeared".to_owned());
    context.record_host_control(control("use the folder on the host meanwhile", failure));

    let fixture = SwapFixture::build(context, "attack")?;
    let (folder, file) = named(&fixture, name.as_ref())?;
    let setup = SandboxSetup::default().workspace(&folder);
    let attempt = match LinkSwapper::start(context, &fixture.project, parent).await? {
        Err(attempt) => attempt,
        Ok(swapper) => {
            let attempt = repeated(context, &setup, &fixture, &file).await;
            swapper.end().await?;
            attempt?
        }
    };
    context.record_attack(Step::new("create sandboxes meanwhile", attempt));
    context.no_host_effect("the attack checks which folder the sandbox was given");
    Ok(())
}

/// A folder of this name below the swapped one, with a file in it.
fn named(fixture: &SwapFixture, name: &Path) -> Result<(std::path::PathBuf, Canary), ProbeError> {
    let folder = fixture.project.join(DATA).join(name);
    make_folder(&folder)?;
    let file = Canary::plant(&folder.join(FILE), 0o644)?;
    Ok((folder, file))
}

async fn repeated(
    context: &mut ProbeContext,
    setup: &SandboxSetup,
    fixture: &SwapFixture,
    file: &Canary,
) -> Result<Attempt, ProbeError> {
    let mut signs = Vec::new();
    let (start, least) = (Instant::now(), context.creations());
    for number in (0..).take_while(|number| *number < least || start.elapsed() < WHILE) {
        let sandbox = match context.once(setup).await {
            Ok(sandbox) => sandbox,
            Err(error) => match refusal(&error, &fixture.project.join(DATA)) {
                Attempt::Blocked { signature } => {
                    signs.extend(signature);
                    continue;
                }
                other => return Ok(other),
            },
        };
        let read = Call::new(["read"]).and(Path::new(WORKSPACE).join(FILE));
        let right = sandbox.run(&read).await?.attempt(Some(&file.fingerprint()));
        sandbox.handle().kill().await?;
        if !right.is_success() {
            let value = format!("creation {number} was given another folder: {right:?}");
            return Ok(Attempt::Succeeded { value });
        }
        signs.push("other_content".to_owned());
    }
    Ok(Attempt::blocked(signs))
}
