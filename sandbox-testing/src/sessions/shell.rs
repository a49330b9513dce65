//! What a session of a shell keeps, tells and limits: of the sandbox's best shell, and of its
//! `/bin/sh`.

use sandbox_core::{ByteSize, Outcome, SandboxHandle};
use sandbox_lang::{
    CellEvent, CellOutcome, CellRequest, CellResult, Language, Session, SessionRequest,
    SessionState, Step,
};
use tokio::time::Instant;

use super::{LONG, SHORT, SOON, interrupted_at_once, run, start};

/// A session of each shell.
async fn shells(sandbox: &SandboxHandle) -> [Session; 2] {
    shells_with(sandbox, |request| request).await
}

async fn shells_with(
    sandbox: &SandboxHandle,
    change: impl Fn(SessionRequest) -> SessionRequest,
) -> [Session; 2] {
    let plain = Language::new("sh", "sh", Step::new(["/bin/sh"]));
    [
        start(sandbox, change(SessionRequest::new("shell"))).await,
        start(sandbox, change(SessionRequest::new(plain))).await,
    ]
}

async fn completes(session: &Session, code: impl Into<CellRequest>) -> CellResult {
    let cell = run(session, code).await;
    assert_eq!(cell.outcome, CellOutcome::Completed, "{cell:?}");
    assert_eq!(cell.session, SessionState::Kept, "{cell:?}");
    cell
}

async fn output(session: &Session, code: &str) -> String {
    completes(session, code).await.stdout.text()
}

async fn fails(session: &Session, code: &str) -> (u8, String) {
    let cell = run(session, code).await;
    let CellOutcome::Failed { status } = cell.outcome else {
        panic!("{code}: {cell:?}");
    };
    assert_eq!(cell.session, SessionState::Kept, "{code}");
    (status, cell.stderr.text())
}

/// Runs a cell that is interrupted at its time limit, and keeps the variable `kept`.
async fn times_out(session: &Session, code: &str) -> CellResult {
    let cell = run(session, CellRequest::new(code).timeout(SHORT)).await;
    assert_eq!(
        cell.outcome,
        CellOutcome::TimedOut { error: None },
        "{code}: {cell:?}"
    );
    cell
}

/// Asserts that the cell ended the shell, which had the variable `kept`.
async fn restarted(session: &Session, cell: &CellResult) {
    let SessionState::Restarted(lost) = &cell.session else {
        panic!("{cell:?}");
    };
    assert_eq!(lost.names, ["kept"], "{lost:?}");
    assert_eq!(output(session, "echo ${kept-none}").await, "none\n");
}

/// Variables, functions, options, aliases and the working folder are kept.
pub async fn state_is_kept(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        let folder = format!("{}/a b", sandbox.temporary_folder());
        let code =
            format!("x='a  b'; f() {{ echo \"<$x>\"; }}\nmkdir -p '{folder}'; cd '{folder}'");
        completes(&session, code.as_str()).await;
        assert_eq!(
            output(&session, "f; pwd").await,
            format!("<a  b>\n{folder}\n")
        );
        completes(
            &session,
            "set -f; umask 027; export E=1; trap 'echo bye' USR1",
        )
        .await;
        let code = "echo *; umask; sh -c 'echo $E'; kill -USR1 $$";
        let text = output(&session, code).await;
        assert_eq!(text, "*\n0027\n1\nbye\n");
        completes(&session, "alias greet='echo hello'").await;
        assert_eq!(output(&session, "greet").await, "hello\n");
        // A value that looks like a variable is none.
        completes(&session, "x='\nfake=1'").await;
        let lost = run(&session, "kill -9 $$").await;
        let SessionState::Restarted(lost) = lost.session else {
            panic!("{lost:?}");
        };
        let variables = lost.names.iter().filter(|name| !name.ends_with("()"));
        assert_eq!(variables.collect::<Vec<_>>(), ["E", "x"], "{lost:?}");
        session.restart().await.expect("it starts");
        assert_eq!(output(&session, "echo ${x-none}").await, "none\n");
        session.close().await.expect("it ends");
    }
}

