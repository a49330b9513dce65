//! More names than the host reads.

use sandbox_core::{ExecRequest, SkipReason};

use crate::probes::prelude::*;

/// Deep paths of 3,600 bytes, so that 5,000 files exceed the list of 16 MiB.
const MAKE: &str = "set -e; mkdir -p \"$0\"; cd \"$0\"
    long=$(printf %0240d 0); for depth in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        mkdir $long; cd $long; done
    file=0; while [ $file -lt 5000 ]; do : > $file.not; file=$((file + 1)); done";

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let folder = context.fixture().export_folder();
    let output = context.output_folder()?;
    feature(context, "export from a long list", async |sandbox| {
        let few = format!("{folder}/0.txt");
        sandbox.handle().write(&few, "content").await?;
        let request = ExecRequest::shell(MAKE).arg(format!("{folder}/many"));
        let made = sandbox.handle().exec(&request).await?;
        if !made.success() {
            return Ok(Some(made.output().to_string()));
        }
        let export = sandbox.handle().export(&output).await?;
        let mut skipped = export.skipped.iter();
        let told = skipped.any(|skipped| skipped.reason == SkipReason::LimitReached);
        Ok((!told || export.artifacts.len() != 1).then(|| {
            let (artifacts, skipped) = (export.artifacts.len(), &export.skipped);
            format!("{artifacts} files; {skipped:?}")
        }))
    })
    .await;
    context.no_host_effect("no more than one file is exported");
    Ok(())
}

pub(super) fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let path = format!("{}/**/*.txt", fixture.export_folder());
    SandboxSetup::with(|policy| policy.artifact_export_paths = vec![path]).fresh()
}
