//! Limits of output.

use sandbox_core::{
    CapabilityPolicy, Captured, ErrorKind, ExecRequest, ExecResult, SandboxHandle, Stdin,
    TerminalSize,
};

use crate::probes::exec::stop::Log;
use crate::probes::prelude::*;
use crate::program::Run;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "output::flood",
        STDOUT_MAX_BYTES,
        "writes 128 MiB to standard output with a cap of 64 KiB",
        signs::OUTPUT,
        |context| Box::pin(flood(context, ["134217728", "0"])),
    )
    .version(2)
    .setup(|_| SandboxSetup::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(64)))),
    Probe::isolation(
        "output::flood_of_stderr",
        STDERR_MAX_BYTES,
        "writes 128 MiB to standard error with a cap of 64 KiB",
        signs::OUTPUT,
        |context| Box::pin(flood(context, ["0", "134217728"])),
    )
    .setup(|_| SandboxSetup::with(|policy| policy.stderr_max_bytes = Some(ByteSize::kib(64)))),
    Probe::behavior(
        "output::incomplete",
        EXEC,
        "passes standard output to another execution, and ends; the result must say that output may \
         be missing",
        |context| Box::pin(incomplete(context)),
    ),
    Probe::behavior(
        "output::log_lines",
        EXEC,
        "writes whole and unfinished lines in each way, and reads and follows the last lines of the \
         log",
        |context| Box::pin(plain_feature(context, "read the last lines", log_lines)),
    )
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::behavior(
        "output::logged",
        EXEC,
        "writes to both streams, with the log and without it, and reads the log",
        |context| Box::pin(logged(context)),
    )
    .setup(|_| SandboxSetup::default().fresh()),
    Probe::behavior(
        "output::stderr_cap",
        STDERR_MAX_BYTES,
        "writes up to twice as many bytes to stderr as caps of 1 byte to 3 MiB allow",
        |context| {
            Box::pin(capped(
                context,
                |length| Call::new(["emit", "0", &length.to_string()]),
                |policy, cap| policy.stderr_max_bytes = Some(cap),
                |run| run.stderr,
                |result| result.stderr,
            ))
        },
    )
    .version(2),
    Probe::behavior(
        "output::stdout_cap",
        STDOUT_MAX_BYTES,
        "writes up to twice as many bytes to stdout as caps of 1 byte to 3 MiB allow",
        |context| {
            Box::pin(capped(
                context,
                |length| Call::new(["emit", &length.to_string(), "0"]),
                |policy, cap| policy.stdout_max_bytes = Some(cap),
                |run| run.stdout,
                |result| result.stdout,
            ))
        },
    )
    .version(2),
];

/// The numbers of bytes kept of a stream.
const CAPS: [usize; 4] = [1, 4095, 65_536, 3 << 20];

