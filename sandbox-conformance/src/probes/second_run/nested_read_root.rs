//! A read root in a write root, whose ancestor code renames for whoever comes later.

use crate::evidence::Oracle;
use crate::probes::prelude::*;
use crate::probes::scene::{DATA, FILE, INNER, Scene};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "second_run::nested_read_root",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "renames the folder around a read root that lies in a write root, and puts a file of its own where the root was",
    setting: plain,
    permitting: None,
    denials: KEPT,
    run: |stage| Box::pin(run(stage)),
};

const KEPT: &[Denial] = &[
    Denial {
        sign: "EBUSY",
        means: "the folders around the read root are mount points, which cannot be renamed",
    },
    Denial {
        sign: "EACCES",
        means: "Landlock",
    },
    Denial {
        sign: "EXDEV",
        means: "Landlock, or another mount",
    },
    Denial {
        sign: "EROFS",
        means: "read-only mount",
    },
];

/// The paths are the same inside as on the host.
fn renamed(scene: &Scene) -> Call {
    let data = scene.project.join(DATA);
    let call = Call::new(["rearrange", "rename"]).and(&data);
    let call = call.and(scene.project.join("old"));
    let call = call.and("folder").and(&data);
    let call = call.and("folder").and(data.join(INNER));
    call.and("file")
        .and(data.join(INNER).join(FILE))
        .and("attacker")
}

fn setting(scene: &Scene) -> Setting {
    Setting::with(|policy| {
        policy.filesystem_write_roots = Some(vec![scene.project.clone()]);
        policy.filesystem_read_roots = Some(vec![scene.project.join(DATA).join(INNER)]);
    })
}

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let control = Scene::build(stage, "control")?;
    stage.host_control(&renamed(&control)).await?;
    let scene = Scene::build(stage, "attack")?;
    let sandbox = match stage.once(&setting(&scene)).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            let attempt = stage.not_created(error);
            stage.attack_was(Step::new("create the sandbox", attempt));
            return Ok(());
        }
    };
    let create = Call::new(["create"]).and(scene.project.join("new"));
    let allowed = sandbox.run(&create).await?.attempt(None);
    stage.allow_control_was(Step::new(create.text(), allowed));
    let call = renamed(&scene);
    let attempt = sandbox.run(&call).await?.attempt(None);
    stage.attack_was(Step::new(call.text(), attempt));
    sandbox.handle().kill().await?;
    let inner = scene.granted(INNER);
    let same = matches!(inner.file.oracle(), Oracle::Clean { .. });
    stage.watched("the file in the read root, on the host", same);
    Ok(())
}
