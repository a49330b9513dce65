//! One call of a tool: its progress, its cancellation, its time limit.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use sandbox::{Error, ErrorKind, Result};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Time between two progress notifications: clients abort calls that stay silent for long.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(3);

/// Does the work of a call. Cancelling the call, and the end of the connection, drop the work, which
/// ends its processes. So does `limit`.
pub async fn supervise<T>(
    context: &RequestContext<RoleServer>,
    limit: Duration,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        () = context.ct.cancelled() => {
            Err(Error::new(ErrorKind::InvalidRequest, "call tool", "the client cancelled the call"))
        }
        result = work => result,
        () = tokio::time::sleep(limit) => {
            let context = format!("the call did not end within {limit:?}");
            Err(Error::new(ErrorKind::Io, "call tool", context))
        }
        never = report_progress(context, limit) => match never {},
    }
}

/// Reports the elapsed seconds, if the client asked for it.
async fn report_progress(
    context: &RequestContext<RoleServer>,
    limit: Duration,
) -> std::convert::Infallible {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let start = Instant::now();
    let mut ticks = interval_at(start + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let elapsed = start.elapsed().as_secs();
        let message = format!("{elapsed} s of at most {} s", limit.as_secs());
        // As floating-point numbers, which is what the protocol has.
        let (done, total) = (start.elapsed().as_secs_f64(), limit.as_secs_f64());
        let progress = ProgressNotificationParam::new(token.clone(), done)
            .with_total(total)
            .with_message(message);
        // A client that no longer listens gets no progress; its call ends with the connection.
        let _ = context.peer.notify_progress(progress).await;
    }
}
