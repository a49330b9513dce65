//! Branches: sessions that begin with the state of another one.

use sandbox_core::SandboxHandle;
use sandbox_lang::{CellRequest, Session, SessionRequest, SessionState, Sessions as _};

use super::{LIMIT, ending, first, value};
use crate::probes::prelude::*;

/// Branches a session, and closes both.
pub(super) async fn run(sandbox: &SandboxHandle) -> Deviation {
    let request = SessionRequest::new("python").timeout(LIMIT);
    let session = sandbox.session(request).await?;
    session.run("number = [1]").await?;
    let branch = session.branch().await?;
    let found = independent(&session, &branch).await;
    session.close().await?;
    let orphaned = orphaned(&branch).await;
    branch.close().await?;
    Ok(found?.or(orphaned?))
}

async fn independent(session: &Session, branch: &Session) -> Deviation {
    let inherited = value(branch, "number.append(2)\nnumber").await?;
    let unchanged = value(session, "number").await?;
    // The branch asks for more time than the session has.
    let slow = CellRequest::new("import time\ntime.sleep(20)").timeout(LIMIT * 20);
    let (slow, beside) = tokio::join!(branch.run(slow), value(session, "6 * 7"));
    let kept = value(branch, "number").await?;
    Ok(first([
        ("the branch", inherited, "[1, 2]"),
        ("the session", unchanged, "[1]"),
        (
            "a slow cell of the branch",
            ending(&slow?),
            "timed out, kept",
        ),
        ("the session meanwhile", beside?, "42"),
        ("the branch after a slow cell", kept, "[1, 2]"),
    ]))
}

/// The branch of a closed session has lost its variables, and says so: in the first result, or in
/// one that it interrupts.
async fn orphaned(branch: &Session) -> Deviation {
    let cell = branch.run("'number' in globals()").await?;
    let lost = match (&cell.lost_before, &cell.session) {
        (Some(lost), _) | (None, SessionState::Restarted(lost)) => &lost.names[..],
        (None, _) => &[],
    };
    let left = value(branch, "'number' in globals()").await?;
    let names_it = lost.contains(&"number".to_owned());
    Ok(first([
        ("whether the loss names it", names_it.to_string(), "true"),
        ("what is left without the session", left, "False"),
    ]))
}
