//! An input that never ends.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use sandbox_core::ExecRequest;
use tokio::io::{AsyncRead, ReadBuf};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::endless_input",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "has an endless input for a program that reads nothing, and wants it to be left alone",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

/// What fits on the way: pipes, windows, buffers.
const ON_THE_WAY: u64 = 4 << 20;

/// Counts what is read of it.
struct Endless(Arc<AtomicU64>);

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let room = buffer.remaining();
        buffer.put_slice(&vec![b'x'; room]);
        self.0.fetch_add(room as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    stage.host_control(&Call::new(["alive"])).await?;
    stage.allow_control(&Call::new(["alive"])).await;
    let count = Arc::new(AtomicU64::new(0));
    let source = Endless(Arc::clone(&count));
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = ExecRequest::new(sandbox.program()).args(["sleep", "", "1000"]);
            let stdin = Some(Box::new(source) as sandbox_core::spi::Source);
            match sandbox.handle().exec_with(&request, stdin, None).await {
                Ok(result) if !result.ok() => Some(result.outcome.to_string()),
                Ok(_) => {
                    let read = count.load(Ordering::Relaxed);
                    (read > ON_THE_WAY).then(|| format!("{read} bytes were read"))
                }
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    stage.attack_was(behavior("leave an endless input unread", told));
    stage.nothing_to_watch("input is no matter of the host");
    Ok(())
}
