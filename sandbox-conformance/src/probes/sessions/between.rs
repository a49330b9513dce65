//! What sessions say of the time between two cells, and at their own end.

use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, SandboxHandle};
use sandbox_lang::{SessionRequest, Sessions as _};

use super::{first, python, value};
use crate::probes::prelude::*;

/// How long the session exists, and how long its cell wants to run.
const SESSION: Duration = Duration::from_secs(2);
const CELL: &str = "import time\ntime.sleep(30)";

/// A cell has two seconds after its limit, and then another one.
const LATE: Duration = Duration::from_secs(8);

/// Runs a cell beyond the end of its session.
pub(super) async fn session_timeout(sandbox: &SandboxHandle) -> Deviation {
    let request = SessionRequest::new("python").session_timeout(SESSION);
    let session = sandbox.session(request).await?;
    let start = Instant::now();
    let cell = session.run(CELL).await;
    let took = start.elapsed();
    let after = session.run("1").await;
    let is_ended = |error: &sandbox_core::Error| error.kind() == ErrorKind::SessionEnded;
    let is_right = match &cell {
        Ok(cell) => !cell.success() && took < SESSION + LATE,
        Err(error) => is_ended(error) && took < SESSION + LATE,
    };
    let has_ended = after.as_ref().is_err_and(is_ended);
    Ok((!is_right || !has_ended).then(|| format!("{cell:?} after {took:?}, then {after:?}")))
}

/// Drops a cell that cannot be interrupted. The next one is told what was lost.
pub(super) async fn dropped_cell(sandbox: &SandboxHandle) -> Deviation {
    let session = python(sandbox).await?;
    session.run("kept = 1").await?;
    let deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    if let Ok(ended) = tokio::time::timeout(SESSION / 4, session.run(deaf)).await {
        return Ok(Some(format!("the loop ended: {ended:?}")));
    }
    let next = session.run("'kept' in globals()").await?;
    let told = next.lost_before.as_ref();
    let names_it = told.is_some_and(|lost| lost.names.contains(&"kept".to_owned()));
    let later = session.run("1").await?;
    Ok(first([
        ("whether the loss names it", names_it.to_string(), "true"),
        (
            "whether a later cell is told",
            later.lost_before.is_some().to_string(),
            "false",
        ),
        (
            "what is left",
            value(&session, "'kept' in globals()").await?,
            "False",
        ),
    ]))
}

/// Writes to both streams after the end of a cell. The next cell has it.
pub(super) async fn background_output(sandbox: &SandboxHandle) -> Deviation {
    for (language, code) in [
        (
            "shell",
            "(sleep 0.3; echo late; echo wrong >&2) & echo begun",
        ),
        (
            "python",
            "import subprocess\nlate = ['sh', '-c', 'sleep 0.3; echo late; echo wrong >&2']\n\
             child = subprocess.Popen(late)\nprint('begun')",
        ),
    ] {
        let session = sandbox.session(SessionRequest::new(language)).await?;
        let begun = session.run(code).await?;
        tokio::time::sleep(SESSION / 2).await;
        let next = session.run("").await?;
        // Where nothing is isolated, a shell outlives its sandbox.
        session.close().await?;
        let streams = [&begun.stdout, &begun.stderr, &next.stdout, &next.stderr];
        let texts = streams.map(|stream| stream.text());
        if texts != ["begun\n", "", "late\n", "wrong\n"] {
            return Ok(Some(format!("{language}: {texts:?}")));
        }
    }
    Ok(None)
}
