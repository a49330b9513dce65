//! What a session of Python keeps, shows and limits.

use std::time::Duration;

use sandbox_core::{ByteSize, ErrorKind, SandboxHandle};
use sandbox_lang::Sessions as _;
use sandbox_lang::{CellEvent, CellOutcome, CellRequest, MimeData, SessionRequest, SessionState};
use tokio::time::Instant;

use super::{
    LONG, MUCH, SHORT, SOON, completes, interrupted_at_once, python, restarted, run, start, value,
};

/// Variables, imports, functions and options of the compiler are kept, and the last value is shown.
pub async fn state_is_kept(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    assert!(session.version().starts_with("3."), "{session:?}");
    completes(&session, "from __future__ import annotations\nimport math").await;
    completes(
        &session,
        "def area(r: NoSuchType):\n    return math.pi * r * r",
    )
    .await;
    assert_eq!(value(&session, "round(area(2), 2)").await, "12.57");
    assert_eq!(value(&session, "_ + 1").await, "13.57");
    let cell = completes(&session, "print('out'); x = 1").await;
    assert_eq!((cell.stdout.text().as_str(), cell.result), ("out\n", None));
    let code = "import asyncio\nawait asyncio.sleep(0.01)\nasync def two(): return 2\nawait two()";
    assert_eq!(value(&session, code).await, "2");
    let code = "import pickle, __main__\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))) is A";
    assert_eq!(value(&session, code).await, "True");
    session.restart().await.expect("it starts");
    assert_eq!(value(&session, "'math' in globals()").await, "False");
    session.close().await.expect("it ends");
}

/// Errors have the lines of the code and the names of the cells.
pub async fn errors_have_the_lines_of_the_cells(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "\ndef f():\n    return 1 / 0\n").await;
    let cell = run(&session, "# a comment\n\nf()\n").await;
    let error = cell.error().expect("it raises");
    assert_eq!(error.name, "ZeroDivisionError");
    assert_eq!(error.message, "division by zero");
    let frames = error.frames.iter();
    let places = frames.map(|frame| (frame.file.as_str(), frame.line));
    let expected = [("<cell 2>", Some(3)), ("<cell 1>", Some(3))];
    assert_eq!(places.collect::<Vec<_>>(), expected);
    assert!(error.traceback.contains("return 1 / 0"), "{error:?}");
    assert_eq!(cell.session, SessionState::Kept);
    let check = cell.check().expect_err("it raised");
    assert_eq!(check.kind(), ErrorKind::ProgramFailed, "{check}");
    let cell = run(&session, "1\n2 +\n").await;
    let error = cell.error().expect("it does not compile");
    assert_eq!(
        (error.name.as_str(), error.frames[0].line),
        ("SyntaxError", Some(2))
    );
    let cell = run(&session, "raise SystemExit(3)").await;
    assert_eq!(cell.error().expect("it raises").name, "SystemExit");
    let cell = run(&session, "raise ValueError('\\ud800')").await;
    assert_eq!(cell.error().expect("it raises").name, "ValueError");
    completes(&session, "f").await;
}

