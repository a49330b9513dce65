//! How much output of a cell is kept.

use sandbox_core::{ErrorKind, SandboxHandle};
use sandbox_lang::{CellRequest, CellResult, Session, SessionRequest};

use super::with_session;
use crate::probes::prelude::*;

/// What the policy keeps of each stream, and how much a cell writes to each.
const KEPT: [u64; 2] = [4000, 1000];
const WRITTEN: u64 = 6000;

/// A setup whose policy keeps little output.
pub(super) fn capped(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| {
        policy.stdout_max_bytes = Some(ByteSize::bytes(KEPT[0]));
        policy.stderr_max_bytes = Some(ByteSize::bytes(KEPT[1]));
    })
}

/// Writes to both streams.
fn writes(language: &str) -> &'static str {
    match language {
        "python" => "import sys\nsys.stdout.write('o' * 6000)\nn = sys.stderr.write('e' * 6000)",
        _ => "printf %06000d 0; printf %06000d 0 >&2",
    }
}

/// Asks for less output, for more, and for none of both.
pub(super) async fn output_limits(sandbox: &SandboxHandle) -> Deviation {
    // The channels of other languages are as one of these.
    for language in ["python", "shell"] {
        for asked in [Some(1 << 20), Some(100), None] {
            let mut request = SessionRequest::new(language);
            request.output_limit = asked.map(ByteSize::bytes);
            let wanted = KEPT.map(|most| asked.unwrap_or(most).min(most));
            let act = async |session: &Session| kept(session, language, wanted).await;
            let deviation = with_session(sandbox, request, act).await?;
            if let Some(Some(deviation)) = deviation {
                return Ok(Some(format!("{language}, {asked:?} asked: {deviation}")));
            }
        }
    }
    Ok(None)
}

async fn kept(session: &Session, language: &str, wanted: [u64; 2]) -> Deviation {
    let code = writes(language);
    // Each cell has all of it.
    for cell in ["a cell", "a later cell"] {
        if let Some(deviation) = differs(&session.run(code).await?, wanted) {
            return Ok(Some(format!("{cell}: {deviation}")));
        }
    }
    if language != "python" {
        return Ok(None);
    }
    let forked = session.run(CellRequest::new(code).forked()).await?;
    if let Some(deviation) = differs(&forked, wanted) {
        return Ok(Some(format!("a fork: {deviation}")));
    }
    let branch = match session.branch().await {
        // Without namespaces there are no branches.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        branch => branch?,
    };
    let branched = branch.run(code).await;
    branch.close().await?;
    Ok(differs(&branched?, wanted).map(|deviation| format!("a branch: {deviation}")))
}

/// How a cell differs from one that wrote to both streams.
fn differs(cell: &CellResult, wanted: [u64; 2]) -> Option<String> {
    let streams = [&cell.stdout, &cell.stderr];
    let kept = streams.map(|stream| stream.bytes.len() as u64);
    let counted = streams.map(|stream| stream.total);
    let is_right = cell.success() && kept == wanted && counted == [WRITTEN; 2];
    (!is_right).then(|| format!("{kept:?} of {counted:?} bytes, {}", cell.outcome))
}
