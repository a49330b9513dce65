//! What cells show, and what an interpreter has from its start: values, variables, modules.

use sandbox_core::{Outcome, SandboxHandle};
use sandbox_lang::{
    CellEvent, CellOutcome, CellRequest, CellResult, MimeData, Session, SessionRequest,
    SessionState,
};

use super::{first, value, with_session};
use crate::probes::prelude::*;

/// The largest representation of a value.
const SHOWN: u64 = 1000;

/// A session with everything that a request can give it.
pub(super) async fn values(sandbox: &SandboxHandle, file: &str) -> Deviation {
    let request = SessionRequest::new("python")
        .env("GIVEN", "given")
        .workdir("/tmp")
        .preload(["json.tool"])
        .display_limit(ByteSize::bytes(SHOWN));
    let act = async |session: &Session| {
        let found = shown(session).await?;
        let found = found.or(forked(session).await?);
        let found = found.or(again(session).await?);
        Ok(found.or(beside(sandbox, session, file).await?))
    };
    Ok(with_session(sandbox, request, act).await?.flatten())
}

/// Values and displays, with their limits.
async fn shown(session: &Session) -> Deviation {
    let code = "class Rich:\n    def _repr_html_(self): return '<b>'\n    \
                def _repr_png_(self): return b'\\x89PNG'\n    \
                def _repr_mimebundle_(self, include, exclude): return {'application/x': {'a': 1}}\n    \
                def __repr__(self): return 'rich'\ndisplay(1, Rich())\nRich()";
    let rich = session.run(code).await?;
    let result = rich.result.clone().unwrap_or_default();
    let is_right = rich.displays.len() == 2
        && rich.displays[0].text("text/plain") == Some("1")
        && rich.displays[1] == result
        && result.text("text/plain") == Some("rich")
        && result.text("text/html") == Some("<b>")
        && result.bytes("image/png") == Some(b"\x89PNG")
        && matches!(result.data.get("application/x"), Some(MimeData::Json(json)) if json["a"] == 1);
    if !is_right {
        return Ok(Some(format!("a value: {rich:?}")));
    }
    let long = session.run("'x' * 2000").await?.result.unwrap_or_default();
    let beginning = long.text("text/plain").unwrap_or_default();
    let is_right = long.omitted.get("text/plain") == Some(&2002)
        && beginning.starts_with("'xxx")
        && beginning.len() as u64 <= SHOWN;
    if !is_right {
        return Ok(Some(format!("a long value: {long:?}")));
    }
    let many = session
        .run("for number in range(1100): display(number)")
        .await?;
    let last = value(session, "6 * 7").await?;
    let input = CellRequest::new("import sys\n[_, input(), sys.stdin.read()]").stdin("a\nb\nc");
    let input = session.run(input).await?.result.unwrap_or_default();
    let none = session.run("input()").await?;
    let later = value(session, "import asyncio\nawait asyncio.sleep(0, 'later')").await?;
    let number = session.run("\n1 / 0").await?;
    let error = number.error();
    let place = error.and_then(|error| error.frames.last());
    let place = place.map(|place| (place.file.as_str(), place.line));
    let wanted = (format!("<cell {}>", number.cell), Some(2));
    Ok(first([
        (
            "displays and omitted ones",
            format!("{:?}", (many.displays.len(), many.displays_omitted)),
            "(1000, 100)",
        ),
        ("a value", last, "42"),
        (
            "the last value and the input",
            input.text("text/plain").unwrap_or_default().to_owned(),
            "[42, 'a', 'b\\nc']",
        ),
        ("no input", named(&none), "EOFError"),
        ("await", later, "'later'"),
        (
            "whether an error has its place",
            (place == Some((wanted.0.as_str(), wanted.1))).to_string(),
            "true",
        ),
    ]))
}

/// The name of the error of a cell.
fn named(cell: &CellResult) -> String {
    match cell.error() {
        Some(error) => error.name.clone(),
        None => format!("{:?}", cell.outcome),
    }
}

