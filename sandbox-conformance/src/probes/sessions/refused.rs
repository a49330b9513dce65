//! What sessions do not take, and that they go on.

use sandbox_core::{Error, ErrorKind, SandboxHandle};
use sandbox_lang::{CellRequest, Language, Session, SessionRequest, Sessions as _, Step};

use super::{first, value, with_session};
use crate::probes::prelude::*;

/// Asks for sessions and cells that there are not.
pub(super) async fn run(sandbox: &SandboxHandle) -> Deviation {
    let python = || SessionRequest::new("python");
    let absent = Language::new("sh", "sh", Step::new(["/no/such/shell"]));
    let requests = [
        (
            "ruby",
            SessionRequest::new("ruby"),
            ErrorKind::LanguageNotSupported,
        ),
        (
            "an unknown language",
            SessionRequest::new("none"),
            ErrorKind::LanguageNotSupported,
        ),
        (
            "a missing shell",
            SessionRequest::new(absent),
            ErrorKind::ProgramNotFound,
        ),
        (
            "modules of a shell",
            SessionRequest::new("shell").preload(["os"]),
            ErrorKind::InvalidRequest,
        ),
        (
            "a missing module",
            python().preload(["no_such_module"]),
            ErrorKind::SetupFailed,
        ),
        (
            "large displays",
            python().display_limit(ByteSize::bytes((8 << 20) + 1)),
            ErrorKind::InvalidRequest,
        ),
    ];
    for (what, request, kind) in requests {
        match sandbox.session(request).await {
            Err(error) if error.kind() == kind => {}
            Err(error) => return Ok(Some(format!("{what}: {error}"))),
            Ok(session) => {
                session.close().await?;
                return Ok(Some(format!("{what}: a session")));
            }
        }
    }
    let shell = SessionRequest::new("shell");
    let deviation = with_session(sandbox, shell, of_a_shell).await?.flatten();
    if deviation.is_some() {
        return Ok(deviation);
    }
    Ok(with_session(sandbox, python(), of_threads).await?.flatten())
}

fn is_invalid<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::InvalidRequest)
}

async fn of_a_shell(session: &Session) -> Deviation {
    session.run("kept=1").await?;
    let large = " ".repeat((1 << 20) + 1);
    let branch = session.branch().await;
    let is_branch_refused = is_invalid(&branch);
    if let Ok(branch) = branch {
        branch.close().await?;
    }
    let refused = [
        is_branch_refused,
        is_invalid(&session.run(CellRequest::new("true").forked()).await),
        is_invalid(&session.run(large.as_str()).await),
        is_invalid(
            &session
                .run(CellRequest::new("cat").stdin(large.as_str()))
                .await,
        ),
    ];
    let after = session.run("echo $kept").await?;
    Ok(first([
        (
            "refused",
            format!("{refused:?}"),
            "[true, true, true, true]",
        ),
        ("the shell afterwards", after.stdout.text(), "1\n"),
    ]))
}

/// An interpreter with a thread has no forks and no branches. The error names the thread.
async fn of_threads(session: &Session) -> Deviation {
    let code = "import threading\ndone = threading.Event()\n\
                thread = threading.Thread(target=done.wait, name='waiter', daemon=True)\n\
                thread.start()";
    session.run(code).await?;
    let forked = session.run(CellRequest::new("1").forked()).await;
    let names_it = |error: &Error| error.to_string().contains("waiter");
    let forked = is_invalid(&forked) && forked.as_ref().is_err_and(names_it);
    let branch = session.branch().await;
    let branched = match &branch {
        // Without namespaces there are no branches.
        Err(error) if error.kind() == ErrorKind::Unsupported => true,
        branch => is_invalid(branch) && branch.as_ref().is_err_and(names_it),
    };
    if let Ok(branch) = branch {
        branch.close().await?;
    }
    session.run("done.set(); thread.join()").await?;
    let after = session
        .run(CellRequest::new("done.is_set()").forked())
        .await?;
    let after = after.result.unwrap_or_default();
    Ok(first([
        ("whether a fork is refused", forked.to_string(), "true"),
        ("whether a branch is refused", branched.to_string(), "true"),
        (
            "a fork without threads",
            after.text("text/plain").unwrap_or_default().to_owned(),
            "True",
        ),
        (
            "the session",
            value(session, "done.is_set()").await?,
            "True",
        ),
    ]))
}
