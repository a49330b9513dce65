//! Sessions of R.

use sandbox_core::{Outcome, SandboxHandle};
use sandbox_lang::{
    CellOutcome, CellRequest, MimeData, PlotFormat, Session, SessionRequest, SessionState,
};

use super::{LONG, SHORT, completes, run, start, value};

async fn r(sandbox: &SandboxHandle) -> Session {
    start(sandbox, SessionRequest::new("r")).await
}

async fn output(session: &Session, code: &str) -> String {
    completes(session, code).await.stdout.text()
}

/// Variables, functions, packages and options are kept; what is printed is output.
pub async fn state_is_kept(sandbox: &SandboxHandle) {
    let session = r(sandbox).await;
    assert!(
        session.version().starts_with(['3', '4', '5']),
        "{}",
        session.version()
    );
    completes(
        &session,
        "x <- c(1, 2)\nf <- function(y) x + y\nlibrary(stats4)",
    )
    .await;
    assert_eq!(value(&session, "f(1)").await, "[1] 2 3");
    assert_eq!(
        value(&session, "'package:stats4' %in% search()").await,
        "[1] TRUE"
    );
    let code = "x\ncat('out\\n'); message('err'); system('echo child')\ninvisible(7)";
    let cell = completes(&session, code).await;
    assert_eq!(cell.stdout.text(), "[1] 1 2\nout\nchild\n");
    assert_eq!((cell.stderr.text().as_str(), cell.result), ("err\n", None));
    let cell = completes(&session, "").await;
    assert_eq!((cell.stdout.total, cell.stderr.total), (0, 0));
    assert_eq!(
        value(&session, "'\u{e9}\\\\\"\u{1f600}'").await,
        "[1] \"\u{e9}\\\\\\\"\u{1f600}\""
    );
    // A sink that the code forgot takes nothing of later cells.
    completes(&session, "sink(tempfile()); cat('hidden')").await;
    assert_eq!(output(&session, "cat('seen')").await, "seen");
}

/// Errors have their class, message, and the lines of the cells.
pub async fn errors_have_the_lines_of_the_cells(sandbox: &SandboxHandle) {
    let session = r(sandbox).await;
    completes(&session, "inner <- function() {\n  stop('deep')\n}").await;
    let cell = run(&session, "1\n\ninner()").await;
    let error = cell.error().expect("it stops");
    assert_eq!(
        (error.name.as_str(), error.message.as_str()),
        ("simpleError", "deep")
    );
    let lines: Vec<_> = error
        .frames
        .iter()
        .map(|frame| (frame.file.as_str(), frame.line))
        .collect();
    assert_eq!(lines.first(), Some(&("<cell 2>", Some(3))), "{error:?}");
    assert!(lines.contains(&("<cell 1>", Some(2))), "{error:?}");
    let cell = run(&session, "a <- 1\nb <- (2\n} ").await;
    let error = cell.error().expect("it is wrong");
    assert_eq!(
        (error.name.as_str(), error.frames[0].line),
        ("parseError", Some(3))
    );
    assert_eq!(value(&session, "exists('a')").await, "[1] FALSE");
    let code =
        "stop(structure(class = c('own', 'error', 'condition'), list(message = 'm', call = NULL)))";
    let cell = run(&session, code).await;
    assert_eq!(cell.error().expect("it stops").name, "own");
}

/// The code's standard input is the cell's, and ends.
pub async fn input_is_given_or_ends(sandbox: &SandboxHandle) {
    let session = r(sandbox).await;
    let code = "readLines(file('stdin'))";
    let cell = run(&session, CellRequest::new(code).stdin("one\ntwo\n")).await;
    let result = cell.result.expect("a value");
    assert_eq!(result.text("text/plain"), Some("[1] \"one\" \"two\""));
    assert_eq!(value(&session, code).await, "character(0)");
    // What one cell has not read is not the next one's.
    let cell = CellRequest::new("invisible()").stdin("unread\n");
    run(&session, cell).await;
    let cell = CellRequest::new("system('cat')").stdin("for a child\n");
    assert_eq!(run(&session, cell).await.stdout.text(), "for a child\n");
}

