//! The limits of a copy out of the sandbox.

use sandbox_core::{ArtifactLimits, SkipReason};

use crate::probes::prelude::*;

/// Files of one size in one folder. The folder counts as well.
const FILES: u64 = 3;
const SIZE: u64 = 5000;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let output = context.output_folder()?;
    let inside = context.inside("limited");
    feature(context, "copy at each limit", async |sandbox| {
        let sandbox = sandbox.handle();
        for number in 0..FILES {
            let content = vec![b'x'; SIZE as usize];
            sandbox
                .write(&format!("{inside}/{number}"), content)
                .await?;
        }
        for difference in [-1, 0, 1] {
            for (number, (limits, files, skipped)) in cases(difference).into_iter().enumerate() {
                let target = output.join(format!("{difference}-{number}"));
                let copied = sandbox.copy_out_with(&inside, &target, limits).await?;
                let found = std::fs::read_dir(&target).map_or(0, Iterator::count) as u64;
                let mut reasons = copied.skipped.iter().map(|skipped| &skipped.reason);
                let right = found == files
                    && copied.files == files
                    && copied.bytes == files * SIZE
                    && copied.skipped.len() as u64 == FILES - files
                    && reasons.all(|reason| *reason == skipped);
                if !right {
                    return Ok(Some(format!("{found} files, {copied:?} with {limits:?}")));
                }
            }
        }
        Ok(None)
    })
    .await;
    context.no_host_effect("the attack itself counts the files");
    Ok(())
}

/// Limits that differ from what the copy needs by this, how many files they let through, and why
/// the others are skipped.
fn cases(difference: i64) -> [(ArtifactLimits, u64, SkipReason); 3] {
    let with = |change: &dyn Fn(&mut ArtifactLimits)| {
        let mut limits = ArtifactLimits::default();
        change(&mut limits);
        limits
    };
    let by = |value: u64| value.saturating_add_signed(difference);
    let one_less = if difference < 0 { FILES - 1 } else { FILES };
    let too_large = SkipReason::TooLarge { size_bytes: SIZE };
    let none = if difference < 0 { 0 } else { FILES };
    [
        (
            with(&|limits| limits.count = by(FILES + 1) as usize),
            one_less,
            SkipReason::LimitReached,
        ),
        (
            with(&|limits| limits.total_size = ByteSize::bytes(by(FILES * SIZE))),
            one_less,
            SkipReason::LimitReached,
        ),
        (
            with(&|limits| limits.file_size = ByteSize::bytes(by(SIZE))),
            none,
            too_large,
        ),
    ]
}