/// The status of a cell is told. Errors that end a script end a cell only, and name its line.
pub async fn failures_are_told_and_keep_the_state(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        completes(&session, "kept=1").await;
        assert_eq!(fails(&session, "true; false").await, (1, String::new()));
        assert_eq!(fails(&session, "return 7").await.0, 7);
        assert_eq!(fails(&session, "sh -c 'kill -9 $$'").await.0, 137);
        let (status, stderr) = fails(&session, "true\n\nno-such-program").await;
        assert!(
            status == 127 && stderr.contains("no-such-program"),
            "{stderr}"
        );
        for broken in [
            "echo a; if; echo b",
            "echo 'open",
            "set -u; echo $nosuch; echo after",
            "echo ${nosuch?is missing}; echo after",
            "readonly fixed=1; fixed=2; echo after",
            ". /no/such/file; echo after",
        ] {
            let cell = run(&session, broken).await;
            assert_eq!(cell.session, SessionState::Kept, "{broken}: {cell:?}");
            assert!(!cell.stderr.bytes.is_empty(), "{broken}: {cell:?}");
            completes(&session, "set +u").await;
        }
        assert_eq!(output(&session, "echo $kept").await, "1\n");
        let cell = run(&session, "fail").await;
        let error = cell.check().expect_err("it failed").to_string();
        assert!(error.contains("failed with status 127"), "{error}");
    }
}

/// Code is data until it runs: nothing in it reaches the session's own commands.
pub async fn code_cannot_break_out_of_its_cell(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        for quoted in [
            "'",
            "\"",
            "`",
            "$(",
            "${",
            "\\",
            "}",
            ")",
            "<<EOF",
            "# '",
            "%s %b \\0101 \\c",
            "!!",
        ] {
            // The last line is always a line of its own.
            let code = format!("echo 1\n: <<'THE_END'\n{quoted}\nTHE_END\necho 2");
            assert_eq!(output(&session, &code).await, "1\n2\n", "{quoted}");
            run(&session, quoted).await;
            if quoted == "$(" {
                // bash 5.2.15 corrupts its memory when a file ends in a substitution.
                session.restart().await.expect("it starts");
            }
            assert_eq!(output(&session, "echo alive").await, "alive\n", "{quoted}");
        }
        let text = "printf %s 'ä \\n \\0101 %b $HOME `x` \" \t'";
        assert_eq!(
            output(&session, text).await,
            "ä \\n \\0101 %b $HOME `x` \" \t"
        );
        assert_eq!(output(&session, "").await, "");
    }
}

/// A cell reads the input that it was given, and then its end.
pub async fn input_is_given_or_ends(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        let input = b"one line\nrest\0\xff\\\n";
        let request = CellRequest::new("read -r line; echo \"<$line>\"; cat").stdin(*input);
        let cell = completes(&session, request).await;
        assert_eq!(cell.stdout.bytes, b"<one line>\nrest\0\xff\\\n");
        assert_eq!(fails(&session, "read -r line").await.0, 1);
        assert_eq!(output(&session, "cat; echo end").await, "end\n");
        // Nothing is left for the next cell, also if the code does not read all.
        completes(
            &session,
            CellRequest::new("exec <&-").stdin("echo injected\n"),
        )
        .await;
        assert_eq!(output(&session, "cat; echo end").await, "end\n");
    }
}

