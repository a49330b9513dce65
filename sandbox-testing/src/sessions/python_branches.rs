//! Copies of an interpreter that are sessions of their own.

use sandbox_core::{ErrorKind, Outcome, SandboxHandle};
use sandbox_lang::{CellOutcome, CellRequest, Session, SessionState};

use super::{LONG, SHORT, completes, interrupted_at_once, python, restarted, run, value};

/// How often a process is asked for, each 50 ms apart, before it counts as alive: a minute.
const ROUNDS: usize = 1200;

async fn branch(session: &Session) -> Session {
    session.branch().await.expect("the interpreter is copied")
}

/// Waits until no process has this number. Processes that have ended and were not waited for
/// do not count.
async fn is_gone(session: &Session, pid: &str) {
    let code = format!(
        "import time\nfor _ in range({ROUNDS}):\n    try:\n        \
         state = open('/proc/{pid}/stat').read().rpartition(')')[2].split()[0]\n    \
         except OSError:\n        break\n    if state == 'Z':\n        break\n    \
         time.sleep(0.05)\nelse:\n    raise RuntimeError(state)"
    );
    let cell = CellRequest::new(code).timeout(2 * LONG);
    let cell = run(session, cell).await;
    assert_eq!(cell.outcome, CellOutcome::Completed, "{pid}: {cell:?}");
}

/// A branch begins with the variables of its session, and both go on without each other.
pub async fn branch_has_the_state_and_is_independent(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "import os, sys\nx = [1]\ndef f(): return x").await;
    let first = branch(&session).await;
    assert_eq!(first.version(), session.version());
    completes(&first, "x.append(2); y = 1").await;
    completes(&session, "x.append(3)").await;
    let second = branch(&first).await;
    completes(&second, "x.append(4)").await;
    assert_eq!(value(&first, "(f(), y)").await, "([1, 2], 1)");
    assert_eq!(value(&second, "(f(), y)").await, "([1, 2, 4], 1)");
    let expected = "([1, 3], 'y' in globals())";
    assert_eq!(value(&session, expected).await, "([1, 3], False)");
    // Output and input are the branch's own, also those of its programs.
    let code = "print('out'); print('err', file=sys.stderr)\nos.system('echo child')\n\
                display(x)\ninput()";
    let cell = run(&first, CellRequest::new(code).stdin("line\n")).await;
    assert_eq!(cell.stdout.text(), "out\nchild\n");
    assert_eq!(cell.stderr.text(), "err\n");
    assert_eq!(cell.displays[0].text("text/plain"), Some("[1, 2]"));
    let result = cell.result.expect("a value");
    assert_eq!(result.text("text/plain"), Some("'line'"));
    // One waits for the other, which is possible only if both run.
    let wait = "import time\nfolder = os.environ.get('TMPDIR', '/tmp')\n\
                def meet(mine, other):\n    open(folder + '/branch-' + mine, 'w').close()\n    \
                while not os.path.exists(folder + '/branch-' + other): time.sleep(0.02)";
    completes(&session, wait).await;
    completes(&first, wait).await;
    tokio::join!(
        completes(&session, "meet('a', 'b')"),
        completes(&first, "meet('b', 'a')")
    );
    let cell = run(&second, "\n1 / 0").await;
    let error = cell.error().expect("it raises");
    assert_eq!(error.name, "ZeroDivisionError");
    assert_eq!(value(&second, "x.append(5); len(x)").await, "4");
    second.close().await.expect("it works");
    assert_eq!(value(&first, "len(x)").await, "2");
}

/// A branch is interrupted and killed as any session, and no other one loses anything by it.
pub async fn end_of_a_branch_concerns_it_alone(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "import ctypes, os, signal\nkept = 1").await;
    let first = branch(&session).await;
    for code in ["while True: pass", "import time\ntime.sleep(300)"] {
        let cell = run(&first, CellRequest::new(code).timeout(SHORT)).await;
        let is_interrupted = matches!(cell.outcome, CellOutcome::TimedOut { error: Some(_) });
        assert!(
            is_interrupted && cell.session == SessionState::Kept,
            "{cell:?}"
        );
    }
    interrupted_at_once(&first, "while True: pass").await;
    let pid = value(&first, "os.getpid()").await;
    let code = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let cell = run(&first, CellRequest::new(code).timeout(SHORT)).await;
    restarted(&first, &cell).await;
    is_gone(&session, &pid).await;
    for (code, expected) in [
        ("os._exit(3)", Outcome::Exited { code: 3 }),
        ("os.kill(os.getpid(), 9)", Outcome::Signaled { signal: 9 }),
        ("ctypes.string_at(0)", Outcome::Signaled { signal: 11 }),
    ] {
        let other = branch(&session).await;
        let cell = run(&other, CellRequest::new(code).timeout(LONG)).await;
        let CellOutcome::Died { outcome, details } = &cell.outcome else {
            panic!("{code}: {cell:?}");
        };
        assert_eq!(*outcome, expected, "{code}: {details}");
        restarted(&other, &cell).await;
    }
    let other = branch(&session).await;
    let pid = value(&other, "os.getpid()").await;
    drop(other);
    is_gone(&session, &pid).await;
    assert_eq!(value(&session, "kept").await, "1");
}

/// A cell of the session that loses its children keeps its branches, and they end with it.
pub async fn branch_ends_with_its_session(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "import os\nkept = 1").await;
    let branched = branch(&session).await;
    let code = "os.system(\"trap '' INT; sleep 300; sleep 300\")";
    let cell = run(&session, CellRequest::new(code).timeout(SHORT)).await;
    assert_eq!(cell.session, SessionState::Kept, "{cell:?}");
    assert_eq!(value(&branched, "kept").await, "1");
    let pid = value(&branched, "os.getpid()").await;
    let other = python(sandbox).await;
    session.close().await.expect("it works");
    is_gone(&other, &pid).await;
    let cell = run(&branched, "'kept' in globals()").await;
    // The engine tells the end of the branch later than `/proc` does. A cell that comes in between
    // has no interpreter, and says so itself.
    let Some(lost) = &cell.lost_before else {
        restarted(&branched, &cell).await;
        return;
    };
    assert!(lost.names.contains(&"kept".to_owned()), "{cell:?}");
    let result = cell.result.expect("a value");
    assert_eq!(result.text("text/plain"), Some("False"));
}

/// What cannot be copied is refused, and the session goes on.
pub async fn interpreter_with_threads_has_no_branches(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    let code = "import threading\ndone = threading.Event()\n\
                thread = threading.Thread(target=done.wait, name='waiter'); thread.start()";
    completes(&session, code).await;
    let error = session.branch().await.expect_err("it has a thread");
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    assert!(error.to_string().contains("waiter"), "{error}");
    completes(&session, "done.set(); thread.join()").await;
    assert_eq!(
        value(&branch(&session).await, "done.is_set()").await,
        "True"
    );
}