/// For each cap, writes one byte less, as many, one more, and twice as many bytes to one stream.
/// Those up to the cap must be kept, and all counted.
async fn capped(
    context: &mut ProbeContext,
    call: fn(usize) -> Call,
    set: fn(&mut CapabilityPolicy, ByteSize),
    of_host: fn(Run) -> Vec<u8>,
    of_sandbox: fn(ExecResult) -> Captured,
) -> Result<(), ProbeError> {
    let most = 2 * CAPS[CAPS.len() - 1];
    let written = of_host(host::run(&context.fixture().program(), &call(most)).await?);
    let failure = (written.len() != most).then(|| format!("the host got {} bytes", written.len()));
    context.record_host_control(control("write to the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let mut deviation = Ok(None);
    for cap in CAPS {
        let size = ByteSize::bytes(cap as u64);
        let sandbox = match context
            .once(&SandboxSetup::with(|policy| set(policy, size)))
            .await
        {
            Ok(sandbox) => sandbox,
            Err(error) => {
                deviation = Err(context.record_create_error(error));
                break;
            }
        };
        for length in [cap - 1, cap, cap + 1, 2 * cap] {
            // The result line goes to the stream with fewer bytes.
            if length == 0 {
                continue;
            }
            let result = sandbox.execute(&call(length)).await;
            let result = result.map_err(|error| Attempt::unclear(error.to_string()));
            deviation = result.map(|result| {
                let (ok, outcome) = (result.success(), result.outcome.clone());
                let kept = of_sandbox(result);
                let right = kept.bytes == written[..length.min(cap)]
                    && kept.total == length as u64
                    && kept.truncated() == (length > cap);
                (!right || !ok).then(|| {
                    let (bytes, total) = (kept.bytes.len(), kept.total);
                    format!("kept {bytes} of {total} bytes of {length}, capped at {cap}; {outcome}")
                })
            });
            if deviation != Ok(None) {
                break;
            }
        }
        sandbox.handle().kill().await?;
        if deviation != Ok(None) {
            break;
        }
    }
    context.record_attack(behavior("write around each cap", deviation));
    context.no_host_effect("output does not affect the host");
    Ok(())
}

async fn logged(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let write =
        |word: &str| Call::new(["both", &format!("{word}-out\n"), &format!("{word}-err\n")]);
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, "write with and without the log", async |sandbox| {
        // The second execution of a sandbox may be prepared before it is asked for.
        for word in ["hidden-first", "hidden-second"] {
            let request = sandbox.request(&write(word)).log(false);
            sandbox.handle().exec(&request).await?;
        }
        for word in ["shown-first", "shown-second"] {
            let request = sandbox.request(&write(word));
            sandbox.handle().exec(&request).await?;
        }
        let log = sandbox.handle().logs(None).await?;
        let log = String::from_utf8_lossy(&log);
        let shown = [
            "shown-first-out",
            "shown-first-err",
            "shown-second-out",
            "shown-second-err",
        ];
        let is_right = shown.iter().all(|line| log.contains(line)) && !log.contains("hidden");
        Ok((!is_right).then(|| format!("the log is {log:?}")))
    })
    .await;
    context.no_host_effect("the log belongs to the sandbox");
    Ok(())
}

/// Pieces of output, each from an execution of its own.
const PIECES: [&str; 6] = ["one\n", "\n", "three\nfour\n", "fi", "ve\nsix", "\n"];

async fn log_lines(sandbox: &SandboxHandle) -> Deviation {
    let write = |piece: &str| ExecRequest::shell("printf %s \"$0\"").arg(piece);
    // The controls have written too.
    let mut expected = String::from_utf8_lossy(&sandbox.logs(None).await?).into_owned();
    for piece in PIECES {
        sandbox.exec(&write(piece)).await?.check()?;
        expected += piece;
        if let Some(wrong) = wrong_lines(sandbox, &expected).await? {
            return Ok(Some(wrong));
        }
    }
    let last = sandbox.logs(Some(2)).await?;
    let mut log = Log::new(last.len());
    sandbox.follow_logs(Some(2), &mut log).await?;
    if log.text().as_bytes() != last {
        return Ok(Some(format!("a follower is shown {:?}", log.text())));
    }
    for is_logged in [false, true] {
        let request = write("more\n").log(is_logged);
        let mut executions = vec![
            sandbox.start(&request, Stdin::Null).await?,
            sandbox.start(&request, Stdin::from_bytes(*b"x")).await?,
        ];
        let terminal = request.terminal(TerminalSize::default());
        match sandbox.start(&terminal, Stdin::Null).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            started => executions.push(started?),
        }
        let count = executions.len();
        for mut execution in executions {
            execution.wait().await?.check()?;
        }
        let log = String::from_utf8_lossy(&sandbox.logs(None).await?).replace('\r', "");
        let more = "more\n".repeat(if is_logged { count } else { 0 });
        if log != format!("{expected}{more}") {
            return Ok(Some(format!("logged: {is_logged}, and the log is {log:?}")));
        }
    }
    Ok(None)
}

/// Compares the log, and its last lines up to more than it has.
async fn wrong_lines(sandbox: &SandboxHandle, expected: &str) -> Deviation {
    let lines: Vec<_> = expected.split_inclusive('\n').collect();
    for count in 0..lines.len() + 2 {
        let tail = lines[lines.len().saturating_sub(count)..].concat();
        let found = sandbox.logs(u32::try_from(count).ok()).await?;
        if found != tail.as_bytes() {
            let found = String::from_utf8_lossy(&found);
            return Ok(Some(format!(
                "the last {count} of {expected:?} are {found:?}"
            )));
        }
    }
    let found = sandbox.logs(None).await?;
    let is_whole = found == expected.as_bytes();
    Ok((!is_whole).then(|| format!("{:?}, not {expected:?}", String::from_utf8_lossy(&found))))
}

async fn incomplete(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let hold = |path: &str| Call::new(["hold", path]);
    let hand = |path: &str| Call::new(["hand", path, "before\n"]);
    let own = context.outside()?.join("socket").display().to_string();
    let program = context.fixture().program();
    let holder = host::spawn(&program, &hold(&own)).await?;
    let handed = tokio::process::Command::new(&program)
        .args(["hand", &own, ""])
        .stdout(std::process::Stdio::null())
        .status()
        .await?;
    drop(holder);
    let failure = (!handed.success()).then(|| handed.to_string());
    context.record_host_control(control("pass standard output on", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let path = context.inside("socket");
    let deviation = context
        .with_sandbox(async |sandbox| {
            let (hold, hand) = (sandbox.request(&hold(&path)), hand(&path));
            let mut holder = sandbox.handle().start(&hold, Stdin::Null).await?;
            let passed = sandbox.execute(&hand).await;
            holder.kill().await;
            holder.wait().await?;
            let passed = passed?;
            let usual = sandbox.execute(&Call::new(["alive"])).await?;
            let output = passed.stdout.bytes.starts_with(b"before\n") && passed.success();
            Ok(match (output, passed.incomplete, usual.incomplete) {
                (true, Some(_), None) => None,
                (false, ..) => Some(format!("{}: {:?}", passed.outcome, passed.stdout)),
                (true, held, usual) => Some(format!("told {held:?}, and {usual:?} otherwise")),
            })
        })
        .await;
    context.record_attack(behavior(
        "end while another execution holds the output",
        flat(deviation),
    ));
    context.no_host_effect("output does not affect the host");
    Ok(())
}

/// Writes as many bytes to both streams.
async fn flood(context: &mut ProbeContext, bytes: [&str; 2]) -> Result<(), ProbeError> {
    let flood = Call::new(["emit"]).and(bytes[0]).and(bytes[1]);
    limit(context, Call::new(["alive"]), flood).await
}