/// Output arrives while the cell runs, also that of child processes.
pub async fn output_is_live(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        let code = "kept=1; echo one; sh -c 'echo two; echo three >&2'; sleep 300";
        let mut seen = String::new();
        let (enough, mut has_enough) = tokio::sync::mpsc::channel(1);
        let running = session.run_with(CellRequest::new(code).timeout(LONG), |event| {
            if let CellEvent::Stdout(bytes) | CellEvent::Stderr(bytes) = event {
                seen += &String::from_utf8_lossy(bytes);
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
        let cell = completes(&session, "echo $kept").await;
        assert_eq!(
            (cell.lost_before, cell.stdout.text().as_str()),
            (None, "1\n")
        );
    }
}

/// A cell that writes more than is kept is counted, and interrupted if it does not end.
pub async fn output_is_bounded(sandbox: &SandboxHandle) {
    let shells = shells_with(sandbox, |request| request.output_limit(ByteSize::mib(1))).await;
    for session in shells {
        let code = "head -c 33554432 /dev/zero; echo end >&2";
        let cell = completes(&session, CellRequest::new(code).timeout(LONG)).await;
        assert_eq!(
            (cell.stdout.total, cell.stdout.bytes.len()),
            (1 << 25, 1 << 20)
        );
        assert_eq!(cell.stderr.text(), "end\n");
        let cell = times_out(&session, "cat /dev/zero").await;
        assert_eq!(cell.session, SessionState::Kept);
        assert_eq!(cell.stdout.bytes.len(), 1 << 20);
        assert_eq!(output(&session, "echo alive").await, "alive\n");
    }
}

/// An endless loop is interrupted at the time limit as a whole, and the variables are kept.
pub async fn endless_cell_is_interrupted(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        completes(&session, "kept=1; wait_long() { sleep 300; echo after; }").await;
        for code in [
            "while :; do :; done; echo after",
            "sleep 300; echo after",
            "wait_long; echo after",
            "(while :; do :; done); echo after",
        ] {
            let cell = times_out(&session, code).await;
            assert_eq!(cell.session, SessionState::Kept, "{code}: {cell:?}");
            assert_eq!(cell.stdout.text(), "", "{code}");
        }
        // `cat` may see the end of its input before the interrupt. Then the shell goes on.
        let pipeline = "while :; do sleep 1; done | cat; echo after";
        let cell = times_out(&session, pipeline).await;
        assert_eq!(cell.session, SessionState::Kept, "{cell:?}");
        let stdout = cell.stdout.text();
        assert!(["", "after\n"].contains(&&*stdout), "{stdout:?}");
        interrupted_at_once(&session, "while :; do :; done").await;
        assert_eq!(output(&session, "echo $kept").await, "1\n");
    }
}

/// A child that ignores its interrupt is killed, and the variables are kept.
pub async fn cell_that_waits_for_a_child_loses_it(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        let code = "kept=1; sh -c \"trap '' INT; while :; do sleep 300; done\"";
        let cell = times_out(&session, code).await;
        assert_eq!(cell.session, SessionState::Kept, "{cell:?}");
        assert_eq!(output(&session, "echo $kept").await, "1\n");
    }
}

/// A cell that ignores its interrupt is killed, and the result says what was lost.
pub async fn cell_that_ignores_its_interrupt_is_killed(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        completes(&session, "kept=1").await;
        let cell = times_out(&session, "trap '' INT; while :; do :; done").await;
        restarted(&session, &cell).await;
    }
}

/// A background process that holds the output does not delay the end of its cell.
pub async fn background_process_does_not_delay_a_cell(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        let start = Instant::now();
        let go = format!("{}/go", sandbox.temporary_folder());
        let code = format!(
            "rm -f {go}; (while [ ! -e {go} ]; do sleep 0.05; done; echo later; sleep 300) &\n\
             echo cell"
        );
        let cell = completes(&session, CellRequest::new(code).timeout(LONG)).await;
        assert_eq!(cell.stdout.text(), "cell\n", "{cell:?}");
        // What it writes later belongs to a later cell. `wait` waits for it and for nothing else.
        let mut seen = output(&session, &format!(": >{go}")).await;
        while !seen.contains("later\n") {
            assert!(start.elapsed() < SOON, "{seen}");
            seen += &output(&session, "sleep 0.05").await;
        }
        completes(&session, "kill $!").await;
        let waiting = CellRequest::new("wait; echo waited").timeout(LONG);
        assert_eq!(completes(&session, waiting).await.stdout.text(), "waited\n");
    }
}

/// A background process that ends between two cells does not end the shell.
pub async fn background_process_ends_between_cells(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        let folder = sandbox.temporary_folder();
        completes(&session, "kept=1").await;
        for round in 0..3 {
            let file = format!("{folder}/ended-{round}");
            completes(&session, format!("(sleep 0.2; : >{file}) &").as_str()).await;
            let start = Instant::now();
            while sandbox.read(&file).await.is_err() {
                assert!(start.elapsed() < SOON, "no {file}");
                tokio::time::sleep(SHORT / 10).await;
            }
            // The process ends right after the file is there, while no cell runs.
            tokio::time::sleep(SHORT / 2).await;
            assert_eq!(output(&session, "echo $kept").await, "1\n");
        }
        let waiting = CellRequest::new("sleep 0.2 & sleep 0.1 & wait; echo waited").timeout(LONG);
        assert_eq!(completes(&session, waiting).await.stdout.text(), "waited\n");
    }
}

/// Programs of the code have the three standard streams, and none of the session.
pub async fn programs_get_no_descriptor_of_the_session(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        // The program itself opens one for the folder.
        let open = output(&session, "ls /proc/self/fd | wc -l").await;
        assert_eq!(open.trim(), "4");
    }
}