/// Plots of the graphics and grid packages are displayed once, in each format.
pub async fn plots_are_displayed_once(sandbox: &SandboxHandle) {
    let session = r(sandbox).await;
    let code = "plot(1:3)\nlines(3:1)\nhist(c(1, 2, 2))\ncat('done')";
    let cell = completes(&session, code).await;
    assert_eq!(
        (cell.stdout.text().as_str(), cell.displays.len()),
        ("done", 2)
    );
    let display = &cell.displays[0];
    let Some(MimeData::Bytes(png)) = display.data.get("image/png") else {
        panic!("{display:?}");
    };
    assert!(png.starts_with(b"\x89PNG"), "{display:?}");
    let plot = display.plot.expect("it is one");
    assert_eq!((plot.width, plot.height), (700, 500));
    assert_eq!(completes(&session, "1 + 1").await.displays.len(), 0);
    let code = "library(grid); grid.newpage(); grid.rect(); grid.newpage(); grid.circle()";
    let cell = completes(&session, code).await;
    assert_eq!((cell.displays.len(), cell.result), (2, None));
    // An interrupted cell shows none, and the next one starts with an empty page.
    let code = "plot(1); while (TRUE) {}";
    let cell = run(&session, CellRequest::new(code).timeout(SHORT)).await;
    assert!(cell.displays.is_empty(), "{cell:?}");
    assert!(completes(&session, "2").await.displays.is_empty());
    // A device of the code's own is the code's own.
    let code = "png(f <- tempfile()); plot(1); invisible(dev.off()); file.size(f) > 100";
    let cell = completes(&session, code).await;
    assert!(cell.displays.is_empty(), "{cell:?}");
    let formats = [PlotFormat::Svg, PlotFormat::Pdf, PlotFormat::Jpeg];
    let request = SessionRequest::new("r").plot_formats(formats);
    let cell = completes(&start(sandbox, request).await, "plot(1)").await;
    let display = &cell.displays[0];
    assert!(
        display
            .text("image/svg+xml")
            .is_some_and(|svg| svg.contains("<svg"))
    );
    assert!(display.data.contains_key("application/pdf"), "{display:?}");
    let jpeg = display.bytes("image/jpeg").expect("the format");
    assert!(jpeg.starts_with(b"\xff\xd8"), "{display:?}");
    assert_eq!(display.data.len(), 3);
}

/// An endless cell is interrupted, and the session is kept.
pub async fn endless_cell_is_interrupted(sandbox: &SandboxHandle) {
    let session = r(sandbox).await;
    completes(&session, "kept <- 1").await;
    for code in [
        "repeat {}",
        "Sys.sleep(300)",
        "f <- function() repeat Sys.sleep(0.01)\nf()",
    ] {
        let cell = run(&session, CellRequest::new(code).timeout(SHORT)).await;
        let CellOutcome::TimedOut { error: Some(error) } = &cell.outcome else {
            panic!("{code}: {cell:?}");
        };
        assert_eq!(error.name, "interrupt");
        assert_eq!(cell.session, SessionState::Kept, "{code}");
    }
    super::interrupted_at_once(&session, "repeat {}").await;
    assert_eq!(value(&session, "kept").await, "[1] 1");
}

/// The end of R is told with what was lost, and the session starts again.
pub async fn end_of_the_interpreter_is_told(sandbox: &SandboxHandle) {
    let session = r(sandbox).await;
    completes(&session, "kept <- 1").await;
    let cell = run(&session, CellRequest::new("quit(status = 3)").timeout(LONG)).await;
    let CellOutcome::Died { outcome, .. } = &cell.outcome else {
        panic!("{cell:?}");
    };
    assert_eq!(*outcome, Outcome::Exited { code: 3 });
    let SessionState::Restarted(lost) = &cell.session else {
        panic!("{cell:?}");
    };
    assert_eq!(lost.names, ["kept"]);
    assert_eq!(value(&session, "exists('kept')").await, "[1] FALSE");
}

/// What the code writes is no message, and output is bounded.
pub async fn forged_messages_end_the_interpreter(sandbox: &SandboxHandle) {
    let session = r(sandbox).await;
    let cell = completes(&session, "cat('=e30=\\n+e30=\\n0 0 0\\n')").await;
    assert_eq!(cell.stdout.text(), "=e30=\n+e30=\n0 0 0\n");
    let code = "folder <- dirname(sub('--file=', '', grep('--file=', commandArgs(), value = TRUE)))\n\
                cat('=bm9uZQ==\\n', file = file.path(folder, 'end'))\nSys.sleep(300)";
    let cell = run(&session, CellRequest::new(code).timeout(LONG)).await;
    assert!(
        matches!(cell.outcome, CellOutcome::Broken { .. }),
        "{cell:?}"
    );
    assert_eq!(value(&session, "1").await, "[1] 1");
}
