//! Files that the list of an export does not reach.

use sandbox_core::{ExecRequest, SkipReason};

use crate::probes::prelude::*;

/// A file in a locked folder, and a file in more folders than a list goes down.
const MAKE: &str = "set -e; mkdir -p \"$0\"; cd \"$0\"; : > near.txt
    mkdir locked; : > locked/inner.txt; chmod 0 locked
    depth=0; while [ $depth -lt 70 ]; do mkdir d; cd d; depth=$((depth + 1)); done; : > deep.txt";

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let folder = context.fixture().export_folder();
    let output = context.output_folder()?;
    feature(
        context,
        "export what a list does not reach",
        async |sandbox| {
            let request = ExecRequest::shell(MAKE).arg(format!("{folder}/tree"));
            let made = sandbox.handle().exec(&request).await?;
            if !made.success() {
                return Ok(Some(made.output().to_string()));
            }
            let export = sandbox.handle().export(&output).await?;
            let is_exported = |name: &str| found_below(&output, name).is_some();
            // An agent that may read everything can export it instead.
            let is_told = |name: &str, wanted: fn(&SkipReason) -> bool| {
                let mut skipped = export.skipped.iter();
                is_exported(name) || skipped.any(|skipped| wanted(&skipped.reason))
            };
            let is_complete = is_exported("near.txt")
                && is_told("inner.txt", |reason| {
                    matches!(reason, SkipReason::Unreadable { .. })
                })
                && is_told("deep.txt", |reason| *reason == SkipReason::TooDeep);
            Ok((!is_complete).then(|| format!("{:?}; {:?}", export.artifacts, export.skipped)))
        },
    )
    .await;
    context.no_host_effect("the attack itself looks for the files");
    Ok(())
}

pub(super) fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let path = format!("{}/**/*.txt", fixture.export_folder());
    SandboxSetup::with(|policy| policy.artifact_export_paths = vec![path]).fresh()
}
