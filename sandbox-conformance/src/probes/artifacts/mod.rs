//! Exported artifacts.

use std::path::Path;
use std::time::Duration;

use sandbox_core::{Export, SkipReason};

use crate::probes::prelude::*;

mod exported_again;
mod hidden;
mod limits;
mod link;
mod long_list;
mod names;
mod output_link;
mod patterns;
mod system_folders;
mod taken_names;

pub(super) use patterns::below;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "artifacts::exported_again",
        ARTIFACT_EXPORT_PATHS,
        "exports two files, changes one, renames the other, and exports again",
        |context| Box::pin(exported_again::run(context)),
    )
    .setup(exporting),
    // Opening a FIFO would block.
    Probe::behavior(
        "artifacts::fifo",
        ARTIFACT_EXPORT_PATHS,
        "exports a FIFO, and expects an answer within 5 s",
        |context| Box::pin(fifo(context)),
    )
    .setup(exporting),
    Probe::behavior(
        "artifacts::file",
        ARTIFACT_EXPORT_PATHS,
        "exports files of 70,000 bytes and of 5 MiB, one of them from a folder that only its export \
         path names and that exists before, and compares content, size and hash",
        |context| Box::pin(file(context)),
    )
    .version(4)
    .setup(exporting_own),
    Probe::behavior(
        "artifacts::hidden",
        ARTIFACT_EXPORT_PATHS,
        "exports from a locked folder and from 70 nested ones, and expects each file or a reason",
        |context| Box::pin(hidden::run(context)),
    )
    .setup(hidden::exporting),
    Probe::behavior(
        "artifacts::limits",
        ARTIFACT_EXPORT_PATHS,
        "exports files with limits of their number and sizes that they reach exactly, and that are \
         one less and one more",
        |context| Box::pin(limits::run(context)),
    )
    .setup(|fixture| exporting_all(fixture).fresh()),
    Probe::isolation(
        "artifacts::link",
        ARTIFACT_EXPORT_PATHS,
        "exports a symbolic link to a file of the host",
        link::NOT_FOLLOWED,
        |context| Box::pin(link::run(context)),
    )
    .setup(exporting),
    Probe::behavior(
        "artifacts::long_list",
        ARTIFACT_EXPORT_PATHS,
        "makes 5,000 files whose paths have 18 MB, and expects to be told that some were not seen",
        |context| Box::pin(long_list::run(context)),
    )
    .setup(long_list::exporting),
    Probe::behavior(
        "artifacts::names",
        ARTIFACT_EXPORT_PATHS,
        "exports hidden files and files with unusual names",
        |context| Box::pin(names::run(context)),
    )
    .version(2)
    .setup(|fixture| exporting_all(fixture).fresh()),
    Probe::isolation(
        "artifacts::output_link",
        ARTIFACT_EXPORT_PATHS,
        "replaces an output folder in a write root with a link to a folder of the host",
        output_link::NOT_FOLLOWED,
        |context| Box::pin(output_link::run(context)),
    )
    .setup(output_link::exporting),
    Probe::behavior(
        "artifacts::patterns",
        ARTIFACT_EXPORT_PATHS,
        "exports by ten kinds of paths from one tree, and compares which files come out and their \
         names",
        |context| Box::pin(patterns::run(context)),
    )
    .setup(patterns::exporting),
    Probe::behavior(
        "artifacts::system_folders",
        ARTIFACT_EXPORT_PATHS,
        "runs a program in a sandbox with export paths in /etc, /bin, /lib and a missing folder \
         below /usr",
        |context| Box::pin(system_folders::run(context)),
    )
    .version(2)
    .setup(system_folders::exporting),
    Probe::behavior(
        "artifacts::taken_names",
        ARTIFACT_EXPORT_PATHS,
        "exports files whose names are taken, among them names of 255 bytes",
        |context| Box::pin(taken_names::run(context)),
    )
    .setup(|fixture| exporting_all(fixture).fresh()),
    Probe::isolation(
        "artifacts::unlisted",
        ARTIFACT_EXPORT_PATHS,
        "looks for an exported file that no export path names",
        NOT_NAMED,
        |context| Box::pin(unlisted(context)),
    )
    .setup(exporting),
];

/// A sandbox that may export text files from one folder.
fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let path = format!("{}/*.txt", fixture.export_folder());
    SandboxSetup::with(|policy| policy.artifact_export_paths = vec![path])
}

/// A folder that sandboxes have because an export path names it.
const OWN_FOLDER: &str = "/conformance/results";

/// A sandbox that may export text files from two folders.
fn exporting_own(fixture: &HostFixture) -> SandboxSetup {
    let mut setup = exporting(fixture);
    let own = format!("{OWN_FOLDER}/*.txt");
    setup.policy.artifact_export_paths.push(own);
    setup
}

/// A sandbox that may export every file below a folder.
fn exporting_all(fixture: &HostFixture) -> SandboxSetup {
    let path = format!("{}/**", fixture.export_folder());
    SandboxSetup::with(|policy| policy.artifact_export_paths = vec![path])
}

