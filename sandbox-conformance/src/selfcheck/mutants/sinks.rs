//! Receivers of output that change it.

use async_trait::async_trait;
use sandbox_core::spi::{Flow, OutputSink, OutputStream};
use tokio::sync::mpsc;

use super::altered::Course;

/// How much of each stream comes where output is cut short.
const CUT: usize = 4096;

/// Changes output on its way to its receiver.
pub(super) struct AlteredSink<'a> {
    sink: &'a mut dyn OutputSink,
    course: Course,
    passed: [usize; 2],
}

impl<'a> AlteredSink<'a> {
    pub(super) fn new(sink: &'a mut dyn OutputSink, course: Course) -> Self {
        Self {
            sink,
            course,
            passed: [0, 0],
        }
    }
}

#[async_trait]
impl OutputSink for AlteredSink<'_> {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        match self.course {
            Course::Unstoppable => {
                self.sink.write(stream, bytes).await;
                Flow::Continue
            }
            Course::OneStream => self.sink.write(OutputStream::Stdout, bytes).await,
            Course::CutShort => {
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

/// A piece of what a task has to tell.
pub(super) enum Piece {
    Started,
    Output(OutputStream, Vec<u8>),
}

/// Hands output over to another task. When nobody takes it any more, it is lost.
pub(super) struct Forwarding(mpsc::Sender<Piece>);

impl Forwarding {
    pub(super) fn new() -> (Self, mpsc::Receiver<Piece>) {
        let (give, take) = mpsc::channel(16);
        (Self(give), take)
    }
}

#[async_trait]
impl OutputSink for Forwarding {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        // Nobody listening is what this is for.
        let _ = self.0.send(Piece::Output(stream, bytes.to_vec())).await;
        Flow::Continue
    }

    async fn started(&mut self) {
        let _ = self.0.send(Piece::Started).await;
    }
}

/// Takes what is handed over, to its end.
pub(super) async fn forward(mut pieces: mpsc::Receiver<Piece>, sink: &mut dyn OutputSink) {
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Started => sink.started().await,
            Piece::Output(stream, bytes) => {
                sink.write(stream, &bytes).await;
            }
        }
    }
}
