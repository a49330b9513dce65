//! Sessions in each language that the sandbox has.

use sandbox_core::SandboxHandle;
use sandbox_lang::{CellOutcome, CellRequest, CellResult, Session, SessionRequest, SessionState};

use super::with_session;
use crate::probes::prelude::*;

/// A cell, its standard input, and what is shown of it: see [`shown`].
type Cell = (&'static str, &'static str, &'static str);

const SHELL: &[Cell] = &[
    ("cd /; x='a  b'; f() { echo \"<$x>\"; }", "", "completed"),
    (
        "f; pwd; alias greet='echo hello'",
        "",
        "completed: <a  b>|/",
    ),
    ("greet; trap 'echo trapped' USR1", "", "completed: hello"),
    ("kill -USR1 $$", "", "completed: trapped"),
    (
        "read -r line; echo \"$line\"; cat",
        "one\ntwo",
        "completed: one|two",
    ),
    ("cat", "", "completed"),
    ("true; false", "", "status 1"),
    ("sh -c 'kill -9 $$'", "", "status 137"),
    ("set -u; echo $nosuch; echo after", "", "status 1"),
    ("set +u; echo \"$x\"", "", "completed: a  b"),
    ("exit 3", "", "exited 3, lost line x"),
    ("echo ${x-none}", "", "completed: none"),
    ("set -e; y=1", "", "completed"),
    ("false; echo after", "", "exited 1, lost y"),
];

const JAVASCRIPT: &[Cell] = &[
    (
        "const x = 1; let y = 2; function f() { return y }",
        "",
        "completed",
    ),
    ("const x = 10; y += 1; x + f()", "", "completed = 13"),
    (
        "console.log('out'); await Promise.resolve(x)",
        "",
        "completed: out = 10",
    ),
    ("Promise.resolve(x + 1)", "", "completed = 11"),
    (
        "import { readFileSync as read } from 'node:fs'\nread(0, 'utf8')",
        "a\nb",
        "completed = 'a\\nb'",
    ),
    ("read(0, 'utf8')", "", "completed = ''"),
    ("display(7); null.foo", "", "TypeError in cell-7 1"),
    ("y", "", "completed = 3"),
    ("process.exit(3)", "", "exited 3, lost f read x y"),
    ("typeof y", "", "completed = 'undefined'"),
];

const R: &[Cell] = &[
    ("x <- 1\nf <- function() x + 1", "", "completed"),
    ("x <- 2; cat('out'); f()", "", "completed: out = [1] 3"),
    (
        "readLines(file('stdin'))",
        "a\nb\n",
        "completed = [1] \"a\" \"b\"",
    ),
    ("invisible(7)", "", "completed"),
    ("1\nstop('wrong')", "", "simpleError in <cell 5> 2"),
    ("quit(status = 3)", "", "exited 3, lost f x"),
    ("exists('x')", "", "completed = [1] FALSE"),
];

/// Runs the cells of each language.
pub(super) async fn run(sandbox: &SandboxHandle) -> Deviation {
    // Python has probes of its own.
    for (language, cells) in [("shell", SHELL), ("javascript", JAVASCRIPT), ("r", R)] {
        let act = async |session: &Session| all(session, cells).await;
        let request = SessionRequest::new(language);
        let deviation = with_session(sandbox, request, act).await?;
        if let Some(Some(deviation)) = deviation {
            return Ok(Some(format!("{language}: {deviation}")));
        }
    }
    Ok(None)
}

async fn all(session: &Session, cells: &[Cell]) -> Deviation {
    for (code, input, wanted) in cells {
        let cell = session.run(CellRequest::new(*code).stdin(*input)).await?;
        let found = shown(&cell);
        if found != *wanted {
            return Ok(Some(format!("{code}: {found}, not {wanted}: {cell:?}")));
        }
    }
    Ok(None)
}

/// The outcome, the lines of standard output, and the value.
fn shown(cell: &CellResult) -> String {
    let mut shown = match &cell.outcome {
        CellOutcome::Completed => "completed".to_owned(),
        CellOutcome::Failed { status } => return format!("status {status}"),
        CellOutcome::Died { outcome, .. } => format!("exited {:?}", outcome.exit_code()),
        CellOutcome::Raised(error) => {
            let frame = error.frames.first();
            let place = frame.map(|frame| (frame.file.as_str(), frame.line));
            let (file, line) = place.unwrap_or_default();
            return format!("{} in {file} {}", error.name, line.unwrap_or_default());
        }
        other => format!("{other:?}"),
    };
    if let SessionState::Restarted(lost) = &cell.session {
        // Only bash tells its functions.
        let mut names = lost.names.clone();
        names.retain(|name| !name.ends_with("()"));
        return format!("{shown}, lost {}", names.join(" "))
            .replace("Some(", "")
            .replace(')', "");
    }
    let text = cell.stdout.text();
    if !text.is_empty() {
        shown += &format!(": {}", text.trim_end().replace('\n', "|"));
    }
    let value = cell
        .result
        .as_ref()
        .and_then(|value| value.text("text/plain"));
    if let Some(value) = value {
        shown += &format!(" = {value}");
    }
    shown
}