/// What a fork sees, and what it leaves.
async fn forked(session: &Session) -> Deviation {
    let run = async |code: &str| session.run(CellRequest::new(code).forked()).await;
    session
        .run("import os, sys\nnumbers = [1]\npid = os.getpid()")
        .await?;
    let seen = run("numbers.append(2); other = 1\n(numbers, os.getpid() != pid)").await?;
    let seen = seen.result.unwrap_or_default();
    let left = value(session, "(numbers, 'other' in globals())").await?;
    let mut ends = Vec::new();
    for code in ["os._exit(3)", "os.kill(pid := os.getpid(), 9)", "1 / 0"] {
        let cell = run(code).await?;
        let kept = cell.session == SessionState::Kept;
        ends.push(match cell.outcome {
            CellOutcome::Died {
                outcome: Outcome::Exited { code },
                ..
            } => format!("exited {code}, {kept}"),
            CellOutcome::Died {
                outcome: Outcome::Signaled { signal },
                ..
            } => format!("signal {signal}, {kept}"),
            _ => format!("{}, {kept}", named(&cell)),
        });
    }
    let after = value(session, "numbers").await?;
    Ok(first([
        (
            "what a fork sees",
            seen.text("text/plain").unwrap_or_default().to_owned(),
            "([1, 2], True)",
        ),
        ("what a fork leaves", left, "([1], False)"),
        (
            "ends of forks",
            ends.join("; "),
            "exited 3, true; signal 9, true; ZeroDivisionError, true",
        ),
        ("after the forks", after, "[1]"),
    ]))
}

/// What each interpreter of the session has from its start.
const GIVEN: &str = "import os, sys\n\
    (os.environ.get('GIVEN'), os.getcwd(), 'json.tool' in sys.modules, 'numbers' in globals())";

/// Restarts the interpreter, and lets a cell end another one.
async fn again(session: &Session) -> Deviation {
    let begun = value(session, GIVEN).await?;
    session.restart().await?;
    let restarted = value(session, GIVEN).await?;
    session.run("numbers = [1]").await?;
    let died = session.run("os._exit(3)").await?;
    let names = match &died.session {
        SessionState::Restarted(lost) => lost.names.join(" "),
        other => format!("{other:?}"),
    };
    let code = match &died.outcome {
        CellOutcome::Died { outcome, .. } => outcome.exit_code(),
        _ => None,
    };
    let started = value(session, GIVEN).await?;
    const NEW: &str = "('given', '/tmp', True, False)";
    Ok(first([
        ("at the start", begun, "('given', '/tmp', True, True)"),
        ("after a restart", restarted, NEW),
        ("the code of an end", format!("{code:?}"), "Some(3)"),
        ("what an end lost", names, "numbers os sys"),
        ("after an end", started, NEW),
    ]))
}

/// The host writes a file while a cell waits for it, once its output has come.
async fn beside(sandbox: &SandboxHandle, session: &Session, file: &str) -> Deviation {
    let (sender, mut written) = tokio::sync::mpsc::unbounded_channel();
    let code = format!(
        "import time\nprint('begun', flush=True)\nwhile not os.path.exists('{file}'): \
         time.sleep(0.02)\nprint(open('{file}').read())"
    );
    let told = |event: &CellEvent| {
        if let CellEvent::Stdout(bytes) = event {
            // The receiver is gone after the first.
            let _ = sender.send(bytes.clone());
        }
    };
    // A cell whose output does not come has no file, and ends at its time limit.
    let write = async {
        written.recv().await;
        // The name appears with its content.
        sandbox.upload(file, 0o644, &b"between"[..]).await
    };
    let (cell, uploaded) = tokio::join!(session.run_with(code, told), write);
    uploaded?;
    Ok(first([(
        "a file that the host writes while a cell runs",
        cell?.stdout.text(),
        "begun\nbetween\n",
    )]))
}
