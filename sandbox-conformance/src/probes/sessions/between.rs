//! What sessions say of the time between two cells, and at their own end.

use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, SandboxHandle};
use sandbox_lang::{Session, SessionRequest, Sessions as _};

use super::{LANGUAGES, first, value, with_session};
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
    let is_told = |error: &sandbox_core::Error| error.to_string().contains("session_timeout");
    let has_ended = after
        .as_ref()
        .is_err_and(|error| is_ended(error) && is_told(error));
    Ok((!is_right || !has_ended).then(|| format!("{cell:?} after {took:?}, then {after:?}")))
}

/// Drops cells that can be interrupted, that wait for their turn, and that cannot be interrupted.
pub(super) async fn dropped_cell(sandbox: &SandboxHandle) -> Deviation {
    for language in LANGUAGES {
        let request = SessionRequest::new(language);
        let act = async |session: &Session| interrupted(session, language).await;
        let deviation = with_session(sandbox, request, act).await?;
        if let Some(Some(deviation)) = deviation {
            return Ok(Some(format!("{language}: {deviation}")));
        }
    }
    let request = SessionRequest::new("python");
    let waited = with_session(sandbox, request, never_run).await?.flatten();
    if waited.is_some() {
        return Ok(waited);
    }
    let request = SessionRequest::new("python");
    Ok(with_session(sandbox, request, deaf).await?.flatten())
}

/// A variable, a cell without an end, and a cell that shows the variable.
fn endless(language: &str) -> [&'static str; 3] {
    match language {
        "python" => ["kept = 1", "import time\ntime.sleep(60)", "print(kept)"],
        "javascript" => ["let kept = 1", "while (true);", "console.log(kept)"],
        _ => ["kept=1", "sleep 60", "echo $kept"],
    }
}

/// How long a cell runs before it is dropped, and when the next one must have run: long before the
/// policy's time limit.
const DROPPED: Duration = Duration::from_millis(300);
const NEXT: Duration = Duration::from_secs(15);

/// Drops a cell that an interrupt ends. The next one waits for that, and loses nothing.
async fn interrupted(session: &Session, language: &str) -> Deviation {
    let [keep, endless, show] = endless(language);
    session.run(keep).await?;
    if let Ok(ended) = tokio::time::timeout(DROPPED, session.run(endless)).await {
        return Ok(Some(format!("an endless cell ended: {ended:?}")));
    }
    let begun = Instant::now();
    let next = session.run(show).await?;
    let took = begun.elapsed();
    let is_right = next.stdout.text().trim() == "1" && next.lost_before.is_none() && took < NEXT;
    Ok((!is_right).then(|| format!("after a dropped cell: {next:?} after {took:?}")))
}

/// Drops a cell that waits for its turn.
async fn never_run(session: &Session) -> Deviation {
    let (first, dropped) = tokio::join!(
        session.run("import time\ntime.sleep(1)"),
        tokio::time::timeout(DROPPED, async {
            // The other one has its turn first.
            tokio::time::sleep(DROPPED / 2).await;
            session.run("ran = 1").await
        }),
    );
    if dropped.is_ok() || !first?.success() {
        return Ok(Some(format!("it did not wait: {dropped:?}")));
    }
    let ran = value(session, "'ran' in globals()").await?;
    Ok(super::first([("whether a dropped cell ran", ran, "False")]))
}

/// Drops a cell that cannot be interrupted. The next one is told what was lost.
async fn deaf(session: &Session) -> Deviation {
    session.run("kept = 1").await?;
    let deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    if let Ok(ended) = tokio::time::timeout(DROPPED, session.run(deaf)).await {
        return Ok(Some(format!("the loop ended: {ended:?}")));
    }
    let begun = Instant::now();
    let next = session.run("'kept' in globals()").await?;
    if begun.elapsed() > NEXT {
        return Ok(Some(format!("the next cell waited {:?}", begun.elapsed())));
    }
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
            value(session, "'kept' in globals()").await?,
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
