//! A symbolic link among the artifacts.

use sandbox_core::SkipReason;

use crate::probes::prelude::*;

pub(super) const NOT_FOLLOWED: &[ExpectedDenial] = &[denied("skipped", "links are not followed")];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o644)?;
    let output = context.output_folder()?;
    let own = context.outside()?.join("own.txt");
    std::os::unix::fs::symlink(canary.path(), &own)?;
    context
        .host_control(&Call::new(["read"]).and(&own).expect(canary.fingerprint()))
        .await?;
    let name = format!("{}.txt", context.token());
    let path = format!("{}/{name}", context.fixture().export_folder());
    context
        .allow_control(&Call::new(["make", &path, "1"]).and(canary.path()))
        .await;
    let attempt = context
        .with_sandbox(
            async |sandbox| match sandbox.handle().export(&output).await {
                Err(error) => Attempt::blocked([format!("error:{}", error.kind().as_str())]),
                Ok(export) => {
                    let skipped = export
                        .skipped
                        .iter()
                        .any(|s| s.source.ends_with(&name) && s.reason == SkipReason::Symlink);
                    let leaked = found_below(&output, &name)
                        .and_then(|file| std::fs::read(file).ok())
                        .is_some_and(|content| content == canary.content());
                    let sign = if skipped {
                        "skipped"
                    } else {
                        "silently_left_out"
                    };
                    Attempt::leak_if(leaked, sign)
                }
            },
        )
        .await;
    context.record_attack(Step::new(
        "export a link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    context.host_check(canary.host_check());
    Ok(())
}
