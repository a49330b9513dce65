//! Where a secret is while its execution runs.

use sandbox_core::Stdin;

use super::SECRETS;
use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let token = context.token().to_owned();
    feature(context, "look for secrets", async |sandbox| {
        looked_for(sandbox, &token).await
    })
    .await;
    context.no_host_effect("the attack only looks");
    Ok(())
}

async fn looked_for(sandbox: &ProbeSandbox, token: &str) -> Deviation {
    let handle = sandbox.handle();
    let values =
        ["variable", "kept"].map(|word| format!("{}-{word}", crate::host_fixture::random_name()));
    // The path goes to a file that can be read while the program sleeps.
    let told = format!("/tmp/{token}-told");
    let script = format!(
        "echo $PROBE_KEPT_FILE > {told}.new; mv {told}.new {told}; exec sleep 60 # {token}"
    );
    let request = sandbox_core::ExecRequest::shell(script)
        .secret(SECRETS[0], values[0].clone())
        .secret_file(SECRETS[1], values[1].clone());
    let printed = format!("{request:?}");
    let mut execution = handle.start(&request, Stdin::Null).await?;
    let mut path = String::new();
    for _ in 0..200 {
        if let Ok(bytes) = handle.read(&told).await {
            path = String::from_utf8_lossy(&bytes).trim().to_owned();
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let content = handle.read(&path).await;
    // Another machine's processes show nothing here.
    let mut shown = Vec::new();
    for value in &values {
        let seen = host::processes_with(value);
        let seen = seen.map_err(|error| {
            sandbox_core::Error::new(
                sandbox_core::ErrorKind::Io,
                "list processes",
                error.to_string(),
            )
        })?;
        shown.extend(seen);
    }
    let printed = format!("{printed} {execution:?} {handle:?}");
    execution.kill().await;
    execution.wait().await?;
    let is_left = handle.exists(&path).await?;
    Ok(if !path.starts_with("/dev/shm/") {
        Some(format!("the file is {path:?}"))
    } else if content.is_ok_and(|content| content != values[1].as_bytes()) {
        Some("the file has another content".to_owned())
    } else if !shown.is_empty() {
        Some("an argument of a process has it".to_owned())
    } else if values.iter().any(|value| printed.contains(value)) {
        Some("the library prints it".to_owned())
    } else {
        is_left.then(|| "the file is left".to_owned())
    })
}
