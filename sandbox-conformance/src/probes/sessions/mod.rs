//! Interpreters that live on between two cells.

use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, SandboxHandle};
use sandbox_lang::{CellOutcome, CellRequest, CellResult, Session, SessionRequest, SessionState};
use sandbox_lang::{LanguageChoice, Lost, Sessions as _};

use crate::probes::prelude::*;

mod between;
mod branches;
mod ends;
mod languages;
mod later;
mod limits;
mod pool;
mod refused;
mod values;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "sessions::background_output",
        SESSIONS,
        "writes to both streams of a shell and of Python after a cell's end, and expects it in the \
         next cell",
        |context| {
            Box::pin(behaves(
                context,
                "write between two cells",
                between::background_output,
            ))
        },
    )
    .waits(),
    Probe::behavior(
        "sessions::branch",
        SESSIONS,
        "changes a variable in a branch of a session, and expects it unchanged in the session; \
         exceeds a limit in the branch, and closes the session",
        |context| Box::pin(behaves(context, "branch a session", branches::run)),
    )
    .version(2),
    Probe::behavior(
        "sessions::channel",
        SESSIONS,
        "looks for descriptors of the session's channel in a child process of a cell",
        |context| Box::pin(behaves(context, "list a child's descriptors", channel)),
    ),
    Probe::behavior(
        "sessions::closed",
        SESSIONS,
        "closes and drops sessions in whose interpreters something runs at the exit, also without \
         an end, and looks for what it leaves and for processes",
        |context| {
            let folder = context.inside("closed");
            Box::pin(behaves(context, "close sessions", async move |sandbox| {
                ends::closed(sandbox, &folder).await
            }))
        },
    )
    .waits()
    .setup(own),
    Probe::behavior(
        "sessions::closed_descriptors",
        SESSIONS,
        "closes every descriptor in a cell, and expects to be told that the state is lost",
        |context| {
            Box::pin(behaves(
                context,
                "close every descriptor",
                closed_descriptors,
            ))
        },
    ),
    Probe::isolation(
        "sessions::confined",
        FILESYSTEM_READ_ROOTS,
        "reads a file of the host from a cell, a branch of its session and a later interpreter",
        signs::UNREADABLE,
        |context| Box::pin(confined(context)),
    ),
    Probe::behavior(
        "sessions::dropped_cell",
        SESSIONS,
        "drops cells that can be interrupted, that have not begun and that cannot be interrupted, \
         and expects the next one soon, with what is kept or lost",
        |context| Box::pin(behaves(context, "drop a cell", between::dropped_cell)),
    )
    .version(2)
    .waits()
    .setup(own),
    Probe::behavior(
        "sessions::idle_timeout",
        SESSIONS,
        "runs a cell that is longer than the session may wait for one, and then waits",
        |context| {
            let beat = context.inside("idle");
            Box::pin(behaves(context, "wait with a cell", async move |sandbox| {
                ends::idle(sandbox, &beat).await
            }))
        },
    )
    .waits()
    .setup(own),
    Probe::behavior(
        "sessions::languages",
        SESSIONS,
        "runs cells of a shell, JavaScript and R that use what earlier ones left, read input, fail \
         and end the interpreter",
        |context| Box::pin(behaves(context, "run cells of each language", languages::run)),
    ),
    Probe::isolation(
        "sessions::pool",
        FILESYSTEM_READ_ROOTS,
        "looks in a session of a pool for what the claim before left: a file, a variable, a process",
        signs::ABSENT,
        |context| Box::pin(pool::run(context)),
    ),
    Probe::behavior(
        "sessions::lower_limits",
        SESSIONS,
        "asks for more time for a cell than its session has",
        |context| Box::pin(behaves(context, "ask for more time", lower_limits)),
    ),
    Probe::behavior(
        "sessions::later_client",
        SESSIONS,
        "runs cells of a later client with a stricter policy in a detached sandbox, and drops its \
         handle",
        |context| Box::pin(later::run(context)),
    )
    .waits(),
    Probe::behavior(
        "sessions::output_limits",
        SESSIONS,
        "asks for less and for more output of cells than the policy keeps, also in forks and branches",
        |context| Box::pin(behaves(context, "write too much", limits::output_limits)),
    )
    .setup(limits::capped),
    Probe::behavior(
        "sessions::pool_idle",
        SESSIONS,
        "claims a session of a pool that ended while it waited, and fills a pool that cannot start any",
        |context| Box::pin(pool::idle(context)),
    )
    .waits(),
    Probe::behavior(
        "sessions::pool_lifetime",
        SESSIONS,
        "claims one sandbox more than a pool may have, and keeps both claims beyond their lifetime",
        |context| Box::pin(pool::lifetime(context)),
    )
    .waits(),
    Probe::behavior(
        "sessions::refused",
        SESSIONS,
        "asks for sessions and cells that there are not, and runs cells afterwards",
        |context| Box::pin(behaves(context, "ask for what there is not", refused::run)),
    ),
    Probe::behavior(
        "sessions::session_timeout",
        SESSIONS,
        "runs a cell of 30 s in a session that may exist for 2 s",
        |context| {
            Box::pin(behaves(
                context,
                "outlive a session",
                between::session_timeout,
            ))
        },
    )
    .version(2)
    .waits(),
    Probe::behavior(
        "sessions::state",
        SESSIONS,
        "runs cells that use the variables of earlier ones, and compares values, output and errors",
        |context| Box::pin(behaves(context, "run cells", state)),
    ),
    Probe::behavior(
        "sessions::time_limit",
        SESSIONS,
        "exceeds a cell's time limit with code that can be interrupted and with code that cannot, \
         and compares what is told as kept and lost with what is",
        |context| {
            Box::pin(behaves(
                context,
                "exceed the time limit of cells",
                time_limit,
            ))
        },
    )
    .version(2)
    .waits(),
    Probe::behavior(
        "sessions::values",
        SESSIONS,
        "compares what cells and forks of Python show with what they made, and each interpreter with \
         what the session was asked for",
        |context| {
            let file = context.inside("value");
            Box::pin(behaves(context, "show values", async move |sandbox| {
                values::values(sandbox, &file).await
            }))
        },
    ),
];

