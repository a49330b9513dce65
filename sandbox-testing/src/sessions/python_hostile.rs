//! Cells that attack their session: the host is told, and the session works again.

use sandbox_core::{Outcome, SandboxHandle};
use sandbox_lang::{CellOutcome, CellRequest, SessionState};

use super::{LONG, completes, python, restarted, run, value};

/// Finds the descriptor of the channel to the host: the pipe that no stream of the code is.
const FIND_CHANNEL: &str = "import os, struct, json\n\
    def send(kind, data):\n    \
        for fd in range(3, 1024):\n        \
            try: os.write(fd, struct.pack('>cI', kind, len(data)) + data)\n        \
            except OSError: pass\n\
    def done(cell, **more):\n    \
        message = dict(type='done', cell=cell, error=None, variables=None, displays_omitted=0, stdout=0, stderr=0)\n    \
        message.update(more)\n    \
        send(b'm', json.dumps(message).encode())\n\
    kept = 1";

/// A crash is a result with the line of the crash, and the session starts again.
pub async fn crash_is_told(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "kept = 1\nimport ctypes").await;
    let cell = run(
        &session,
        "print('before', flush=True)\n\nctypes.string_at(0)",
    )
    .await;
    let CellOutcome::Died { outcome, details } = &cell.outcome else {
        panic!("{cell:?}");
    };
    assert_eq!(*outcome, Outcome::Signaled { signal: 11 });
    assert!(details.contains("\"<cell 2>\", line 3"), "{details}");
    restarted(&session, &cell).await;
    completes(&session, "kept = 1\nimport os").await;
    let cell = run(&session, "os._exit(3)").await;
    let CellOutcome::Died { outcome, .. } = &cell.outcome else {
        panic!("{cell:?}");
    };
    assert_eq!(*outcome, Outcome::Exited { code: 3 });
    restarted(&session, &cell).await;
    // A result counts the cells of the session, not of the interpreter.
    assert_eq!(run(&session, "1").await.cell, 7);
}

/// A cell that closes all descriptors ends the interpreter, and is told so.
pub async fn closed_descriptors_are_told(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "kept = 1\nimport os").await;
    let request = CellRequest::new("os.closerange(0, 1024)").timeout(LONG);
    let cell = run(&session, request).await;
    let CellOutcome::Died { details, .. } = &cell.outcome else {
        panic!("{cell:?}");
    };
    assert!(details.contains("closed the descriptors"), "{details}");
    restarted(&session, &cell).await;
}

/// Messages that the driver never sends end the interpreter.
pub async fn wrong_messages_end_the_interpreter(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    for forged in [
        "send(b'?', b'')",
        "send(b'm', b'{')",
        "send(b'm', b'{\"type\": \"ready\", \"version\": \"9\"}')",
        "done(999)",
        "done(True)",
        "done(1, more=1)",
        "done(2 ** 70)",
    ] {
        completes(&session, FIND_CHANNEL).await;
        let request = CellRequest::new(format!("{forged}\nwhile True: pass")).timeout(LONG);
        let cell = run(&session, request).await;
        assert!(
            matches!(cell.outcome, CellOutcome::Broken { .. }),
            "{forged}: {cell:?}"
        );
        restarted(&session, &cell).await;
    }
}

/// A cell that forges its own end lies about its own session only. The true end comes too late, and
/// ends the interpreter.
pub async fn forged_end_concerns_its_own_session_only(sandbox: &SandboxHandle) {
    let (session, other) = (python(sandbox).await, python(sandbox).await);
    completes(&other, "kept = 2").await;
    completes(&session, FIND_CHANNEL).await;
    let code = "done(2, variables={'total': 1, 'names': ['false']})";
    let cell = run(&session, code).await;
    assert_eq!(
        (cell.outcome, cell.session),
        (CellOutcome::Completed, SessionState::Kept)
    );
    // The end may come before the next cell, or while that runs.
    let cell = run(&session, "import time; time.sleep(1)").await;
    let lost = match cell.session {
        SessionState::Restarted(lost) => lost,
        _ => cell.lost_before.expect("the interpreter was killed"),
    };
    assert_eq!(lost.names, ["false"]);
    assert_eq!(value(&session, "'kept' in globals()").await, "False");
    assert_eq!(value(&other, "kept").await, "2");
}
