//! One execution: forwards standard input and output until it ends.

use std::time::Duration;

use sandbox_agent::protocol::{Channel, ExitReport, Failure, FrameKind, MAX_PAYLOAD};
use sandbox_core::spi::{ControlRequest, Flow, Input, OutputSink, OutputStream, Source};
use tokio::io::AsyncReadExt;

use crate::inbox::{InboxContent, StreamEnd};
use crate::open_stream::OpenStream;

/// How soon a new size of a terminal is sent if the agent has yet to take the previous one.
const RESIZE_INTERVAL: Duration = Duration::from_millis(20);

/// How an execution ended, as the host saw it.
#[derive(Debug)]
pub(crate) enum Finish {
    Exited {
        report: ExitReport,
        /// The receiver of the output stopped the execution.
        stopped: bool,
        /// The caller requested a kill.
        killed: bool,
        /// Reading standard input on the host failed.
        stdin_error: Option<std::io::Error>,
    },
    Failed(Failure),
    Lost {
        reason: String,
        /// The receiver of the output stopped the execution.
        stopped: bool,
    },
}

/// Follows a stream to its end. Input and requests continue while the receiver processes output.
pub(crate) async fn follow(stream: OpenStream, input: Input, sink: &mut dyn OutputSink) -> Finish {
    let Input {
        stdin, mut control, ..
    } = input;
    let (mut stdin_error, mut stopped, mut killed) = (None, false, false);
    let send_input = async {
        if let Some(source) = stdin {
            stdin_error = pump(&stream, source).await.err();
        }
        std::future::pending().await
    };
    let send_orders = async {
        let mut unsent = None;
        loop {
            let request = match unsent.take() {
                None => control.next().await,
                Some(size) => tokio::select! {
                    request = control.next() => {
                        unsent = Some(size);
                        request
                    }
                    () = tokio::time::sleep(RESIZE_INTERVAL) => ControlRequest::Resize(size),
                },
            };
            match request {
                ControlRequest::Signal(number) => stream.signal(number),
                // One kill frame is enough.
                ControlRequest::Kill if killed => {}
                ControlRequest::Kill => {
                    killed = true;
                    stream.frame(FrameKind::Kill, b"");
                }
                // The last size wins. Others may be skipped while the agent does not read.
                ControlRequest::Resize(size) => {
                    unsent = (!stream.resize(size)).then_some(size);
                }
                _ => tracing::warn!("a control request that is not known here is ignored"),
            }
        }
    };
    let end = tokio::select! {
        biased;
        end = receive(&stream, sink, &mut stopped) => end,
        never = send_orders => never,
        never = send_input => never,
    };
    stream.finish();
    match end {
        StreamEnd::Exited(report) => Finish::Exited {
            report,
            stopped,
            killed,
            stdin_error,
        },
        StreamEnd::Failed(failure) => Finish::Failed(failure),
        StreamEnd::Lost(reason) => Finish::Lost { reason, stopped },
    }
}

/// Passes output to the receiver and grants credit for it, until the end.
async fn receive(stream: &OpenStream, sink: &mut dyn OutputSink, stopped: &mut bool) -> StreamEnd {
    loop {
        let InboxContent {
            started,
            stdout,
            stderr,
            end,
        } = stream.inbox.take().await;
        if started {
            sink.started().await;
        }
        for (channel, output, bytes) in [
            (Channel::Stdout, OutputStream::Stdout, &stdout),
            (Channel::Stderr, OutputStream::Stderr, &stderr),
        ] {
            if bytes.is_empty() {
                continue;
            }
            if !*stopped && sink.write(output, bytes).await == Flow::Stop {
                *stopped = true;
                stream.frame(FrameKind::Kill, b"");
            }
            if end.is_none() {
                stream.grant(channel, bytes.len());
            }
        }
        if let Some(end) = end {
            return end;
        }
    }
}

async fn pump(stream: &OpenStream, mut source: Source) -> std::io::Result<()> {
    let mut bytes = vec![0; MAX_PAYLOAD];
    loop {
        let Some(room) = stream.inbox.stdin_room().await else {
            return Ok(());
        };
        let length = room.min(bytes.len());
        let count = match source.read(&mut bytes[..length]).await {
            Ok(count) => count,
            Err(error) => {
                stream.frame(FrameKind::StdinEnd, b"");
                return Err(error);
            }
        };
        if count == 0 {
            stream.frame(FrameKind::StdinEnd, b"");
            return Ok(());
        }
        stream.inbox.stdin_sent(count);
        stream.frame(FrameKind::Stdin, &bytes[..count]);
    }
}
