//! The number and the sizes of exported files.

use std::path::Path;

use sandbox_core::{ArtifactLimits, SandboxHandle, SkipReason};

use crate::probes::prelude::*;

/// The size of each file.
const SIZE: u64 = 5000;
const COUNT: usize = 4;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?;
    let folder = context.fixture().export_folder();
    for number in 0..COUNT {
        let path = format!("{folder}/{}-{number}.txt", context.token());
        super::make(context, &path, &["0", &SIZE.to_string()]).await?;
    }
    let deviation = context
        .with_sandbox(async |sandbox| {
            for (number, case) in cases().iter().enumerate() {
                let output = output.join(number.to_string());
                if let Some(deviation) = case.differs(sandbox.handle(), &output).await {
                    return Some(deviation);
                }
            }
            None
        })
        .await;
    context.record_attack(behavior("export at each limit", deviation));
    context.no_host_effect("the attack itself counts the files");
    Ok(())
}

/// Limits, and how many files they let through.
struct LimitCase {
    limits: ArtifactLimits,
    exported: usize,
    /// The reason for each of the others.
    skipped: SkipReason,
}

/// One of the three limits with the exact value, one less and one more.
fn cases() -> Vec<LimitCase> {
    let total = SIZE * COUNT as u64;
    let with = |change: &dyn Fn(&mut ArtifactLimits)| {
        let mut limits = ArtifactLimits::default();
        change(&mut limits);
        limits
    };
    let mut cases = Vec::new();
    for (difference, exported) in [(-1, COUNT - 1), (0, COUNT), (1, COUNT)] {
        let by = |value: u64| ByteSize::bytes(value.saturating_add_signed(difference));
        let count = exported.max(COUNT.saturating_add_signed(difference as isize));
        let too_large = SkipReason::TooLarge { size_bytes: SIZE };
        let cases_of_difference = [
            (with(&|limits| limits.count = count), exported, None),
            (
                with(&|limits| limits.total_size = by(total)),
                exported,
                None,
            ),
            (
                with(&|limits| limits.file_size = by(SIZE)),
                if difference < 0 { 0 } else { COUNT },
                Some(too_large),
            ),
        ];
        cases.extend(
            cases_of_difference.map(|(limits, exported, skipped)| LimitCase {
                limits,
                exported,
                skipped: skipped.unwrap_or(SkipReason::LimitReached),
            }),
        );
    }
    cases
}

impl LimitCase {
    async fn differs(&self, sandbox: &SandboxHandle, output: &Path) -> Option<String> {
        let limits = self.limits;
        if let Err(error) = crate::host_fixture::make_folder(output) {
            return Some(error.to_string());
        }
        let export = match sandbox.export_with(output, limits).await {
            Ok(export) => export,
            Err(error) => return Some(format!("{limits:?}: {error}")),
        };
        let written = std::fs::read_dir(output).map_or(0, Iterator::count);
        let skipped = export.skipped.iter();
        let right = export.artifacts.len() == self.exported
            && written == self.exported
            && export.skipped.len() == COUNT - self.exported
            && skipped
                .map(|skipped| &skipped.reason)
                .all(|reason| *reason == self.skipped);
        (!right).then(|| format!("{written} files with {limits:?}, not {}", self.exported))
    }
}
