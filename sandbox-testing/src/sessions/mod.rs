//! Tests of sessions that every backend passes: they get a sandbox with the language.

pub mod javascript;
pub mod plot_libraries;
pub mod pool;
pub mod python;
pub mod python_branches;
pub mod python_forks;
pub mod python_hostile;
pub mod python_plots;
pub mod r;
pub mod shell;

use std::time::Duration;

use sandbox_core::SandboxHandle;
use sandbox_lang::{
    CellOutcome, CellRequest, CellResult, Lost, Session, SessionRequest, SessionState, Sessions,
};

/// Longer than any cell here takes that ends by itself, also on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Longer than a cell needs to write 1 GiB, also on a busy machine.
const MUCH: Duration = Duration::from_secs(300);

/// Shorter than [`LONG`] by more than a busy machine needs.
const SOON: Duration = Duration::from_secs(40);

/// The time limit of a cell that does not end by itself.
const SHORT: Duration = Duration::from_secs(1);

async fn python(sandbox: &SandboxHandle) -> Session {
    start(sandbox, SessionRequest::new("python")).await
}

async fn start(sandbox: &SandboxHandle, request: SessionRequest) -> Session {
    let session = sandbox.session(request).await;
    session.expect("the interpreter starts")
}

async fn run(session: &Session, cell: impl Into<CellRequest>) -> CellResult {
    session.run(cell).await.expect("the sandbox works")
}

/// Runs a cell that must end by itself.
async fn completes(session: &Session, code: &str) -> CellResult {
    let cell = run(session, code).await;
    assert_eq!(cell.outcome, CellOutcome::Completed, "{code}: {cell:?}");
    assert_eq!(cell.session, SessionState::Kept, "{code}");
    cell
}

/// The text of a cell's last expression.
async fn value(session: &Session, code: &str) -> String {
    let cell = completes(session, code).await;
    let shown = cell.result.unwrap_or_else(|| panic!("{code}: no value"));
    let text = shown.text("text/plain").expect("every value has a text");
    text.to_owned()
}

/// Asserts that an interrupt which comes before an endless cell has begun is not lost.
async fn interrupted_at_once(session: &Session, endless: &str) {
    for _ in 0..5 {
        let cell = CellRequest::new(endless).timeout(Duration::from_millis(1));
        let cell = run(session, cell).await;
        let is_late = matches!(cell.outcome, CellOutcome::TimedOut { .. });
        assert!(is_late && cell.session == SessionState::Kept, "{cell:?}");
    }
}

/// Asserts that the cell ended the interpreter, which had the variable `kept`, and that the session
/// works again.
async fn restarted(session: &Session, cell: &CellResult) -> Lost {
    let SessionState::Restarted(lost) = &cell.session else {
        panic!("{cell:?}");
    };
    assert!(lost.names.contains(&"kept".to_owned()), "{lost:?}");
    let code = match session.language() {
        "python" => "str('kept' not in globals()).lower()",
        _ => "String(typeof kept === 'undefined')",
    };
    assert_eq!(value(session, code).await, "'true'");
    lost.clone()
}
