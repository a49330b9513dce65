//! The host user of another sandbox's code.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::probes::prelude::*;

/// The host user of a process, and its user namespace.
type UserIds = (u32, u64);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !rustix::process::geteuid().is_root() {
        return Err(ProbeError::new(
            "only root can give sandboxes different host users",
        ));
    }
    let sleep = |token: &str| Call::new(["sleep", token, "5000"]);
    let name = |place: &str| format!("{}-{place}", context.token());
    let (host_token, own_token, other_token) = (name("control"), name("own"), name("other"));
    let child = host::spawn(&context.fixture().program(), &sleep(&host_token)).await?;
    let suite = user(&host_token).await?;
    drop(child);
    let failure = suite
        .is_none()
        .then(|| "the host's process was not seen".to_owned());
    context.record_host_control(control("read the user of a process of the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let users = context
        .with_neighbors(async |own, neighbor| {
            let request =
                |sandbox: &crate::pool::ProbeSandbox, token: &str| sandbox.request(&sleep(token));
            let stdin = || sandbox_core::Stdin::Null;
            // Dropping them ends the processes.
            let first = own.handle().start(&request(own, &own_token), stdin()).await;
            let second = neighbor
                .handle()
                .start(&request(neighbor, &other_token), stdin())
                .await;
            let users = (user(&own_token).await, user(&other_token).await);
            (first.and(second).map(drop), users)
        })
        .await;
    let deviation = match users {
        Err(declined) => Err(declined),
        Ok((started, (own, other))) => match (started, own?, other?) {
            (Err(error), ..) => Err(Attempt::unclear(error.to_string())),
            (Ok(()), Some(own), Some(other)) => {
                let in_host = |user: UserIds| suite.is_some_and(|suite| suite.1 == user.1);
                if own.0 == other.0 && in_host(own) && in_host(other) {
                    return Err(ProbeError::new(format!(
                        "the tier has no users of its own: both are {} in the host's user \
                         namespace",
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
    context.record_attack(behavior("compare the users of two sandboxes", deviation));
    context.no_host_effect("the host is where the users are compared");
    Ok(())
}

/// The host user of the process with this token.
async fn user(token: &str) -> Result<Option<UserIds>, ProbeError> {
    for _ in 0..100 {
        for pid in host::processes_with(token)? {
            let process = std::path::Path::new("/proc").join(pid.to_string());
            // The process may have ended.
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