/// Values have all their representations, in order with other displays.
pub async fn values_have_representations(sandbox: &SandboxHandle) {
    let request = SessionRequest::new("python").display_limit(ByteSize::kib(64));
    let session = start(sandbox, request).await;
    let code = "class Rich:\n    def _repr_html_(self): return '<b>'\n    \
                def _repr_png_(self): return b'\\x89PNG'\n    \
                def _repr_mimebundle_(self, include, exclude): return {'application/x': {'a': 1}}\n    \
                def __repr__(self): return 'rich'\n\
                display(1, Rich())\nRich()";
    let cell = completes(&session, code).await;
    assert_eq!(cell.displays.len(), 2);
    assert_eq!(cell.displays[0].text("text/plain"), Some("1"));
    let shown = cell.result.expect("a value");
    assert_eq!(shown, cell.displays[1]);
    assert_eq!(shown.text("text/html"), Some("<b>"));
    assert_eq!(shown.bytes("image/png"), Some(&b"\x89PNG"[..]));
    assert_eq!(shown.text("text/plain"), Some("rich"));
    let json = MimeData::Json(serde_json::json!({"a": 1}));
    assert_eq!(shown.data["application/x"], json);
    // What is too large is told, and of a text its beginning is kept.
    let cell = completes(&session, "'x' * 100_000").await;
    let shown = cell.result.expect("a value");
    assert_eq!(shown.omitted["text/plain"], 100_002);
    let text = shown.text("text/plain").expect("a beginning");
    assert!(
        text.starts_with("'xxx") && text.len() <= 64 << 10,
        "{}",
        text.len()
    );
    let cell = completes(&session, "for i in range(1200): display(i)").await;
    assert_eq!((cell.displays.len(), cell.displays_omitted), (1000, 200));
    // What the host's JSON cannot hold is text.
    let code = "class Deep:\n    def _repr_json_(self):\n        deep = []\n        \
                for _ in range(200): deep = [deep]\n        return deep\nDeep()";
    let cell = completes(&session, code).await;
    let shown = cell.result.expect("a value");
    assert!(
        shown
            .text("application/json")
            .is_some_and(|text| text.starts_with("[[["))
    );
    // A broken representation is an error in standard error, not of the cell.
    let code = "class Bad:\n    def _repr_html_(self): 1 / 0\nBad()";
    let cell = completes(&session, code).await;
    assert!(
        cell.stderr.text().contains("line 2, in _repr_html_"),
        "{cell:?}"
    );
}

/// A cell reads the input that it was given, and then its end.
pub async fn input_is_given_or_ends(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    let request = CellRequest::new("import sys\n[input(), sys.stdin.read()]").stdin("a\nb\nc");
    let cell = run(&session, request).await;
    let shown = cell.result.expect("a value");
    assert_eq!(shown.text("text/plain"), Some("['a', 'b\\nc']"));
    let cell = run(&session, "input()").await;
    assert_eq!(cell.error().expect("there is none").name, "EOFError");
    let request = CellRequest::new("import os; os.system('cat')").stdin("for a child\n");
    assert_eq!(run(&session, request).await.stdout.text(), "for a child\n");
    let code = "sys.stdin.close(); sys.stdout.close(); os.close(0); os.close(1)";
    completes(&session, code).await;
    let cell = run(&session, CellRequest::new("print(input())").stdin("again")).await;
    assert_eq!(cell.stdout.text(), "again\n");
}

/// Output arrives while the cell runs, also that of child processes.
pub async fn output_is_live(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    let code = "import os, sys, time\nprint('one')\nos.system('echo two; echo three >&2')\n\
                time.sleep(60)";
    let mut seen = String::new();
    let request = CellRequest::new(code).timeout(LONG);
    // The caller interrupts a cell by dropping its future.
    let (enough, mut has_enough) = tokio::sync::mpsc::channel(1);
    let running = session.run_with(request, |event| {
        match event {
            CellEvent::Stdout(bytes) | CellEvent::Stderr(bytes) => {
                seen += &String::from_utf8_lossy(bytes);
            }
            other => panic!("{other:?}"),
        }
        if ["one", "two", "three"]
            .iter()
            .all(|part| seen.contains(part))
        {
            // The receiver takes one.
            let _ = enough.try_send(());
        }
    });
    tokio::select! {
        ended = running => panic!("it ended first: {ended:?}"),
        _ = has_enough.recv() => {}
    }
    let cell = completes(&session, "os.getpid()").await;
    assert_eq!((cell.lost_before, cell.stdout.total), (None, 0));
}

/// A cell that writes more than is kept is counted, and no more reaches the host.
pub async fn output_is_bounded(sandbox: &SandboxHandle) {
    let request = SessionRequest::new("python").output_limit(ByteSize::mib(1));
    let session = start(sandbox, request).await;
    let code = "import sys\nkept = 'x' * (1 << 20)\nfor _ in range(1024): sys.stdout.write(kept)\n\
                print('end', file=sys.stderr)";
    let mut seen = 0;
    let request = CellRequest::new(code).timeout(MUCH);
    let cell = session.run_with(request, |event| {
        if let CellEvent::Stdout(bytes) = event {
            seen += bytes.len();
        }
    });
    let cell = cell.await.expect("the sandbox works");
    assert_eq!(cell.outcome, CellOutcome::Completed);
    assert_eq!((cell.stdout.total, seen), (1 << 30, 1 << 20));
    assert!(cell.stdout.truncated() && cell.stdout.bytes.len() == seen);
    assert_eq!(cell.stderr.text(), "end\n");
    assert_eq!(value(&session, "len(kept)").await, "1048576");
}

