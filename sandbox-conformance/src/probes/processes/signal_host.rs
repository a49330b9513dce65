//! A signal to a process of the host.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "processes::signal_host",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "sends SIGTERM to a process of the host",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_PROCESS,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let sleep = Call::new(["sleep", stage.token(), "20000"]);
    let program = stage.grounds().program();
    let target = host::spawn(&program, &sleep)?;
    let mut victim = host::spawn(&program, &sleep)?;
    let signal = |child: &tokio::process::Child| {
        let pid = child
            .id()
            .ok_or_else(|| Trouble::new("the process has ended by itself"))?;
        Ok::<_, Trouble>(Call::new(["signal", &pid.to_string()]))
    };
    stage.host_control(&signal(&target)?).await?;
    stage.allow_control(&Call::new(["signal-child"])).await;
    stage.attack(&signal(&victim)?).await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    stage.watched(
        "the host's process still runs",
        victim.try_wait()?.is_none(),
    );
    Ok(())
}
