//! What a session of JavaScript keeps, shows and limits.

use std::time::Duration;

use sandbox_core::{ByteSize, ErrorKind, Outcome, SandboxHandle};
use sandbox_lang::{CellOutcome, CellRequest, MimeData, Session, SessionRequest, SessionState};
use tokio::time::Instant;

use super::{
    LONG, MUCH, SHORT, SOON, completes, interrupted_at_once, restarted, run, start, value,
};

async fn javascript(sandbox: &SandboxHandle) -> Session {
    start(sandbox, SessionRequest::new("javascript")).await
}

/// Declarations, closures, imports and `await` work across cells.
pub async fn state_is_kept(sandbox: &SandboxHandle) {
    let session = javascript(sandbox).await;
    let code = "const x = 1; let y = 2;\nfunction f() { return y }\nclass A {}";
    assert_eq!(completes(&session, code).await.result, None);
    assert_eq!(value(&session, "const x = 10; y += 1; x + f()").await, "13");
    assert_eq!(value(&session, "await Promise.resolve(x)").await, "10");
    let code = "import fs, { readFileSync as read } from 'node:fs'\nimport * as os from 'os'\n\
                const path = await import('path');\n[read === fs.readFileSync, !!os.cpus, !!path.join, !!require('net')]";
    assert_eq!(value(&session, code).await, "[ true, true, true, true ]");
    assert_eq!(
        value(&session, "typeof read + x + 10n").await,
        "'function1010'"
    );
    session.restart().await.expect("it starts");
    assert_eq!(value(&session, "typeof x").await, "'undefined'");
    session.close().await.expect("it ends");
}

/// Errors have the lines of the code and the names of the cells.
pub async fn errors_have_the_lines_of_the_cells(sandbox: &SandboxHandle) {
    let session = javascript(sandbox).await;
    let code = "import fs from 'fs'\n\nfunction f() {\n  null.foo\n}";
    completes(&session, code).await;
    let cell = run(&session, "// a comment\n\nf()").await;
    let error = cell.error().expect("it throws");
    assert_eq!(error.name, "TypeError");
    let places = error.frames.iter();
    let places = places.map(|frame| (frame.file.as_str(), frame.line));
    let expected = [("cell-2", Some(3)), ("cell-1", Some(4))];
    assert_eq!(places.collect::<Vec<_>>(), expected, "{error:?}");
    assert!(!error.traceback.contains("node:"), "{error:?}");
    let cell = run(&session, "1\nlet z = ;").await;
    let error = cell.error().expect("it does not compile");
    assert_eq!(
        (error.name.as_str(), error.frames[0].line),
        ("SyntaxError", Some(2))
    );
    let cell = run(&session, "await Promise.reject('text')").await;
    assert_eq!(cell.error().expect("it throws").message, "'text'");
    // An error of a callback is no end of the session.
    let code = "setTimeout(() => { throw new Error('later') }, 1)\n\
                await new Promise(done => setTimeout(done, 100))";
    let cell = completes(&session, code).await;
    assert!(
        cell.stderr
            .text()
            .starts_with("Uncaught Error: later\n    at"),
        "{cell:?}"
    );
}

/// Values have a text, and what they say of themselves.
pub async fn values_have_representations(sandbox: &SandboxHandle) {
    let session = javascript(sandbox).await;
    let code = "const rich = { [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<b>', \
                'image/png': new Uint8Array([1, 2]), 'application/x': { a: 1 }, 'text/plain': 'rich' }) }\n\
                display(1, rich); rich";
    let cell = completes(&session, code).await;
    assert_eq!(cell.displays[0].text("text/plain"), Some("1"));
    let shown = cell.result.expect("a value");
    assert_eq!(cell.displays[1], shown);
    assert_eq!(shown.text("text/html"), Some("<b>"));
    assert_eq!(shown.bytes("image/png"), Some(&[1, 2][..]));
    let json = MimeData::Json(serde_json::json!({"a": 1}));
    assert_eq!(shown.data["application/x"], json);
    let cell = completes(&session, "for (let i = 0; i < 1200; i++) await display(i)").await;
    assert_eq!((cell.displays.len(), cell.displays_omitted), (1000, 200));
    completes(
        &session,
        "display({ [Symbol.for('Jupyter.display')]: () => ({ '\\ud800': '\\ud800' }) })",
    )
    .await;
    let cell = run(&session, "throw new Error('\\ud800')").await;
    assert_eq!(cell.error().expect("it throws").name, "Error");
    assert_eq!(value(&session, "'\\ud800'").await, "'\\ud800'");
}