/// The languages of sessions that begin quickly. Each sandbox has the first two.
const LANGUAGES: [&str; 3] = ["python", "shell", "javascript"];

/// Starts a session. `None` if the sandbox lacks a language that it may lack.
async fn start(
    sandbox: &SandboxHandle,
    request: SessionRequest,
) -> sandbox_core::Result<Option<Session>> {
    let may_lack = match &request.language {
        LanguageChoice::Named(name) => !LANGUAGES[..2].contains(&name.as_str()),
        LanguageChoice::Given(_) => false,
    };
    // The second one is of a version that is too old.
    let lacks = [ErrorKind::ProgramNotFound, ErrorKind::LanguageNotSupported];
    match sandbox.session(request).await {
        Err(error) if may_lack && lacks.contains(&error.kind()) => Ok(None),
        started => started.map(Some),
    }
}

/// Runs `act` with a session, and closes it. `None` as for [`start`].
async fn with_session<T>(
    sandbox: &SandboxHandle,
    request: SessionRequest,
    act: impl AsyncFnOnce(&Session) -> sandbox_core::Result<T>,
) -> sandbox_core::Result<Option<T>> {
    let Some(session) = start(sandbox, request).await? else {
        return Ok(None);
    };
    let acted = act(&session).await;
    match session.close().await {
        // It has ended by itself.
        Err(error) if error.kind() == ErrorKind::SessionEnded => acted.map(Some),
        closed => acted.and_then(|acted| closed.map(|()| Some(acted))),
    }
}

/// A sandbox of its own, for a probe that would keep others waiting.
fn own(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::default().fresh()
}

