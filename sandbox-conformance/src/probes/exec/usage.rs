//! The reported processor time and memory.

use std::time::Duration;

use crate::probes::prelude::*;
use crate::program::Run;

/// Milliseconds of processor time and MiB of memory, different enough that a factor shows.
const BURNS: [(u64, u64); 2] = [(300, 8), (1200, 96)];

/// What the supervisor's own work may add, and what the kernel counts less precisely.
const MORE_TIME: Duration = Duration::from_millis(500);
const MORE_MEMORY: u64 = 16 << 20;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = |(milliseconds, mib): (u64, u64)| {
        Call::new(["burn", &milliseconds.to_string(), &mib.to_string()])
    };
    context.host_control(&call(BURNS[0])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let mut deviation = Ok(None);
    for burn in BURNS {
        let result = match context.execute(&call(burn)).await {
            Ok(result) => result,
            Err(attempt) => {
                deviation = Err(attempt);
                break;
            }
        };
        let (Some(time), Some(memory)) = (result.cpu_time, result.max_rss) else {
            context.not_offered("the backend does not report processor time and memory");
            break;
        };
        let Some((counted, resident)) = counted(&Run::from(result)) else {
            deviation = Err(Attempt::unclear("the program did not report its usage"));
            break;
        };
        let right = (counted..=counted + MORE_TIME).contains(&time)
            && (resident..=resident + MORE_MEMORY).contains(&memory)
            && resident >= burn.1 << 20;
        if !right {
            let found = format!("{time:?} and {memory} bytes, not {counted:?} and {resident}");
            deviation = Ok(Some(found));
            break;
        }
    }
    context.record_attack(behavior("use processor time and memory", deviation));
    context.no_host_effect("the report does not affect the host");
    Ok(())
}

/// The processor time and the bytes that the kernel reported to the program itself.
fn counted(run: &Run) -> Option<(Duration, u64)> {
    let Attempt::Succeeded { value } = run.attempt(None) else {
        return None;
    };
    let (time, kib) = value.split_once(',')?;
    let time = Duration::from_micros(time.parse().ok()?);
    Some((time, kib.parse::<u64>().ok()?.checked_mul(1024)?))
}
