//! A worker: does what the driver tells it on stdin, times it, and answers on stdout.

use std::hint::black_box;
use std::io::Write;
use std::os::fd::AsFd;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;

use crate::failure::{Context, Failure, Result};
use crate::operations::{Operations, Programs};
use crate::protocol::{Answer, Request, Sample};

/// What kind of worker it is.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A runtime with a thread for each processor, instead of one thread
    #[arg(long)]
    threads: bool,
    /// Resident memory to hold, in MiB
    #[arg(long, default_value_t = 0)]
    ballast_mib: usize,
    #[command(flatten)]
    programs: Programs,
}

/// Works until stdin ends.
///
/// # Errors
/// When the driver cannot be read or answered. An operation that fails is an answer.
pub fn run(arguments: &Arguments) -> Result<()> {
    // Otherwise a machine that hands out huge pages would hold the same memory in 512 times fewer
    // entries, and copying a parent would look cheap.
    rustix::thread::disable_transparent_huge_pages(true).context("disable huge pages")?;
    let ballast = vec![1_u8; arguments.ballast_mib << 20];
    let mut builder = if arguments.threads {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.enable_all().build().context("start the runtime")?;
    let result = runtime.block_on(serve(arguments.programs.clone()));
    drop(black_box(ballast));
    result
}

async fn serve(programs: Programs) -> Result<()> {
    let mut operations = Operations::new(programs);
    // Not tokio's stdin, which would add a thread.
    let stdin = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("take stdin")?;
    let stdin = Receiver::from_owned_fd(stdin).context("take stdin")?;
    let mut lines = BufReader::new(stdin).lines();
    answer(&Answer::Done(Sample::default()))?;
    // Read in the runtime, so that whatever keeps a warm sandbox alive runs between requests.
    while let Some(line) = lines.next_line().await.context("read a request")? {
        let request = serde_json::from_str(&line).context("understand a request")?;
        let result = match request {
            Request::Do(operation) => operations.run(operation).await.map(Answer::Done),
            Request::Memory => operations.memory().await.map(Answer::Memory),
        };
        answer(&result.unwrap_or_else(|failure| match failure {
            Failure::Missing(text) => Answer::Missing(text),
            Failure::Failed(text) => Answer::Failed(text),
        }))?;
    }
    operations.end().await
}

fn answer(answer: &Answer) -> Result<()> {
    let mut line = serde_json::to_vec(answer).context("write an answer")?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(&line)
        .and_then(|()| stdout.flush())
        .context("write an answer")
}
