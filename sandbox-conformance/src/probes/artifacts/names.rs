//! Hidden files, and unusual but valid names.

use std::collections::BTreeSet;

use sandbox_core::ExecRequest;

use crate::probes::prelude::*;

const NAMES: [&str; 10] = [
    ".hidden",
    ".hidden.d/.deep/file",
    "..two-dots",
    " -rf ",
    "*?[a-z]{b,c}",
    "back\\slash",
    "two\nlines",
    "'quoted\"",
    "%41.txt",
    "gr\u{fc}\u{df}e-\u{6587}\u{4ef6}-\u{1f980}",
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?;
    let token = context.token().to_owned();
    let folder = format!("{}/{token}", context.fixture().export_folder());
    for (index, name) in NAMES.iter().enumerate() {
        // Different sizes, so that a mistaken name shows.
        super::make(
            context,
            &format!("{folder}/{name}"),
            &["0", &index.to_string()],
        )
        .await?;
    }
    let deviation = context
        .with_sandbox(async |sandbox| {
            // A name that is no text cannot be exported, and must not be lost.
            let script = ExecRequest::shell(": > \"$0/$(printf 'no\\377text')\"");
            match sandbox.handle().exec(&script.arg(&folder)).await {
                Ok(made) if made.success() => {}
                other => return Some(format!("{other:?}")),
            }
            let export = match sandbox.handle().export(&output).await {
                Ok(export) => export,
                Err(error) => return Some(error.to_string()),
            };
            let sources = export.artifacts.iter().map(|artifact| {
                let source = artifact.source.strip_prefix(&folder).unwrap_or("");
                (source.trim_start_matches('/'), artifact.size_bytes)
            });
            let sources: BTreeSet<_> = sources.collect();
            let mut written = BTreeSet::new();
            for (name, index) in NAMES.into_iter().zip(0u64..) {
                let file = std::fs::metadata(output.join(&token).join(name));
                if file.is_ok_and(|file| file.len() == index) {
                    written.insert((name, index));
                }
            }
            let told = export.skipped.len() == 1 && export.skipped[0].source.contains("text");
            (written.len() != NAMES.len() || sources != written || !told)
                .then(|| format!("{sources:?}; written {written:?}; {:?}", export.skipped))
        })
        .await;
    context.record_attack(behavior("export every file", deviation));
    context.no_host_effect("the attack itself compares the names");
    Ok(())
}
