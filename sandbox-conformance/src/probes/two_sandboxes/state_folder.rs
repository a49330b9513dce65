//! The local tier's own folder, in the place of a workspace.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::canary::Canary;
use crate::grounds::make_folder;
use crate::probes::prelude::*;
use crate::probes::scene::{DATA, FILE, Scene};
use crate::probes::swap::{self, Flipper, WORKSPACE, refusal};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "two_sandboxes::state_folder",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "exchanges a workspace and the folder with the keys of other sandboxes, which every sandbox refuses, while another one is created",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(run(stage)),
};

/// That a folder is refused by what it is shows nothing of the time after: only a sandbox that was made in between does. One in nine
/// was, without protection.
const WHILE: Duration = Duration::from_secs(4);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    if stage.tier() != "local" {
        return Err(Trouble::new(
            "the tier keeps no such folder that this suite knows",
        ));
    }
    let user = rustix::process::geteuid().as_raw();
    let state = sandbox_host::state::folder(None, user);
    let (Some(parent), Some(name)) = (state.parent(), state.file_name()) else {
        return Err(Trouble::new("the state folder has no name"));
    };
    let control_scene = Scene::build(stage, "control")?;
    let (folder, _) = named(&control_scene, name.as_ref())?;
    // It is there once a sandbox was.
    if !stage
        .allow_control(&Call::new(["alive"]))
        .await
        .is_success()
    {
        return Ok(());
    }
    let flipper = swap::process(stage, &control_scene.project, parent)?;
    let read = Call::new(["read"]).and(folder.join(FILE));
    let program = stage.grounds().program();
    let mut led_away = false;
    for _ in 0..1000 {
        led_away = !host::run(&program, &read).await?.attempt(None).is_success();
        if led_away {
            break;
        }
    }
    drop(flipper);
    let failure = (!led_away).then(|| "the file was always there".to_owned());
    stage.host_control_was(control("use the folder on the host meanwhile", failure));

    let scene = Scene::build(stage, "attack")?;
    let (folder, file) = named(&scene, name.as_ref())?;
    let setting = Setting::default().workspace(&folder);
    let attempt = match Flipper::start(stage, &scene.project, parent).await? {
        Err(attempt) => attempt,
        Ok(flipper) => {
            let attempt = repeated(stage, &setting, &scene, &file).await;
            flipper.end().await?;
            attempt?
        }
    };
    stage.attack_was(Step::new("create sandboxes meanwhile", attempt));
    stage.nothing_to_watch("what the sandbox was given is the test");
    Ok(())
}

/// A folder of this name below the one that changes, and a file in it.
fn named(scene: &Scene, name: &Path) -> Result<(std::path::PathBuf, Canary), Trouble> {
    let folder = scene.project.join(DATA).join(name);
    make_folder(&folder)?;
    let file = Canary::plant(&folder.join(FILE), 0o644)?;
    Ok((folder, file))
}

async fn repeated(
    stage: &mut Stage,
    setting: &Setting,
    scene: &Scene,
    file: &Canary,
) -> Result<Attempt, Trouble> {
    let mut signs = Vec::new();
    let (start, least) = (Instant::now(), stage.creations());
    for number in (0..).take_while(|number| *number < least || start.elapsed() < WHILE) {
        let sandbox = match stage.once(setting).await {
            Ok(sandbox) => sandbox,
            Err(error) => match refusal(&error, &scene.project.join(DATA)) {
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
