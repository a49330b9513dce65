//! Standard input, output and error.

use sandbox_core::{ExecRequest, OutputStream, SandboxHandle, Stdin};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};

use crate::probes::prelude::*;

mod closed_input;
mod events;
mod forwarded;
mod half_close;
mod many_writes;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "streams::binary_integrity",
        STREAMS,
        "sends 1 MiB of every byte value through a program that reads at once and through one that \
         reads later, and compares",
        |context| Box::pin(binary_integrity(context)),
    )
    .version(2),
    Probe::behavior(
        "streams::closed_input",
        STREAMS,
        "writes 8 MiB to a program that has closed its input and goes on, and expects an error \
         before the program ends",
        |context| Box::pin(closed_input::run(context)),
    ),
    Probe::behavior(
        "streams::endless_input",
        STREAMS,
        "offers an endless input to a program that reads nothing, and expects it to stay unread",
        |context| Box::pin(endless_input(context)),
    ),
    Probe::behavior(
        "streams::events",
        STREAMS,
        "follows a program's events: the start, every byte in order, and last the end with the \
         exit code",
        |context| Box::pin(events::run(context)),
    ),
    Probe::behavior(
        "streams::forwarded",
        STREAMS,
        "connects through a port of the host to servers on both loopback addresses inside, and \
         compares the answers, and to none, and after its end",
        |context| Box::pin(forwarded::run(context)),
    )
    .version(2),
    Probe::behavior(
        "streams::half_close",
        STREAMS,
        "talks to a program word by word, closes its input, and expects the remaining output and \
         the exit code",
        |context| Box::pin(half_close::run(context)),
    ),
    Probe::behavior(
        "streams::late_reader",
        STREAMS,
        "reads nothing until long after the program's time limit, and then expects its output and \
         exit code",
        |context| Box::pin(late_reader(context)),
    )
    .waits(),
    Probe::behavior(
        "streams::many_writes",
        STREAMS,
        "writes 10,000 lines to each stream for a slow reader, and exits with 7",
        |context| Box::pin(many_writes::run(context)),
    ),
    Probe::behavior(
        "streams::no_input",
        STREAMS,
        "reads standard input that was not given, and expects its end at once",
        |context| Box::pin(no_input(context)),
    ),
    Probe::behavior(
        "streams::order",
        STREAMS,
        "compares the live output of each stream with the written and the kept output",
        |context| Box::pin(order(context)),
    ),
    Probe::behavior(
        "streams::separate",
        STREAMS,
        "writes to both streams in turn, and compares each",
        |context| Box::pin(separate(context)),
    ),
];

async fn binary_integrity(context: &mut ProbeContext) -> Result<(), ProbeError> {
    // A period that divides no buffer size, so a loss or a repetition is visible.
    let content: Vec<u8> = (0..1 << 20)
        .map(|index| (index % 257 % 256) as u8)
        .collect();
    let call = Call::new(["echo"]).stdin(content.clone());
    let run = host::run(&context.fixture().program(), &call).await?;
    let failure = (run.stdout != content).then(|| "the host's echo differs".to_owned());
    context.record_host_control(control("echo on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context.with_sandbox(async |sandbox| {
        // The second finds a full pipe behind which the input has ended.
        let later = ExecRequest::shell("sleep 0.3; exec cat");
        for request in [sandbox.request(&call), later] {
            let stdin = Stdin::from_bytes(content.clone());
            let result = sandbox
                .handle()
                .exec_with(&request, stdin, |_, _| {})
                .await?;
            let stdout = &result.stdout;
            let is_whole = stdout.bytes == content && stdout.total == content.len() as u64;
            if !is_whole || !result.success() {
                let got = format!("{} bytes, {}", stdout.total, result.outcome);
                return Ok(Some(got));
            }
        }
        Ok(None)
    });
    let deviation = flat(deviation.await);
    context.record_attack(behavior("echo 1 MiB", deviation));
    context.no_host_effect("output does not affect the host");
    Ok(())
}

/// The capacity of all buffers between writer and reader: pipes, flow control, channels.
const ON_THE_WAY: u64 = 4 << 20;

/// Counts the bytes read from it.
struct EndlessInput(Arc<AtomicU64>);

