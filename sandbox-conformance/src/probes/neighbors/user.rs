//! The user that another sandbox's code is on the host.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "neighbors::user",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Behavior,
    summary: "wants two sandboxes to be two users on the host",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

/// The user of a process, and its user namespace.
type User = (u32, u64);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::new(
            "only root has more than one user of the host to give to sandboxes",
        ));
    }
    let sleep = |token: &str| Call::new(["sleep", token, "5000"]);
    let name = |place: &str| format!("{}-{place}", stage.token());
    let (host_token, own_token, other_token) = (name("control"), name("own"), name("other"));
    let child = host::spawn(&stage.grounds().program(), &sleep(&host_token))?;
    let suite = user(&host_token).await?;
    drop(child);
    let failure = suite
        .is_none()
        .then(|| "the host's process was not seen".to_owned());
    stage.host_control_was(control("see the user of a process of the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let users = stage
        .with_neighbors(async |own, neighbor| {
            let request =
                |sandbox: &crate::pool::Sandbox, token: &str| sandbox.request(&sleep(token));
            let stdin = || sandbox_core::Stdin::Null;
            // Dropping them ends them.
            let first = own.handle().start(&request(own, &own_token), stdin()).await;
            let second = neighbor
                .handle()
                .start(&request(neighbor, &other_token), stdin())
                .await;
            let users = (user(&own_token).await, user(&other_token).await);
            (first.and(second).map(drop), users)
        })
        .await;
    let told = match users {
        Err(declined) => Err(declined),
        Ok((started, (own, other))) => match (started, own?, other?) {
            (Err(error), ..) => Err(Attempt::unclear(error.to_string())),
            (Ok(()), Some(own), Some(other)) => {
                let in_host = |user: User| suite.is_some_and(|suite| suite.1 == user.1);
                if own.0 == other.0 && in_host(own) && in_host(other) {
                    return Err(Trouble::new(format!(
                        "the tier has no users of its own: both are {} in the host's user namespace",
                        own.0
                    )));
                }
                Ok((own.0 == other.0).then(|| format!("both are user {} of the host", own.0)))
            }
            (Ok(()), ..) => Err(Attempt::unclear(
                "a sandbox's process was never seen on the host",
            )),
        },
    };
    stage.attack_was(behavior("compare the users of two sandboxes", told));
    stage.nothing_to_watch("the host is where the users are compared");
    Ok(())
}

/// What the host knows of the process with this token, once it is there.
async fn user(token: &str) -> Result<Option<User>, Trouble> {
    for _ in 0..100 {
        for pid in host::processes_with(token)? {
            let process = std::path::Path::new("/proc").join(pid.to_string());
            // A process that ended meanwhile has neither.
            if let (Ok(owner), Ok(namespace)) = (
                std::fs::metadata(&process),
                std::fs::metadata(process.join("ns/user")),
            ) {
                return Ok(Some((owner.uid(), namespace.ino())));
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(None)
}
