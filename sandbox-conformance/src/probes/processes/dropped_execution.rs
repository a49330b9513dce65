//! An execution whose handle the caller drops.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use sandbox_core::{ExecRequest, Stdin};

use crate::probes::prelude::*;

pub(super) const GONE_WITH_IT: &[ExpectedDenial] =
    &[denied("gone", "dropping an execution kills its whole tree")];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |token: &str| Call::new(["tree", token, "5", "2500"]);
    let control_token = format!("{}-control", context.token());
    let program = context.fixture().program();
    let mut child = host::spawn(&program, &call(&control_token)).await?;
    let started = wait_for(&control_token).await?;
    child.kill().await?;
    let left = host::processes_with(&control_token)?;
    host::kill_all_with(&control_token)?;
    let failure = (!started || left.is_empty()).then(|| "nothing continues".to_owned());
    context.record_host_control(control(
        "kill the first process of a tree on the host",
        failure,
    ));
    context.allow_control(&Call::new(["alive"])).await;
    let token = format!("{}-attack", context.token());
    let attempt = context
        .with_sandbox(async |sandbox| {
            let words = call(&token);
            let arguments = words
                .arguments_for(sandbox.program().as_bytes())
                .map(OsStr::from_bytes);
            let request = ExecRequest::new(sandbox.program()).args(arguments);
            match sandbox.handle().start(&request, Stdin::Null).await {
                Ok(execution) => {
                    let started = wait_for(&token).await;
                    drop(execution);
                    match started {
                        Ok(true) => Ok(()),
                        Ok(false) => Err(Attempt::unclear("the tree did not start")),
                        Err(error) => Err(Attempt::unclear(error.to_string())),
                    }
                }
                Err(error) => Err(Attempt::unclear(error.to_string())),
            }
        })
        .await
        .unwrap_or_else(Err);
    let left = host::wait_until_gone(&token, GONE).await?;
    host::kill_all_with(&token)?;
    context.record_attack(Step::new(
        call(&token).text(),
        match attempt {
            Ok(()) => Attempt::leak_if(!left.is_empty(), "gone"),
            Err(attempt) => attempt,
        },
    ));
    context.check_host(
        "processes of the host after the execution was dropped",
        left.is_empty(),
    );
    Ok(())
}

/// Waits until the host sees the whole process tree.
async fn wait_for(token: &str) -> Result<bool, ProbeError> {
    for _ in 0..200 {
        if host::processes_with(token)?.len() > 5 {
            return Ok(true);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(false)
}
