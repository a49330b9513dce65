//! `sandbox logs`: the output of executions in a detached sandbox.

use async_trait::async_trait;
use clap::Args;
use sandbox::spi::{Flow, OutputSink, OutputStream};
use sandbox::{ByteSize, ErrorKind, SandboxHandle};
use serde::Serialize;

use super::detached::TierOption;
use super::run::live::LiveOutput;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::output::{Format, FormatOption, print_json};

/// The options of `logs`.
#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Name of the sandbox
    name: String,

    #[command(flatten)]
    tier: TierOption,

    /// Show only the last LINES lines; the sandbox keeps at most 8MiB of output
    #[arg(long, value_name = "LINES")]
    tail: Option<u32>,

    /// Keep showing new output until the sandbox ends
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct LogDocument<'a> {
    name: &'a str,
    /// Both streams in their order of arrival.
    log: String,
}

/// Runs the subcommand.
pub fn run(arguments: &LogsArguments) -> Outcome {
    if arguments.follow && arguments.format.format == Format::Json {
        return Err(CommandError::argument("--follow supports only text output"));
    }
    super::until_interrupted(&arguments.tier, &arguments.name, async |sandbox| {
        arguments.show(sandbox).await
    })
}

/// Writes a log to the output.
struct Log(LiveOutput);

#[async_trait]
impl OutputSink for Log {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        self.0.write(stream, bytes).await
    }
}

impl LogsArguments {
    async fn show(&self, sandbox: &SandboxHandle) -> Outcome {
        if self.format.format == Format::Json {
            let log = sandbox.logs(self.tail).await?;
            print_json(&LogDocument {
                name: sandbox.name(),
                log: String::from_utf8_lossy(&log).into_owned(),
            })?;
            return Ok(Exit::SUCCESS);
        }
        let everything = ByteSize::bytes(u64::MAX);
        let mut log = Log(LiveOutput::new(everything, everything));
        let read = if self.follow {
            match sandbox.follow_logs(self.tail, &mut log).await {
                // The end of the sandbox ends `--follow`.
                Err(error) if error.kind() == ErrorKind::SandboxEnded => Ok(()),
                read => read,
            }
        } else {
            let bytes = sandbox.logs(self.tail).await;
            match bytes {
                Ok(bytes) => {
                    log.write(OutputStream::Stdout, &bytes).await;
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        let written = log.0.finish().await?;
        read?;
        Ok(if written.is_broken {
            Exit::BROKEN_PIPE
        } else {
            Exit::SUCCESS
        })
    }
}