/// Host control: the host has the interpreter.
async fn host_runs(context: &mut ProbeContext, code: &str, wanted: &str) {
    let output = tokio::process::Command::new("/usr/bin/python3")
        .args(["-c", code])
        .output()
        .await;
    let failure = match output {
        Ok(output) if output.stdout == wanted.as_bytes() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    context.record_host_control(control("the host's Python runs", failure));
}

/// Runs `act` with the attacked sandbox.
async fn behaves(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(&SandboxHandle) -> Deviation,
) -> Result<(), ProbeError> {
    host_runs(context, "print(6 * 7)", "42\n").await;
    feature(context, action, async |sandbox| act(sandbox.handle()).await).await;
    context.no_host_effect("the cells do not affect the host");
    Ok(())
}

async fn python(sandbox: &SandboxHandle) -> sandbox_core::Result<Session> {
    sandbox.session(SessionRequest::new("python")).await
}

/// The value of the last expression, or what else happened.
pub(super) async fn value(session: &Session, code: &str) -> sandbox_core::Result<String> {
    let cell = session.run(code).await?;
    let shown = cell
        .result
        .as_ref()
        .and_then(|shown| shown.text("text/plain"));
    Ok(match (&cell.outcome, shown) {
        (CellOutcome::Completed, Some(text)) => text.to_owned(),
        _ => format!("{cell:?}"),
    })
}

/// The first of these that is not as wanted.
fn first<const N: usize>(found: [(&str, String, &str); N]) -> Option<String> {
    let wrong = found.into_iter().find(|(_, found, wanted)| found != wanted);
    wrong.map(|(what, found, wanted)| format!("{what}: {found}, not {wanted}"))
}

async fn state(sandbox: &SandboxHandle) -> Deviation {
    let session = python(sandbox).await?;
    let begin = "import sys\nnumber = 41\nprint('out')\nprint('err', file=sys.stderr)\nnumber";
    let begin = session.run(begin).await?;
    let later = value(&session, "number += 1\nnumber").await?;
    let failed = session.run("before = 1\n\n1 / 0").await?;
    let CellOutcome::Raised(error) = &failed.outcome else {
        return Ok(Some(format!("a division by zero: {failed:?}")));
    };
    let line = error.frames.last().and_then(|frame| frame.line);
    let after = value(&session, "(number, before)").await?;
    Ok(first([
        ("standard output", begin.stdout.text(), "out\n"),
        ("standard error", begin.stderr.text(), "err\n"),
        ("a later cell", later, "42"),
        ("the error", error.name.clone(), "ZeroDivisionError"),
        ("its line", format!("{line:?}"), "Some(3)"),
        ("after the error", after, "(42, 1)"),
    ]))
}

/// The time limit of cells that exceed it.
const LIMIT: Duration = Duration::from_secs(1);

async fn time_limit(sandbox: &SandboxHandle) -> Deviation {
    let session = python(sandbox).await?;
    session.run("kept = 1").await?;
    let start = Instant::now();
    let cell = CellRequest::new("while True: pass").timeout(LIMIT);
    let interrupted = session.run_with(cell, |_| ()).await?;
    let told = ending(&interrupted);
    if start.elapsed() < LIMIT {
        return Ok(Some(format!("ended after {:?}", start.elapsed())));
    }
    let after = value(&session, "kept").await?;
    // The processes that a cell started are ended before its interpreter.
    let waits = "import signal, subprocess\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n\
                 subprocess.run(['sleep', '600'])\n\
                 signal.signal(signal.SIGINT, signal.default_int_handler)";
    let waiting = session
        .run_with(CellRequest::new(waits).timeout(LIMIT), |_| ())
        .await?;
    // A lost interpreter is told with the names of its variables.
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let deaf = session
        .run_with(CellRequest::new(code).timeout(LIMIT), |_| ())
        .await?;
    let names = match &deaf.session {
        SessionState::Restarted(Lost { names, .. }) => names.contains(&"kept".to_owned()),
        SessionState::Kept => false,
        _ => return Ok(Some(format!("{deaf:?}"))),
    };
    let left = value(&session, "'kept' in globals()").await?;
    Ok(first([
        ("the loop", told, "timed out, kept"),
        ("after the loop", after, "1"),
        ("waiting for a process", ending(&waiting), "timed out, kept"),
        ("without interrupts", ending(&deaf), "timed out, restarted"),
        ("whether the loss names it", names.to_string(), "true"),
        ("what is left", left, "False"),
    ]))
}

async fn lower_limits(sandbox: &SandboxHandle) -> Deviation {
    let request = SessionRequest::new("python").timeout(LIMIT);
    let session = sandbox.session(request).await?;
    let slow = "import time\ntime.sleep(5)";
    let cell = CellRequest::new(slow).timeout(LIMIT * 60);
    let longer = session.run_with(cell, |_| ()).await?;
    let usual = session.run(slow).await?;
    Ok(first([
        ("a longer limit", ending(&longer), "timed out, kept"),
        ("no limit", ending(&usual), "timed out, kept"),
    ]))
}

fn ending(cell: &CellResult) -> String {
    let outcome = match &cell.outcome {
        CellOutcome::TimedOut { .. } => "timed out".to_owned(),
        other => format!("{other:?}"),
    };
    let state = match &cell.session {
        SessionState::Kept => "kept",
        SessionState::Restarted(_) => "restarted",
        _ => "unknown",
    };
    format!("{outcome}, {state}")
}

async fn closed_descriptors(sandbox: &SandboxHandle) -> Deviation {
    let session = python(sandbox).await?;
    session.run("kept = 1").await?;
    let cell = CellRequest::new("import os\nos.closerange(0, 1024)").timeout(LIMIT);
    let cell = session.run_with(cell, |_| ()).await?;
    if !matches!(cell.session, SessionState::Restarted(_)) {
        return Ok(Some(format!("the loss is not told: {cell:?}")));
    }
    let left = value(&session, "'kept' in globals()").await?;
    Ok(first([("what is left", left, "False")]))
}

async fn channel(sandbox: &SandboxHandle) -> Deviation {
    let session = python(sandbox).await?;
    // The control: the cell itself has more than the standard streams. The folder's own descriptor
    // is one of those that are listed.
    let own = value(&session, "import os\nlen(os.listdir('/proc/self/fd')) > 4").await?;
    let code = "import subprocess, sys\nlist = 'import os; print(len(os.listdir(\"/proc/self/fd\")))'\n\
                subprocess.run([sys.executable, '-c', list], close_fds=False, capture_output=True, \
                text=True, stdin=subprocess.DEVNULL).stdout.strip()";
    let child = value(&session, code).await?;
    Ok(first([
        ("whether the cell has a channel", own, "True"),
        ("descriptors of a child", child, "'4'"),
    ]))
}

/// Reads a file in a cell. Prints its content, or the name of the error.
fn reading(path: &Path) -> String {
    format!(
        "import errno\ntry: text = open({:?}, 'rb').read().decode()\n\
         except OSError as error: text = errno.errorcode[error.errno]\nprint(text, end='')",
        path.to_string_lossy()
    )
}

async fn confined(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let canary = context.canary(0o644)?;
    let content = String::from_utf8_lossy(canary.content()).into_owned();
    let read = reading(canary.path());
    host_runs(context, &read, &content).await;
    context.allow_control(&Call::new(["alive"])).await;
    let attempt = context
        .with_sandbox(async |sandbox| match texts(sandbox.handle(), &read).await {
            Ok(texts) if texts.contains(&content) => Attempt::Succeeded {
                value: format!("{texts:?}"),
            },
            Ok(texts) if texts.iter().all(|text| text.starts_with('E')) => Attempt::blocked(texts),
            Ok(texts) => Attempt::unclear(format!("{texts:?}")),
            Err(error) => Attempt::unclear(error.to_string()),
        })
        .await
        .unwrap_or_else(|declined| declined);
    context.record_attack(Step::new("read a file in cells", attempt));
    context.host_check(canary.host_check());
    Ok(())
}

/// What the code prints in a new session, a branch of it, and an interpreter after a loss.
async fn texts(sandbox: &SandboxHandle, code: &str) -> sandbox_core::Result<Vec<String>> {
    let session = python(sandbox).await?;
    let mut texts = vec![session.run(code).await?.stdout.text()];
    texts.push(session.branch().await?.run(code).await?.stdout.text());
    session.run("import os\nos._exit(0)").await?;
    texts.push(session.run(code).await?.stdout.text());
    Ok(texts)
}
