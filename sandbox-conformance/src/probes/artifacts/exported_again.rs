//! A second export from the same sandbox.

use std::path::Path;

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.fixture().export_folder();
    let [changed, renamed] =
        ["changed", "renamed"].map(|word| format!("{}-{word}.txt", context.token()));
    let output = context.output_folder()?;
    let inside = |name: &str| format!("{folder}/{name}");
    let make = |name: &str, length: &str| Call::new(["make", &inside(name), "0", length]);
    super::make(context, &inside(&renamed), &["0", "9"]).await?;
    let rename = Call::new([
        "rename",
        &inside(&renamed),
        &inside(&format!("{renamed}-not")),
    ]);
    let (before, after) = ([make(&changed, "9")], [make(&changed, "70000"), rename]);
    let names = [changed.as_str(), renamed.as_str()];
    let deviation = context
        .with_sandbox(async |sandbox| {
            let first = exported(sandbox, &before, &output.join("first"), names).await;
            let second = exported(sandbox, &after, &output.join("second"), names).await;
            let right = (Ok([Some(9), Some(9)]), Ok([Some(70_000), None]));
            (right != (first.clone(), second.clone()))
                .then(|| format!("{first:?}, then {second:?}"))
        })
        .await;
    context.record_attack(behavior("export again", deviation));
    context.no_host_effect("the attack itself compares the content");
    Ok(())
}

/// Runs the calls, exports, and returns the lengths of the exported files with these names.
async fn exported(
    sandbox: &ProbeSandbox,
    calls: &[Call],
    output: &Path,
    names: [&str; 2],
) -> Result<[Option<u64>; 2], String> {
    for call in calls {
        let run = sandbox.run(call).await.map_err(|error| error.to_string())?;
        let attempt = run.attempt(None);
        if !attempt.is_success() {
            return Err(format!("{}: {attempt:?}", call.text()));
        }
    }
    crate::host_fixture::make_folder(output).map_err(|error| error.to_string())?;
    let export = sandbox.handle().export(output).await;
    export.map_err(|error| error.to_string())?;
    let length = |name| {
        let file = std::fs::metadata(found_below(output, name)?);
        file.ok().map(|file| file.len())
    };
    Ok(names.map(length))
}
