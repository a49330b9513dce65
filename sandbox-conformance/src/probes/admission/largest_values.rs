//! The largest values of limits that no kernel has to take.

use std::time::Duration;

use sandbox_core::{ErrorKind, SandboxHandle};

use crate::probes::prelude::*;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let setup = SandboxSetup::with(|policy| {
        (policy.timeout, policy.file_timeout) = (Some(Duration::MAX), Some(Duration::MAX));
        let most = Some(ByteSize::bytes(u64::MAX));
        (policy.stdout_max_bytes, policy.stderr_max_bytes) = (most, most);
    });
    let path = context.inside("file");
    let deviation = match context.once(&setup).await {
        // No document names a largest value.
        Err(error) if error.kind() == ErrorKind::InvalidPolicy => Ok(None),
        Err(error) => Err(context.record_create_error(error)),
        Ok(sandbox) => {
            let request = sandbox.request(&Call::new(["alive"]));
            let used = used(sandbox.handle(), &request.timeout(Duration::MAX), &path).await;
            sandbox.handle().kill().await?;
            used.map_err(|error| Attempt::unclear(error.to_string()))
        }
    };
    context.record_attack(behavior("execute and write", deviation));
    context.no_host_effect("the limits are the sandbox's own");
    Ok(())
}

async fn used(
    sandbox: &SandboxHandle,
    request: &sandbox_core::ExecRequest,
    path: &str,
) -> Deviation {
    let result = sandbox.exec(request).await?;
    if result.stdout_text() != "result=ok\n" {
        return Ok(Some(format!("{}: {}", result.outcome, result.output())));
    }
    sandbox.write(path, *b"content").await?;
    let content = sandbox.read(path).await?;
    Ok((content != b"content").then(|| format!("{content:?} was read")))
}