/// An endless loop is interrupted at the time limit, and the variables are kept.
pub async fn endless_cell_is_interrupted(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    // An import can take longer than the limit of a cell below.
    completes(&session, "import asyncio, threading, time\nkept = 1").await;
    for code in [
        "before = 1\nwhile True:\n    pass",
        "before = 1\ntime.sleep(60)",
        "before = 1\nawait asyncio.sleep(60)",
        "before = 1\nthreading.Event().wait()",
    ] {
        let cell = run(&session, CellRequest::new(code).timeout(SHORT)).await;
        let CellOutcome::TimedOut { error: Some(error) } = &cell.outcome else {
            panic!("{cell:?}");
        };
        assert_eq!(error.name, "KeyboardInterrupt");
        let first = &error.frames[0];
        assert!(
            first.file.starts_with("<cell ") && first.line >= Some(2),
            "{error:?}"
        );
        assert_eq!(cell.session, SessionState::Kept, "{code}");
    }
    interrupted_at_once(&session, "while True: pass").await;
    assert_eq!(value(&session, "kept").await, "1");
}

/// A cell that waits for a child process loses the child, and the variables are kept.
pub async fn cell_that_waits_for_a_child_loses_it(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    let code = "import os\nkept = 1\nos.system(\"trap '' INT; sleep 300; sleep 300\")";
    let cell = run(&session, CellRequest::new(code).timeout(SHORT)).await;
    assert!(
        matches!(cell.outcome, CellOutcome::TimedOut { .. }),
        "{cell:?}"
    );
    assert_eq!(cell.session, SessionState::Kept, "{cell:?}");
    assert_eq!(value(&session, "kept").await, "1");
}

/// A cell that ignores its interrupt is killed, and the result says what was lost.
pub async fn cell_that_ignores_its_interrupt_is_killed(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "kept = 1").await;
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let cell = run(&session, CellRequest::new(code).timeout(SHORT)).await;
    assert_eq!(cell.outcome, CellOutcome::TimedOut { error: None });
    restarted(&session, &cell).await;
    let code = "import time\nwhile True:\n    try: time.sleep(1)\n    \
                except KeyboardInterrupt: pass";
    completes(&session, "kept = 2").await;
    let cell = run(&session, CellRequest::new(code).timeout(SHORT)).await;
    restarted(&session, &cell).await;
}

/// A background process that holds the output does not delay the end of its cell.
pub async fn background_process_does_not_delay_a_cell(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    let start = Instant::now();
    let code = "import subprocess, os\n\
                child = subprocess.Popen(['sh', '-c', 'echo first; read line; echo later; sleep 300'], \
                stdin=subprocess.PIPE)\nforked = os.fork()\nif forked == 0:\n    \
                import time\n    time.sleep(300)\nprint('cell')";
    let cell = run(&session, CellRequest::new(code).timeout(LONG)).await;
    assert!(cell.success() && start.elapsed() < SOON, "{cell:?}");
    assert!(cell.stdout.text().contains("cell\n"), "{cell:?}");
    // What it writes later belongs to a later cell.
    let code = "child.stdin.write(b'\\n'); child.stdin.flush(); child.poll()";
    let mut output = completes(&session, code).await.stdout.text();
    while !output.contains("later\n") {
        assert!(start.elapsed() < SOON, "{output}");
        output += &completes(&session, "import time; time.sleep(0.05)")
            .await
            .stdout
            .text();
    }
}

