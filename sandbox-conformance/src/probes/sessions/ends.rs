//! The ends of sessions: what runs then, and what goes on no more.

use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, SandboxHandle};
use sandbox_lang::{Session, SessionRequest};

use super::{LANGUAGES, start, with_session};
use crate::probes::prelude::*;

/// How long the interpreter has at its exit, and how late its end may be noticed.
const EXIT: Duration = Duration::from_secs(2);
const LATE: Duration = Duration::from_secs(15);

/// A process that shows that it runs, for at most a minute: it adds to a file.
pub(super) fn beats(file: &str) -> String {
    format!("i=0; while [ $i -lt 600 ]; do i=$((i + 1)); echo >> {file}; sleep 0.1; done")
}

/// Starts such a process, and lets another file be made at the exit.
fn leaves(language: &str, beat: &str, exit: &str) -> String {
    let beats = beats(beat);
    match language {
        "python" => format!(
            "import atexit, subprocess\natexit.register(lambda: open('{exit}', 'w').close())\n\
             child = subprocess.Popen(['sh', '-c', '{beats}'])"
        ),
        "javascript" => format!(
            "process.on('exit', () => require('fs').writeFileSync('{exit}', ''));\n\
             require('child_process').spawn('sh', ['-c', '{beats}'], {{ stdio: 'ignore' }}).unref()"
        ),
        _ => format!("trap ': > {exit}' EXIT\n({beats}) &"),
    }
}

/// Closes sessions that have something to run at their exit.
pub(super) async fn closed(sandbox: &SandboxHandle, folder: &str) -> Deviation {
    sandbox.write(&format!("{folder}/made"), "").await?;
    for language in LANGUAGES {
        let [beat, exit] = ["beat", "exit"].map(|name| format!("{folder}/{language}-{name}"));
        let Some(session) = start(sandbox, SessionRequest::new(language)).await? else {
            continue;
        };
        let left = session.run(leaves(language, &beat, &exit)).await;
        let began = begins(sandbox, &beat).await;
        let took = close(session).await?;
        if !left?.success() || !began? || took > EXIT + LATE {
            return Ok(Some(format!("{language}: closed after {took:?}")));
        }
        if !sandbox.exists(&exit).await? {
            return Ok(Some(format!("{language}: nothing runs at its exit")));
        }
        if !stops(sandbox, &beat).await? {
            return Ok(Some(format!("{language}: a process outlives the session")));
        }
    }
    endless_exit(sandbox, &format!("{folder}/endless")).await
}

/// Closes a session whose interpreter goes on at its exit, and drops another.
async fn endless_exit(sandbox: &SandboxHandle, beat: &str) -> Deviation {
    let code = |beat: &str| {
        format!(
            "import atexit, subprocess\nrun = ['sh', '-c', '{}']\n\
             code = atexit.register(subprocess.run, run)",
            beats(beat)
        )
    };
    let session = super::python(sandbox).await?;
    let registered = session.run(code(beat)).await;
    let took = close(session).await?;
    if !registered?.success() || took > EXIT + LATE || !stops(sandbox, beat).await? {
        return Ok(Some(format!("an endless exit ended after {took:?}")));
    }
    let dropped = format!("{beat}-dropped");
    let session = super::python(sandbox).await?;
    let left = session.run(leaves("python", &dropped, beat)).await;
    let began = begins(sandbox, &dropped).await;
    drop(session);
    let ended = left?.success() && began? && stops(sandbox, &dropped).await?;
    Ok((!ended).then(|| "a process outlives a session that was dropped".to_owned()))
}

/// Closes the session, and says how long it took.
async fn close(session: Session) -> sandbox_core::Result<Duration> {
    let begun = Instant::now();
    session.close().await?;
    Ok(begun.elapsed())
}

/// The length of a file, which may not be there.
async fn length(sandbox: &SandboxHandle, file: &str) -> sandbox_core::Result<usize> {
    match sandbox.exists(file).await? {
        true => sandbox.read(file).await.map(|content| content.len()),
        false => Ok(0),
    }
}

/// Whether the file grows within some time.
pub(super) async fn begins(sandbox: &SandboxHandle, file: &str) -> sandbox_core::Result<bool> {
    let end = Instant::now() + LATE;
    while Instant::now() < end {
        if length(sandbox, file).await? > 0 {
            return Ok(true);
        }
        tokio::time::sleep(GONE / 10).await;
    }
    Ok(false)
}

/// Whether the file stops growing within some time.
pub(super) async fn stops(sandbox: &SandboxHandle, file: &str) -> sandbox_core::Result<bool> {
    let end = Instant::now() + LATE;
    let mut before = length(sandbox, file).await?;
    while Instant::now() < end {
        tokio::time::sleep(GONE).await;
        let now = length(sandbox, file).await?;
        if now == before {
            return Ok(true);
        }
        before = now;
    }
    Ok(false)
}

/// How long a session waits for a cell, and how long its cell runs: longer.
const IDLE: Duration = Duration::from_millis(1500);
const CELL: &str = "import time\ntime.sleep(2)";

/// Runs a cell that is longer than the session may wait, and then waits.
pub(super) async fn idle(sandbox: &SandboxHandle, beat: &str) -> Deviation {
    let request = SessionRequest::new("python").session_timeout(Duration::from_secs(600));
    let request = request.idle_timeout(IDLE);
    let act = async |session: &Session| waits(sandbox, session, beat).await;
    Ok(with_session(sandbox, request, act).await?.flatten())
}

async fn waits(sandbox: &SandboxHandle, session: &Session, beat: &str) -> Deviation {
    let code = format!(
        "{CELL}\nimport subprocess\nrun = ['sh', '-c', '{}']",
        beats(beat)
    );
    let long = session.run(code).await?;
    let child = session.run("child = subprocess.Popen(run)").await?;
    if !long.success() || !child.success() {
        return Ok(Some(format!("a long cell: {long:?}, {child:?}")));
    }
    tokio::time::sleep(IDLE * 2).await;
    let after = session.run("1").await;
    let is_told = after.as_ref().is_err_and(|error| {
        error.kind() == ErrorKind::SessionEnded && error.to_string().contains("idle_timeout")
    });
    if !is_told {
        return Ok(Some(format!("after {:?}: {after:?}", IDLE * 2)));
    }
    let has_ended = begins(sandbox, beat).await? && stops(sandbox, beat).await?;
    Ok((!has_ended).then(|| "a process outlives the session".to_owned()))
}