impl AsyncRead for EndlessInput {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let capacity = buffer.remaining();
        buffer.put_slice(&vec![b'x'; capacity]);
        self.0.fetch_add(capacity as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

async fn endless_input(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let count = Arc::new(AtomicU64::new(0));
    let source = EndlessInput(Arc::clone(&count));
    let deviation = context
        .with_sandbox(async |sandbox| {
            let request = ExecRequest::new(sandbox.program()).args(["sleep", "", "1000"]);
            let stdin = Stdin::from_reader(source);
            match sandbox.handle().exec_with(&request, stdin, |_, _| {}).await {
                Ok(result) if !result.success() => Some(result.outcome.to_string()),
                Ok(_) => {
                    let read = count.load(Ordering::Relaxed);
                    (read > ON_THE_WAY).then(|| format!("{read} bytes were read"))
                }
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    context.record_attack(behavior("leave an endless input unread", deviation));
    context.no_host_effect("input does not affect the host");
    Ok(())
}

/// Fits into the buffers, so the program does not wait for its reader.
const LENGTH: usize = 100_000;

/// The program's time limit, and how long the output is not read: longer than any grace period.
const LIMIT: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(6);

async fn late_reader(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let length = LENGTH.to_string();
            let request = ExecRequest::new(sandbox.program()).args(["emit", &length, "1"]);
            read_late(sandbox.handle(), &request.timeout(LIMIT)).await
        })
        .await;
    context.record_attack(behavior("read late", deviation));
    context.no_host_effect("output does not affect the host");
    Ok(())
}

async fn read_late(sandbox: &SandboxHandle, request: &ExecRequest) -> Option<String> {
    let mut execution = match sandbox.start(request, Stdin::Null).await {
        Ok(execution) => execution,
        Err(error) => return Some(error.to_string()),
    };
    tokio::time::sleep(LATE).await;
    match execution.wait().await {
        Ok(result) if result.success() && result.stdout.bytes.len() == LENGTH => None,
        Ok(result) => Some(format!(
            "{}, {} bytes",
            result.outcome,
            result.stdout.bytes.len()
        )),
        Err(error) => Some(error.to_string()),
    }
}

async fn no_input(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["echo"]).timeout(std::time::Duration::from_secs(2));
    let run = host::run(&context.fixture().program(), &call).await?;
    let failure = (!run.outcome.success()).then(|| run.outcome.to_string());
    context.record_host_control(control("read an empty input on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context.execute(&call).await;
    let deviation = deviation.map(|result| {
        (!result.success() || !result.stdout.bytes.is_empty()).then(|| result.outcome.to_string())
    });
    context.record_attack(behavior("read no input", deviation));
    context.no_host_effect("input does not affect the host");
    Ok(())
}

async fn order(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["lines", "2000", "0"]);
    let written = host::run(&context.fixture().program(), &call).await?.stdout;
    let failure =
        (!written.ends_with(b"1998\n1999\n")).then(|| "the host's lines differ".to_owned());
    context.record_host_control(control("write the lines on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            let live = |stream, bytes: &[u8]| match stream {
                OutputStream::Stdout => stdout.extend_from_slice(bytes),
                OutputStream::Stderr => stderr.extend_from_slice(bytes),
            };
            let request = sandbox.request(&call);
            match sandbox
                .handle()
                .exec_with(&request, Stdin::Null, live)
                .await
            {
                Ok(result) => [stdout, stderr, result.stdout.bytes, result.stderr.bytes]
                    .iter()
                    .any(|got| *got != written)
                    .then(|| format!("{}; the lines differ", result.outcome)),
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    context.record_attack(behavior("compare the lines", deviation));
    context.no_host_effect("output does not affect the host");
    Ok(())
}

async fn separate(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["both", "out", "error"]);
    let run = host::run(&context.fixture().program(), &call).await?;
    let (out, error) = (run.stdout, run.stderr);
    let failure = (out != b"outoutoutout").then(|| "the host's output differs".to_owned());
    context.record_host_control(control("write to both on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context.execute(&call).await.map(|result| {
        let differs = result.stdout.bytes != out || result.stderr.bytes != error;
        differs.then(|| format!("{:?} and {:?}", result.stdout_text(), result.stderr_text()))
    });
    context.record_attack(behavior("write to both", deviation));
    context.no_host_effect("output does not affect the host");
    Ok(())
}