/// A child that runs on to the end of its cell does not end the cell for its parent.
pub async fn forked_child_does_not_end_the_cell(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    let code = "import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint(bool(child))";
    let cell = completes(&session, code).await;
    assert_eq!(cell.stdout.text(), "False\nTrue\n");
    let code = "import multiprocessing\n\
                context = multiprocessing.get_context('fork')\n\
                ours, theirs = context.Pipe(False)\n\
                child = context.Process(target=lambda: theirs.send(6 * 7)); child.start()\n\
                ours.recv()";
    assert_eq!(value(&session, code).await, "42");
}

/// Dropping the future of a cell interrupts it. The next cell says what was lost.
pub async fn dropped_cell_leaves_a_known_state(sandbox: &SandboxHandle) {
    let session = python(sandbox).await;
    completes(&session, "kept = 1").await;
    let endless = CellRequest::new("while True: pass").timeout(LONG);
    let dropped = tokio::time::timeout(SHORT, session.run(endless)).await;
    dropped.expect_err("it is endless");
    let cell = completes(&session, "kept").await;
    assert_eq!(cell.lost_before, None);
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let endless = CellRequest::new(code).timeout(LONG);
    let dropped = tokio::time::timeout(SHORT, session.run(endless)).await;
    dropped.expect_err("it is endless");
    let cell = completes(&session, "'kept' in globals()").await;
    let lost = cell.lost_before.expect("it was killed");
    assert_eq!(lost.names, ["kept"]);
}

/// A session ends at its time limits, and says which.
pub async fn session_ends_at_its_time_limits(sandbox: &SandboxHandle) {
    let request = SessionRequest::new("python").idle_timeout(SHORT);
    let session = start(sandbox, request).await;
    let code = "import os; print(os.getpid())";
    let process = completes(&session, code).await.stdout.text();
    tokio::time::sleep(SHORT + Duration::from_secs(1)).await;
    let error = session.run("1").await.expect_err("it ended");
    assert_eq!(error.kind(), ErrorKind::SessionEnded, "{error}");
    assert!(error.context().contains("idle_timeout"), "{error}");
    let check = format!("! kill -0 {}", process.trim());
    let gone = sandbox.shell(check).await.expect("the sandbox works");
    assert!(gone.success(), "the interpreter still runs");

    let request = SessionRequest::new("python").session_timeout(Duration::from_secs(3));
    let session = start(sandbox, request).await;
    let cell = run(&session, "while True: pass").await;
    assert!(
        matches!(cell.outcome, CellOutcome::TimedOut { .. }),
        "{cell:?}"
    );
    let error = session.run("1").await.expect_err("it ended");
    assert_eq!(error.kind(), ErrorKind::SessionEnded, "{error}");
    assert!(error.context().contains("session_timeout"), "{error}");
}

/// Files of the working folder do not replace modules of the driver. Closing runs exit functions.
pub async fn working_folder_is_the_code_s(sandbox: &SandboxHandle) {
    let folder = format!("{}/session-folder", sandbox.temporary_folder());
    for module in ["json", "traceback", "base64", "ast"] {
        let path = format!("{folder}/{module}.py");
        sandbox.write(&path, "1 / 0").await.expect("written");
    }
    let path = format!("{folder}/own.py");
    sandbox.write(&path, "value = 7").await.expect("written");
    let request = SessionRequest::new("python")
        .workdir(&folder)
        .env("NAME", "a b");
    let session = start(sandbox, request).await;
    let code = "import own, os, sys\n(own.value, os.environ['NAME'], sys.argv)";
    assert_eq!(value(&session, code).await, "(7, 'a b', [''])");
    let code = "import atexit\natexit.register(lambda: open('ended', 'w').close())";
    completes(&session, code).await;
    session.close().await.expect("it ends");
    let ended = sandbox.exists(&format!("{folder}/ended")).await;
    assert!(ended.expect("the sandbox works"));
}

/// A language without sessions is refused.
pub async fn language_without_sessions_is_refused(sandbox: &SandboxHandle) {
    let error = sandbox
        .session("go".into())
        .await
        .expect_err("there are none");
    assert_eq!(error.kind(), ErrorKind::LanguageNotSupported, "{error}");
}
