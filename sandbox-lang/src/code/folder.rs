//! Folders of code in a sandbox.

use std::time::Duration;

use sandbox_core::{ExecRequest, SandboxHandle};

/// How long removing a folder may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Removes a folder of this library. What cannot be removed ends with the sandbox.
pub(super) async fn remove(sandbox: &SandboxHandle, folder: &str) {
    let request = ExecRequest::new("rm").args(["-rf", "--", folder]);
    let removed = sandbox.exec(&request.timeout(LIMIT).log(false)).await;
    match removed {
        Ok(result) if result.success() => {}
        Ok(result) => tracing::warn!(folder, outcome = %result.outcome, "a folder of code stays"),
        Err(error) => tracing::warn!(folder, %error, "a folder of code stays"),
    }
}
