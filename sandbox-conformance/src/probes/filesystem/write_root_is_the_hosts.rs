//! What is written in a write root is on the host.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::write_root_is_the_hosts",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Behavior,
    summary: "writes in a write root and looks for it on the host",
    setting: rooted,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let root = stage.grounds().write_root();
    let [control_file, file] =
        ["control", "file"].map(|name| root.join(format!("{}-{name}", stage.token())));
    let make = |path: &std::path::Path| Call::new(["make"]).and(path).and("0").and("1000");
    stage.host_control(&make(&control_file)).await?;
    if !stage.allow_control(&make(&file)).await.is_success() {
        // What was not written cannot be compared.
        return Ok(());
    }
    let read = Call::new(["read"]).and(&file);
    let written = stage.execute(&read).await.map(|_| {
        let same = std::fs::read(&file).ok() == std::fs::read(&control_file).ok();
        (!same).then(|| "the host's file is not what was written".to_owned())
    });
    stage.attack_was(behavior(
        "write in the write root, read on the host",
        written,
    ));
    stage.nothing_to_watch("the comparison is the test");
    Ok(())
}
