//! Output sinks that alter output.

use async_trait::async_trait;
use sandbox_core::spi::{Flow, OutputSink, OutputStream};
use tokio::sync::mpsc;

use super::altered::ExecAlteration;

/// The number of bytes of each stream that arrive if output is cut short.
const CUT: usize = 4096;

/// Alters output on its way to another sink.
pub(super) struct AlteredSink<'a> {
    sink: &'a mut dyn OutputSink,
    exec: ExecAlteration,
    passed: [usize; 2],
}

impl<'a> AlteredSink<'a> {
    pub(super) fn new(sink: &'a mut dyn OutputSink, exec: ExecAlteration) -> Self {
        Self {
            sink,
            exec,
            passed: [0, 0],
        }
    }
}

#[async_trait]
impl OutputSink for AlteredSink<'_> {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        match self.exec {
            ExecAlteration::Unstoppable => {
                self.sink.write(stream, bytes).await;
                Flow::Continue
            }
            ExecAlteration::OneStream => self.sink.write(OutputStream::Stdout, bytes).await,
            ExecAlteration::CutShort => {
                let passed = &mut self.passed[usize::from(stream == OutputStream::Stderr)];
                let length = bytes.len().min(CUT - *passed);
                *passed += length;
                match length {
                    0 => Flow::Continue,
                    _ => self.sink.write(stream, &bytes[..length]).await,
                }
            }
            _ => self.sink.write(stream, bytes).await,
        }
    }

    async fn started(&mut self) {
        self.sink.started().await;
    }
}

/// An event of an execution in another task.
pub(super) enum ForwardedOutput {
    Started,
    Output(OutputStream, Vec<u8>),
}

/// Sends output to another task. Output is dropped if the receiver is gone.
pub(super) struct ForwardingSink(mpsc::Sender<ForwardedOutput>);

impl ForwardingSink {
    pub(super) fn new() -> (Self, mpsc::Receiver<ForwardedOutput>) {
        let (give, take) = mpsc::channel(16);
        (Self(give), take)
    }
}

#[async_trait]
impl OutputSink for ForwardingSink {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        // A missing receiver is the purpose of this sink.
        let _ = self
            .0
            .send(ForwardedOutput::Output(stream, bytes.to_vec()))
            .await;
        Flow::Continue
    }

    async fn started(&mut self) {
        let _ = self.0.send(ForwardedOutput::Started).await;
    }
}

/// Writes everything that arrives into `sink`.
pub(super) async fn forward(
    mut pieces: mpsc::Receiver<ForwardedOutput>,
    sink: &mut dyn OutputSink,
) {
    while let Some(output) = pieces.recv().await {
        match output {
            ForwardedOutput::Started => sink.started().await,
            ForwardedOutput::Output(stream, bytes) => {
                sink.write(stream, &bytes).await;
            }
        }
    }
}