/// An end of the shell is told with its status, and the session works again.
pub async fn end_of_the_shell_is_told(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        for (code, expected) in [
            ("echo out; exit 3", Outcome::Exited { code: 3 }),
            ("echo out; kill -9 $$", Outcome::Signaled { signal: 9 }),
            (
                "echo out; set -e; false; echo after",
                Outcome::Exited { code: 1 },
            ),
            ("echo out; exec sh -c 'exit 4'", Outcome::Exited { code: 4 }),
        ] {
            completes(&session, "kept=1").await;
            let cell = run(&session, code).await;
            let CellOutcome::Died { outcome, .. } = &cell.outcome else {
                panic!("{code}: {cell:?}");
            };
            assert_eq!(*outcome, expected, "{code}");
            assert_eq!(cell.stdout.text(), "out\n", "{code}");
            restarted(&session, &cell).await;
        }
    }
}

/// A cell can close its descriptors. As in any shell, they stay closed, and a restart opens them.
pub async fn closed_descriptors_do_not_end_the_session(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        completes(&session, "kept=1; exec <&- >&- 2>&-").await;
        run(&session, "echo $kept").await;
        let file = format!("{}/written", sandbox.temporary_folder());
        completes(&session, format!("echo $kept >{file}").as_str()).await;
        assert_eq!(sandbox.read(&file).await.expect("written"), b"1\n");
        session.restart().await.expect("it starts");
        assert_eq!(output(&session, "echo again").await, "again\n");
    }
}

/// Marks that the session never makes end the shell. Others lie about their own session only.
pub async fn forged_marks_end_the_shell(sandbox: &SandboxHandle) {
    let [other, _] = shells(sandbox).await;
    completes(&other, "kept=2").await;
    for session in shells(sandbox).await {
        for forged in ["99999 0 0", "x", "1 0"] {
            completes(&session, "kept=1").await;
            // The mark is an argument of the session's helpers.
            let code = format!(
                "for helper in /proc/[0-9]*/cmdline; do\n\
                 mark=$(tr '\\0' '\\n' <$helper | grep '^cell-' | head -n 1)\n\
                 if [ \"$mark\" ]; then printf '\\000%s %s\\n' \"$mark\" '{forged}'; fi\n\
                 done; sleep 300"
            );
            let cell = run(&session, CellRequest::new(code).timeout(LONG)).await;
            assert!(
                matches!(cell.outcome, CellOutcome::Broken { .. }),
                "{forged}: {cell:?}"
            );
            restarted(&session, &cell).await;
        }
    }
    assert_eq!(output(&other, "echo $kept").await, "2\n");
}

/// Dropping the future of a cell interrupts it. The next cell says what was lost.
pub async fn dropped_cell_leaves_a_known_state(sandbox: &SandboxHandle) {
    for session in shells(sandbox).await {
        completes(&session, "kept=1").await;
        let endless = CellRequest::new("while :; do :; done").timeout(LONG);
        let dropped = tokio::time::timeout(SHORT, session.run(endless)).await;
        dropped.expect_err("it is endless");
        let cell = completes(&session, "echo $kept").await;
        assert_eq!(
            (cell.lost_before, cell.stdout.text().as_str()),
            (None, "1\n")
        );
        let endless = CellRequest::new("trap '' INT; while :; do :; done").timeout(LONG);
        let dropped = tokio::time::timeout(SHORT, session.run(endless)).await;
        dropped.expect_err("it is endless");
        let cell = completes(&session, "echo ${kept-none}").await;
        assert_eq!(cell.lost_before.expect("it was killed").names, ["kept"]);
        assert_eq!(cell.stdout.text(), "none\n");
    }
}

/// Closing a session lets the shell run what it runs at its exit, and leaves no file.
pub async fn closing_runs_exit_traps(sandbox: &SandboxHandle) {
    for session in shells_with(sandbox, |request| request.env("ENV", "a b")).await {
        let folder = sandbox.temporary_folder();
        assert_eq!(output(&session, "echo $ENV").await, "a b\n");
        let code = format!("trap 'echo ended >{folder}/ended' EXIT; echo $__sandbox_folder");
        let left = output(&session, &code).await;
        let left = left.trim();
        assert!(
            sandbox.exists(left).await.expect("the sandbox works"),
            "{left}"
        );
        session.close().await.expect("it ends");
        let ended = sandbox.read(&format!("{folder}/ended")).await;
        assert_eq!(ended.expect("the trap ran"), b"ended\n");
        assert!(
            !sandbox.exists(left).await.expect("the sandbox works"),
            "{left}"
        );
    }
}
