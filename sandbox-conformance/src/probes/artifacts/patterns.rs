//! Which files an export path names, and what they are called outside.

use std::collections::BTreeSet;
use std::path::Path;

use sandbox_core::{ExecRequest, SkipReason};

use crate::probes::prelude::*;

/// An export path below the export folder, files below it, and the names of those it exports.
type PatternCase = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const CASES: &[PatternCase] = &[
    (
        "1/*.txt",
        &["1/a.txt", "1/a.png", "1/s/b.txt", "1/.c.txt"],
        &["a.txt", ".c.txt"],
    ),
    (
        "2/*/x",
        &["2/x", "2/s/x", "2/t/x", "2/s/y", "2/s/u/x"],
        &["s/x", "t/x"],
    ),
    (
        "3/**/*.png",
        &["3/v.png", "3/s/t/b.png", "3/s/c.txt"],
        &["v.png", "s/t/b.png"],
    ),
    (
        "4/?.{txt,md}",
        &["4/z.txt", "4/y.md", "4/yz.md", "4/c.rs"],
        &["z.txt", "y.md"],
    ),
    ("5/[a-c]*", &["5/a1", "5/c", "5/d", "5/B"], &["a1", "c"]),
    // A folder and a file that are named themselves keep their own name.
    ("6", &["6/f", "6/s/f"], &["6/f", "6/s/f"]),
    ("7/s/", &["7/s/g", "7/h"], &["s/g"]),
    ("8/one", &["8/one", "8/one.txt"], &["one"]),
    (
        "9/*/s/**",
        &["9/a/s/f", "9/a/s/t/f", "9/a/f"],
        &["a/s/f", "a/s/t/f"],
    ),
    // Each file once, by the first path that names it.
    ("1/a.*", &[], &["a.png"]),
];

/// Export paths that name nothing, which is said.
const MISSING: [&str; 2] = ["10/none", "1/*.none"];

pub(super) fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let paths = CASES.iter().map(|case| case.0).chain(MISSING);
    let paths = paths.map(|path| format!("{}/{path}", fixture.export_folder()));
    let paths = paths.collect();
    SandboxSetup::with(|policy| policy.artifact_export_paths = paths).fresh()
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let folder = context.fixture().export_folder();
    let output = context.output_folder()?;
    feature(context, "export each path", async |sandbox| {
        let files = CASES.iter().flat_map(|case| case.1);
        let files = files.map(|file| format!("{folder}/{file}"));
        // A locked folder is skipped only if something in it could have matched.
        let script = "for file; do mkdir -p \"${file%/*}\" && : > \"$file\" || exit; done
            mkdir -m 0 \"$0/1/z\"";
        let request = ExecRequest::shell(script).arg(&folder).args(files);
        let made = sandbox.handle().exec(&request).await?;
        if !made.success() {
            return Ok(Some(made.output().to_string()));
        }
        let export = sandbox.handle().export(&output).await?;
        let mut skipped = export.skipped.iter();
        let told = export.skipped.len() == MISSING.len()
            && skipped.all(|skipped| skipped.reason == SkipReason::Missing);
        let names = CASES.iter().flat_map(|case| case.2).copied();
        let wanted: BTreeSet<_> = names.map(str::to_owned).collect();
        let found = below(&output);
        let exact = export.artifacts.len() == wanted.len() && found == wanted;
        Ok((!exact || !told).then(|| {
            let wrong: Vec<_> = found.symmetric_difference(&wanted).collect();
            format!("{wrong:?}; {:?}", export.skipped)
        }))
    })
    .await;
    context.no_host_effect("the attack itself compares the names");
    Ok(())
}

/// The paths of the files below a folder.
pub(in crate::probes) fn below(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                let inner = below(&entry.path());
                found.extend(inner.iter().map(|inner| format!("{name}/{inner}")));
            }
            _ => drop(found.insert(name)),
        }
    }
    found
}