/// A cell reads the input that it was given, and then its end.
pub async fn input_is_given_or_ends(sandbox: &SandboxHandle) {
    let session = javascript(sandbox).await;
    let read = "require('fs').readFileSync(0, 'utf8')";
    let cell = run(&session, CellRequest::new(read).stdin("a\nb")).await;
    let shown = cell.result.expect("a value");
    assert_eq!(shown.text("text/plain"), Some("'a\\nb'"));
    assert_eq!(value(&session, read).await, "''");
    let code = "let text = ''; for await (const piece of process.stdin) text += piece; text";
    for input in ["one", "two"] {
        let cell = run(&session, CellRequest::new(code).stdin(input)).await;
        let shown = cell.result.expect("a value");
        assert_eq!(
            shown.text("text/plain"),
            Some(format!("'{input}'").as_str())
        );
    }
    // What a cell does not read is not the next one's.
    run(&session, CellRequest::new("1").stdin("unread")).await;
    assert_eq!(value(&session, read).await, "''");
}

/// Output is captured, also of child processes, and bounded.
pub async fn output_is_bounded(sandbox: &SandboxHandle) {
    let request = SessionRequest::new("javascript").output_limit(ByteSize::mib(1));
    let session = start(sandbox, request).await;
    let code = "console.log('one'); console.error('two')\n\
                require('child_process').execSync('echo three; echo four >&2', { stdio: 'inherit' })\n";
    let cell = completes(&session, code).await;
    assert_eq!(cell.stdout.text(), "one\nthree\n");
    assert_eq!(cell.stderr.text(), "two\nfour\n");
    let code = "require('child_process').execSync('head -c 1073741824 /dev/zero', { stdio: 'inherit' })\n\
                console.log('end')";
    let cell = run(&session, CellRequest::new(code).timeout(MUCH)).await;
    assert_eq!(cell.outcome, CellOutcome::Completed);
    assert_eq!(
        (cell.stdout.total, cell.stdout.bytes.len()),
        ((1 << 30) + 4, 1 << 20)
    );
    // A process in the background delays no cell.
    let start = Instant::now();
    let code = "require('child_process').spawn('sleep', ['300'], { stdio: 'inherit' }).unref()";
    run(&session, CellRequest::new(code).timeout(LONG)).await;
    assert!(start.elapsed() < SOON);
}

/// An endless cell is interrupted at the time limit, and the variables are kept.
pub async fn endless_cell_is_interrupted(sandbox: &SandboxHandle) {
    let session = javascript(sandbox).await;
    for code in [
        "let kept = 1\nwhile (true);",
        "await new Promise(() => {})",
        "await new Promise(done => setTimeout(done, 10)); while (true);",
        "require('child_process').execSync('sleep 300')",
    ] {
        let cell = run(&session, CellRequest::new(code).timeout(SHORT)).await;
        let CellOutcome::TimedOut { error: Some(error) } = &cell.outcome else {
            panic!("{code}: {cell:?}");
        };
        // A killed child is an error of its own.
        assert!(
            ["Interrupted", "Error"].contains(&error.name.as_str()),
            "{error:?}"
        );
        assert_eq!(cell.session, SessionState::Kept, "{code}");
    }
    interrupted_at_once(&session, "while (true);").await;
    assert_eq!(value(&session, "kept").await, "1");
}

/// What ends the interpreter is told, and the session starts again.
pub async fn end_of_the_interpreter_is_told(sandbox: &SandboxHandle) {
    let session = javascript(sandbox).await;
    completes(&session, "const kept = 1").await;
    let cell = run(&session, "process.exit(3)").await;
    let CellOutcome::Died { outcome, .. } = &cell.outcome else {
        panic!("{cell:?}");
    };
    assert_eq!(*outcome, Outcome::Exited { code: 3 });
    restarted(&session, &cell).await;
    completes(&session, "const kept = 1").await;
    let code = "process.kill(process.pid, 'SIGSEGV'); while (true);";
    let cell = run(&session, CellRequest::new(code).timeout(LONG)).await;
    assert!(matches!(cell.outcome, CellOutcome::Died { .. }), "{cell:?}");
    restarted(&session, &cell).await;
    completes(&session, "const kept = 1").await;
    let code = "for (let i = 0; i < 1024; i++) try { require('fs').closeSync(i) } catch {}\n\
                await new Promise(() => {})";
    let cell = run(
        &session,
        CellRequest::new(code).timeout(Duration::from_secs(3)),
    )
    .await;
    assert!(!cell.success(), "{cell:?}");
    restarted(&session, &cell).await;
    completes(&session, "const kept = 1").await;
    let code = "require('fs').writeSync(4, 'no frame'); while (true);";
    let cell = run(&session, CellRequest::new(code).timeout(LONG)).await;
    assert!(
        matches!(cell.outcome, CellOutcome::Broken { .. }),
        "{cell:?}"
    );
    restarted(&session, &cell).await;
}

/// An interpreter of JavaScript cannot be copied.
pub async fn branches_are_refused(sandbox: &SandboxHandle) {
    let session = javascript(sandbox).await;
    let error = session.branch().await.expect_err("there are none");
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    completes(&session, "1").await;
}