/// Both controls: `what` is created outside, and inside at `path`. `what` holds the arguments of
/// the probe program.
async fn make(context: &mut ProbeContext, path: &str, what: &[&str]) -> Result<(), ProbeError> {
    let make = |path: &std::path::Path| {
        let call = Call::new(["make"]).and(path);
        what.iter().fold(call, |call, word| call.and(word))
    };
    let own = context.outside()?.join("own");
    context.host_control(&make(&own)).await?;
    context.allow_control(&make(path.as_ref())).await;
    Ok(())
}

/// The time limit of a small export.
const CLEANUP_LIMIT: Duration = Duration::from_secs(5);

async fn fifo(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?;
    let name = format!("{}.txt", context.token());
    let path = format!("{}/{name}", context.fixture().export_folder());
    make(context, &path, &["2"]).await?;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let export = sandbox.handle().export(&output);
            match tokio::time::timeout(CLEANUP_LIMIT, export).await {
                Err(_) => Some(format!("no answer within {CLEANUP_LIMIT:?}")),
                Ok(Err(error)) => Some(error.to_string()),
                Ok(Ok(export)) => {
                    let output = export
                        .skipped
                        .iter()
                        .any(|s| s.source.ends_with(&name) && s.reason == SkipReason::SpecialFile);
                    (!output).then(|| format!("not listed as skipped: {:?}", export.skipped))
                }
            }
        })
        .await;
    context.record_attack(behavior("export a FIFO", deviation));
    context.no_host_effect("a FIFO has no content");
    Ok(())
}

/// A small file, and one larger than any buffer on its way.
const SIZES: [usize; 2] = [70_000, 5 << 20];

async fn file(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?;
    let folders = [OWN_FOLDER, &context.fixture().export_folder()];
    let name = |size: usize| format!("{}-{size}.txt", context.token());
    let names = SIZES.map(name);
    let missing = context
        .with_sandbox(async |sandbox| {
            let mut missing = None;
            for folder in folders {
                let listed = sandbox.handle().list_dir(folder).await;
                missing = missing.or(listed.err().map(|error| format!("{folder}: {error}")));
            }
            missing
        })
        .await;
    for ((name, size), folder) in names.iter().zip(SIZES).zip(folders) {
        make(
            context,
            &format!("{folder}/{name}"),
            &["0", &size.to_string()],
        )
        .await?;
    }
    let deviation = context
        .with_sandbox(async |sandbox| {
            let export = match sandbox.handle().export(&output).await {
                Ok(export) => export,
                Err(error) => return Some(error.to_string()),
            };
            let mut files = names.iter().zip(SIZES);
            files.find_map(|(name, size)| differs(&export, &output, name, size))
        })
        .await;
    let deviation = missing.and_then(|missing| Ok(missing.or(deviation?)));
    context.record_attack(behavior("export two files", deviation));
    context.no_host_effect("the attack itself compares the content");
    Ok(())
}

/// How an exported file differs from what the probe program wrote.
fn differs(export: &Export, output: &Path, name: &str, size: usize) -> Option<String> {
    let content: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    let mut artifacts = export.artifacts.iter();
    let Some(artifact) = artifacts.find(|artifact| artifact.source.ends_with(name)) else {
        return Some(format!("it was not exported: {:?}", export.skipped));
    };
    let same = std::fs::read(&artifact.path).is_ok_and(|exported| exported == content)
        && artifact.path.starts_with(output)
        && artifact.size_bytes == size as u64
        && artifact.blake3 == blake3::hash(&content).to_hex().as_str();
    (!same).then(|| format!("{artifact:?}"))
}

const NOT_NAMED: &[ExpectedDenial] = &[denied(
    "left_inside",
    "only files that an export path names are exported",
)];

async fn unlisted(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?;
    let folder = context.fixture().export_folder();
    let [named, unnamed] =
        ["txt", "private"].map(|extension| format!("{}.{extension}", context.token()));
    make(context, &format!("{folder}/{named}"), &["0", "9"]).await?;
    let make = Call::new(["make", &format!("{folder}/{unnamed}"), "0", "9"]);
    let attempt = context
        .with_sandbox(async |sandbox| {
            match sandbox.run(&make).await.map(|run| run.attempt(None)) {
                Ok(attempt) if attempt.is_success() => {}
                other => return Attempt::unclear(format!("{other:?}")),
            }
            match sandbox.handle().export(&output).await {
                Ok(_) if found_below(&output, &named).is_none() => {
                    Attempt::unclear("the named file was not exported")
                }
                Ok(_) => Attempt::leak_if(found_below(&output, &unnamed).is_some(), "left_inside"),
                Err(error) => Attempt::unclear(error.to_string()),
            }
        })
        .await;
    context.record_attack(Step::new(
        "export",
        attempt.unwrap_or_else(|declined| declined),
    ));
    context.no_host_effect("the attack checks the target folder itself");
    Ok(())
}
