//! Export paths in folders of the system.

use sandbox_core::ExecRequest;

use crate::probes::prelude::*;

/// The last folder exists on no host.
const PATHS: [&str; 4] = [
    "/etc/*.none",
    "/bin/*.none",
    "/lib/*.none",
    "/usr/conformance/*.none",
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(
        context,
        "use the system below export paths",
        async |sandbox| {
            // The shell itself is in `/bin`, and its loader below `/lib`.
            let request = ExecRequest::shell("grep -q . /etc/passwd");
            let result = sandbox.handle().exec(&request).await?;
            Ok((!result.success()).then(|| format!("{}: {}", result.outcome, result.output())))
        },
    )
    .await;
    context.no_host_effect("nothing is exported");
    Ok(())
}

pub(super) fn exporting(_: &HostFixture) -> SandboxSetup {
    let paths = PATHS.map(str::to_owned).to_vec();
    SandboxSetup::with(|policy| policy.artifact_export_paths = paths)
}
