//! Cells that run in a fork of the interpreter.

use std::time::Duration;

use sandbox_core::{ErrorKind, Outcome, SandboxHandle};
use sandbox_lang::{CellOutcome, CellRequest, CellResult, Session, SessionRequest, SessionState};

use super::{LONG, SHORT, completes, python, run, start, value};

async fn forked(session: &Session, code: &str) -> CellResult {
    let cell = run(session, CellRequest::new(code).forked()).await;
    assert_eq!(cell.session, SessionState::Kept, "{code}: {cell:?}");
    cell
}

/// A fork has the session's variables, and what it changes is not kept. Its results are as others.
pub async fn fork_sees_variables_and_keeps_none(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "import os, sys\nx = [1]\npid = os.getpid()").await;
    for round in 0..3 {
        let code = "x.append(2); y = 1\nprint('out'); print('err', file=sys.stderr)\n\
                    os.system('echo child')\ndisplay(x)\n(x, os.getpid() != pid)";
        let cell = forked(&session, code).await;
        assert_eq!(cell.outcome, CellOutcome::Completed, "{cell:?}");
        assert_eq!(cell.stdout.text(), "out\nchild\n", "{round}");
        assert_eq!(
            (cell.stdout.total, cell.stderr.text().as_str()),
            (10, "err\n")
        );
        let shown = cell.result.expect("a value");
        assert_eq!(shown.text("text/plain"), Some("([1, 2], True)"));
        assert_eq!(cell.displays[0].text("text/plain"), Some("[1, 2]"));
    }
    assert_eq!(
        value(&session, "(x, 'y' in globals())").await,
        "([1], False)"
    );
    let request = CellRequest::new("import asyncio\nawait asyncio.sleep(0)\ninput()");
    let cell = run(&session, request.stdin("line\n").forked()).await;
    assert_eq!(
        cell.result.expect("a value").text("text/plain"),
        Some("'line'")
    );
    let cell = forked(&session, "\n1 / 0").await;
    let error = cell.error().expect("it raises");
    assert_eq!(
        (error.name.as_str(), error.frames[0].line),
        ("ZeroDivisionError", Some(2))
    );
}

/// Modules that are loaded first are loaded in each fork.
pub async fn preloaded_modules_are_loaded(sandbox: &SandboxHandle) {
    let request = SessionRequest::new("python").preload(["json.tool", "decimal"]);
    let session = start(sandbox, request).await;
    let code = "import sys\n('decimal' in sys.modules, 'json.tool' in sys.modules)";
    let cell = forked(&session, code).await;
    assert_eq!(
        cell.result.expect("a value").text("text/plain"),
        Some("(True, True)")
    );
    // They are no variables.
    assert_eq!(value(&session, "'decimal' in globals()").await, "False");
    let request = SessionRequest::new("python").preload(["no_such_module"]);
    let error = sandbox_lang::Sessions::session(sandbox, request).await;
    let error = error.expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
    assert!(error.to_string().contains("no_such_module"), "{error}");
}

/// The end of a fork is told, and is not the end of the session.
pub async fn end_of_a_fork_is_told(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "import ctypes, os, signal\nkept = 1").await;
    for (code, expected) in [
        ("os._exit(3)", Outcome::Exited { code: 3 }),
        ("os._exit(0)", Outcome::Exited { code: 0 }),
        ("os.kill(os.getpid(), 9)", Outcome::Signaled { signal: 9 }),
        ("\nctypes.string_at(0)", Outcome::Signaled { signal: 11 }),
        (
            "os.closerange(3, 1024); os._exit(4)",
            Outcome::Exited { code: 4 },
        ),
    ] {
        let cell = forked(&session, code).await;
        let CellOutcome::Died { outcome, details } = &cell.outcome else {
            panic!("{code}: {cell:?}");
        };
        assert_eq!(*outcome, expected, "{code}");
        if code.contains("ctypes") {
            assert!(details.contains("line 2 in <module>"), "{details}");
        }
        assert_eq!(value(&session, "kept").await, "1");
    }
}

/// At its time limit a fork is interrupted, and killed if that is of no use. The session is kept.
pub async fn endless_fork_is_ended(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "import os, signal, time\nkept = 1").await;
    for (code, is_interrupted) in [
        ("while True: pass", true),
        ("time.sleep(300)", true),
        (
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
            false,
        ),
        (
            "os.system(\"trap '' INT; sleep 300; sleep 300\")\nprint('after')",
            false,
        ),
        ("os.closerange(3, 1024)\nwhile True: pass", false),
    ] {
        let cell = run(&session, CellRequest::new(code).timeout(SHORT).forked()).await;
        let CellOutcome::TimedOut { error } = &cell.outcome else {
            panic!("{code}: {cell:?}");
        };
        assert_eq!(error.is_some(), is_interrupted, "{code}: {cell:?}");
        assert_eq!(cell.session, SessionState::Kept, "{code}: {cell:?}");
        assert_eq!(value(&session, "kept").await, "1", "{code}");
    }
    // An interrupt that comes before the fork has begun is not lost.
    for _ in 0..5 {
        let cell = CellRequest::new("while True: pass").timeout(Duration::from_millis(1));
        let cell = run(&session, cell.forked()).await;
        let is_interrupted = matches!(cell.outcome, CellOutcome::TimedOut { error: Some(_) });
        assert!(is_interrupted, "{cell:?}");
    }
}

/// A process that a fork leaves behind does not delay its end.
pub async fn background_process_does_not_delay_a_fork(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    let code = "import os\nif os.fork() == 0:\n    import time\n    time.sleep(300)\nos.system('sleep 300 &')\nprint('end')";
    let cell = run(&session, CellRequest::new(code).timeout(LONG).forked()).await;
    assert_eq!(
        (cell.outcome, cell.stdout.text().as_str()),
        (CellOutcome::Completed, "end\n")
    );
}

/// A fork has no other threads, so an interpreter with threads is not forked.
pub async fn interpreter_with_threads_is_not_forked(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    let code = "import threading\ndone = threading.Event()\n\
                thread = threading.Thread(target=done.wait, name='waiter'); thread.start()";
    completes(&session, code).await;
    let error = session.run(CellRequest::new("1").forked()).await;
    let error = error.expect_err("it has a thread");
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    assert!(error.to_string().contains("waiter"), "{error}");
    completes(&session, "done.set(); thread.join()").await;
    let cell = forked(&session, "1").await;
    assert_eq!(cell.outcome, CellOutcome::Completed, "{cell:?}");
}
