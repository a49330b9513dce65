//! One byte to a program in a sandbox and back, over and over.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use sandbox::spi::{Flow, OutputSink, OutputStream};
use sandbox::{ExecRequest, ExecResult, SandboxHandle};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::failed;
use crate::failure::{Context, Result};

/// Most time for one exchange; a usual one takes a tenth of a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `cat` and returns how it ended and how long `count` exchanges took, after a first one.
///
/// # Errors
/// When the sandbox fails or a byte does not come back.
pub async fn exchange(sandbox: &SandboxHandle, count: u32) -> Result<(ExecResult, Duration)> {
    let (mut near, far) = tokio::io::duplex(64);
    let (sender, mut received) = unbounded_channel();
    let mut sink = Bell(sender);
    let talk = async move {
        let mut begin = Instant::now();
        for exchange in 0..=count {
            near.write_all(b"x").await.context("write to the sandbox")?;
            match tokio::time::timeout(PATIENCE, received.recv()).await {
                Ok(Some(1)) => {}
                other => return Err(failed(format!("one byte did not come back: {other:?}"))),
            }
            if exchange == 0 {
                begin = Instant::now();
            }
        }
        // The end of stdin, which ends the program.
        drop(near);
        Ok(begin.elapsed())
    };
    let request = ExecRequest::new("cat");
    let run = sandbox.exec_with(&request, Some(Box::new(far)), Some(&mut sink));
    let (result, took) = tokio::join!(run, talk);
    Ok((result.context("run cat")?, took?))
}

/// Tells how many bytes came, as they come.
struct Bell(UnboundedSender<usize>);

#[async_trait]
impl OutputSink for Bell {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        match self.0.send(bytes.len()) {
            Ok(()) => Flow::Continue,
            // Nobody listens any more.
            Err(_) => Flow::Stop,
        }
    }
}
