//! Sessions of a later client in a detached sandbox.

use std::time::Duration;

use sandbox_core::{CapabilityPolicy, ErrorKind, SandboxHandle};
use sandbox_lang::{CellRequest, Session, SessionRequest, Sessions as _};

use super::ends::{beats, begins, stops};
use super::{LIMIT, ending, first, host_runs, python, value};
use crate::probes::detached::{LIFETIME, in_detached};
use crate::probes::prelude::*;

/// The bytes that the later client's policy keeps of each stream.
const KEPT: u64 = 1000;

/// Runs cells of two clients, and drops the handle of the later one.
pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    host_runs(context, "print(6 * 7)", "42\n").await;
    context.allow_control(&Call::new(["alive"])).await;
    let beat = context.inside("later");
    let policy = CapabilityPolicy::new()
        .stdout_max_bytes(ByteSize::bytes(KEPT))
        .stderr_max_bytes(ByteSize::bytes(KEPT))
        .timeout(LIMIT);
    let later = context.client_under(policy)?;
    let deviation = in_detached(context, LIFETIME, async |sandbox, name, _| {
        let own = python(sandbox.handle()).await?;
        let handle = later.get(name).await?;
        let found = both(&own, handle, sandbox.handle(), &beat).await;
        own.close().await?;
        Ok(found?)
    })
    .await?;
    context.record_attack(behavior("run cells of two clients", deviation));
    context.no_host_effect("the cells do not affect the host");
    Ok(())
}

async fn both(
    own: &Session,
    later: SandboxHandle,
    sandbox: &SandboxHandle,
    beat: &str,
) -> Deviation {
    // What it asks for is more than its policy allows.
    let request = SessionRequest::new("python").timeout(Duration::from_secs(60));
    let session = later
        .session(request.output_limit(ByteSize::kib(64)))
        .await?;
    own.run("number = 1").await?;
    let code = format!(
        "import subprocess, sys, time\nfor stream in sys.stdout, sys.stderr:\n    \
         count = stream.write('x' * 3000)\n\
         child = subprocess.Popen(['sh', '-c', '{}'])\n'number' in globals()",
        beats(beat)
    );
    let written = session.run(code).await?;
    let kept = [&written.stdout, &written.stderr].map(|stream| stream.bytes.len());
    let seen = written.result.unwrap_or_default();
    let slow = CellRequest::new("time.sleep(30)").timeout(LIMIT * 30);
    let slow = session.run(slow).await?;
    let began = begins(sandbox, beat).await?;
    drop(later);
    let stopped = stops(sandbox, beat).await?;
    let after = session.run("1").await;
    let ends = [ErrorKind::SessionEnded, ErrorKind::SandboxEnded];
    let has_ended = after.is_err_and(|error| ends.contains(&error.kind()));
    let count = own.run("print('x' * 2999)").await?.stdout.bytes.len();
    Ok(first([
        (
            "what is kept of each stream",
            format!("{kept:?}"),
            "[1000, 1000]",
        ),
        (
            "whether a session has another one's variable",
            seen.text("text/plain").unwrap_or_default().to_owned(),
            "False",
        ),
        ("a slow cell", ending(&slow), "timed out, kept"),
        ("whether a process began", began.to_string(), "true"),
        (
            "whether it ended with the handle",
            stopped.to_string(),
            "true",
        ),
        ("whether its session did", has_ended.to_string(), "true"),
        (
            "what its creator's session keeps",
            count.to_string(),
            "3000",
        ),
        ("the creator's variable", value(own, "number").await?, "1"),
    ]))
}
