//! One execution: standard input in, output out, until its end.

use sandbox_agent::protocol::{Channel, ExitReport, Failure, Kind, MAX_PAYLOAD};
use sandbox_core::spi::{Flow, OutputSink, OutputStream, Source};
use tokio::io::AsyncReadExt;

use crate::connection::OpenStream;
use crate::inbox::{Arrived, End};

/// How an execution ended, as the host saw it.
#[derive(Debug)]
pub(crate) enum Finish {
    Exited {
        report: ExitReport,
        /// The receiver of the output had enough.
        stopped: bool,
        /// Reading the host's own standard input failed.
        stdin_error: Option<std::io::Error>,
    },
    Failed(Failure),
    Lost {
        reason: String,
        /// The receiver of the output had enough before.
        stopped: bool,
    },
}

/// Follows a stream to its end.
pub(crate) async fn follow(
    stream: OpenStream,
    stdin: Option<Source>,
    sink: &mut dyn OutputSink,
) -> Finish {
    let mut stdin_error = None;
    let mut stopped = false;
    let end = {
        let pump = async {
            match stdin {
                Some(source) => pump(&stream, source).await,
                None => Ok(()),
            }
        };
        tokio::pin!(pump);
        let mut pumping = true;
        loop {
            let arrived = tokio::select! {
                biased;
                arrived = stream.inbox.take() => arrived,
                result = &mut pump, if pumping => {
                    pumping = false;
                    stdin_error = result.err();
                    continue;
                }
            };
            let Arrived {
                stdout,
                stderr,
                end,
            } = arrived;
            for (channel, output, bytes) in [
                (Channel::Stdout, OutputStream::Stdout, &stdout),
                (Channel::Stderr, OutputStream::Stderr, &stderr),
            ] {
                if bytes.is_empty() {
                    continue;
                }
                if !stopped && sink.write(output, bytes).await == Flow::Stop {
                    stopped = true;
                    stream.frame(Kind::Kill, b"");
                }
                if end.is_none() {
                    stream.grant(channel, bytes.len());
                }
            }
            if let Some(end) = end {
                break end;
            }
        }
    };
    stream.finish();
    match end {
        End::Exited(report) => Finish::Exited {
            report,
            stopped,
            stdin_error,
        },
        End::Failed(failure) => Finish::Failed(failure),
        End::Lost(reason) => Finish::Lost { reason, stopped },
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
                stream.frame(Kind::StdinEnd, b"");
                return Err(error);
            }
        };
        if count == 0 {
            stream.frame(Kind::StdinEnd, b"");
            return Ok(());
        }
        stream.inbox.stdin_sent(count);
        stream.frame(Kind::Stdin, &bytes[..count]);
    }
}
