//! Executions with a terminal, and terminals that code opens itself.

use std::time::Duration;

use sandbox_core::{
    CapabilityPolicy, ErrorKind, ExecEvent, ExecRequest, ExecResult, Execution, Outcome,
    SandboxHandle, Stdin, StdinWriter, TerminalSize,
};
use sandbox_testing::processes;
use sandbox_testing::wait::wait_until_async;
use tokio::io::AsyncWriteExt;

use crate::harness::{Need, Test, test};
use crate::support::{create, policy, run, sh};

pub const TESTS: &[Test] = &[
    test!(async standard_streams_are_a_terminal_of_the_requested_size),
    test!(async code_without_a_terminal_has_none),
    test!(async terminal_is_none_of_the_host, Need::Namespaces),
    test!(async output_is_complete_at_the_end),
    test!(async resize_without_a_terminal_is_refused),
    test!(async interactive_shell_has_job_control),
    test!(async end_of_input_is_the_end_of_file_key),
    test!(async exit_codes_signals_and_time_limits_are_kept),
    test!(async killed_execution_leaves_no_process_of_its_terminal),
    test!(async dropped_execution_ends_background_jobs_of_its_terminal),
    test!(async later_execution_gets_a_terminal_too),
    test!(async terminal_works_where_one_program_may_run),
    test!(async program_on_a_terminal_is_confined_as_any_other),
    test!(async code_opens_terminals_of_its_own, Need::Namespaces),
    test!(async number_of_terminals_is_limited, Need::Namespaces),
    test!(async input_cannot_be_typed_into_a_terminal),
];

const SIZE: TerminalSize = TerminalSize::new(33, 101);

fn on_terminal(script: &str) -> ExecRequest {
    sh(script).terminal(SIZE).timeout(Duration::from_secs(30))
}

async fn result(sandbox: &SandboxHandle, script: &str) -> ExecResult {
    let result = sandbox.exec(&on_terminal(script)).await;
    result.expect("the sandbox works")
}

/// A program on a terminal, as a user at the keyboard uses it.
struct Session {
    execution: Execution,
    keyboard: StdinWriter,
    screen: String,
}

impl Session {
    async fn start(sandbox: &SandboxHandle, request: ExecRequest) -> Self {
        let request = request.terminal(SIZE).timeout(Duration::from_secs(60));
        let mut execution = sandbox
            .start(&request, Stdin::Piped)
            .await
            .expect("it starts");
        let keyboard = execution.take_stdin().expect("it is piped");
        Self {
            execution,
            keyboard,
            screen: String::new(),
        }
    }

    async fn press(&mut self, keys: &str) {
        let written = self.keyboard.write_all(keys.as_bytes()).await;
        written.expect("the program reads");
    }

    /// Waits until the screen shows a text, and forgets everything up to it.
    async fn expect(&mut self, text: &str) {
        let shown = tokio::time::timeout(Duration::from_secs(30), async {
            loop {
                if let Some(at) = self.screen.find(text) {
                    self.screen.drain(..at + text.len());
                    return;
                }
                match self.execution.next_event().await.expect("it works") {
                    Some(ExecEvent::Stdout(bytes)) => {
                        self.screen += &String::from_utf8_lossy(&bytes);
                    }
                    Some(ExecEvent::Started) => {}
                    other => panic!("{other:?} instead of {text:?}; shown: {:?}", self.screen),
                }
            }
        });
        assert!(shown.await.is_ok(), "no {text:?} in {:?}", self.screen);
    }

    async fn end(mut self) -> ExecResult {
        self.execution.wait().await.expect("it ends")
    }
}

async fn standard_streams_are_a_terminal_of_the_requested_size() {
    let sandbox = create(policy()).await;
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM && echo e >&2";
    let result = result(&sandbox, script).await;
    assert_eq!(result.stdout_text(), "33 101\r\nxterm\r\ne\r\n");
    assert_eq!(result.stderr.total, 0);
    assert!(result.success());
}

async fn code_without_a_terminal_has_none() {
    let result = run(
        policy(),
        "for i in 0 1 2; do test -t $i && echo tty $i; done; (: </dev/tty) 2>&1; true",
    )
    .await;
    let text = result.stdout_text();
    assert!(!text.contains("tty 0") && !text.contains("tty 1") && !text.contains("tty 2"));
    let expected = match crate::support::namespaces() {
        true => "No such device or address",
        // Landlock hides the host's file.
        false => "Permission denied",
    };
    assert!(text.contains(expected), "{text}");
}

async fn terminal_is_none_of_the_host() {
    let sandbox = create(policy()).await;
    let script = "tty; stat -c '%d' $(tty); : </dev/tty && echo controlled; ls -1 /dev/pts";
    let result = result(&sandbox, script).await;
    let text = result.stdout_text();
    let lines = text.lines().collect::<Vec<_>>();
    assert_eq!(lines[0], "/dev/pts/0", "the first one of its devpts");
    let device = lines[1].parse::<u64>().expect("a device number");
    if let Ok(host) = std::fs::metadata("/dev/pts") {
        use std::os::unix::fs::MetadataExt;
        assert_ne!(device, host.dev(), "another instance than the host's");
    }
    assert_eq!(lines[2..], ["controlled", "0", "ptmx"]);
}

async fn output_is_complete_at_the_end() {
    let sandbox = create(policy()).await;
    for _ in 0..20 {
        let result = result(&sandbox, "seq 1 20000; printf last").await;
        let text = result.stdout_text();
        assert!(text.ends_with("20000\r\nlast"), "{} bytes", text.len());
        assert_eq!(text.lines().count(), 20_001);
        assert_eq!(result.stdout.total, text.len() as u64);
        assert_eq!(result.incomplete, None);
    }
}

async fn resize_without_a_terminal_is_refused() {
    let sandbox = create(policy()).await;
    let execution = sandbox.start(&sh("sleep 20"), Stdin::Null).await;
    let execution = execution.expect("it starts");
    let refused = execution.resize(SIZE).await.expect_err("it has none");
    assert_eq!(refused.kind(), ErrorKind::InvalidRequest);
    execution.kill().await;
    // The connection is still good.
    let result = sandbox.exec(&sh("exit 4")).await.expect("it works");
    assert_eq!(result.exit_code(), Some(4));
}

async fn interactive_shell_has_job_control() {
    let sandbox = create(policy()).await;
    let bash = ExecRequest::new("bash").args(["--norc", "-i"]);
    let mut session = Session::start(&sandbox, bash.env("PS1", "ready> ")).await;
    session.expect("ready> ").await;
    assert!(
        !session.screen.contains("no job control"),
        "{}",
        session.screen
    );
    // The line itself is shown too, and has no "started".
    let keys = "sh -c 'echo star\"\"ted; exec sleep 70'\r";
    session.press(keys).await;
    session.expect("started").await;
    session.press("\x1a").await;
    session.expect("Stopped").await;
    // `wait` does not wait for a job that the shell still takes for stopped, and `exit` then refuses.
    let end = "kill %1; while [ -n \"$(jobs -s)\" ]; do sleep 0.05; done; echo left $((40 + 2))\r";
    session.press(end).await;
    session.expect("left 42").await;
    session.press("exit 6\r").await;
    let result = session.end().await;
    assert_eq!((result.exit_code(), result.stragglers), (Some(6), 0));
}

async fn end_of_input_is_the_end_of_file_key() {
    let sandbox = create(policy()).await;
    let mut session = Session::start(&sandbox, sh("stty -echo; echo ready; cat; echo end")).await;
    session.expect("ready").await;
    let Session {
        mut execution,
        keyboard,
        screen,
    } = session;
    drop(keyboard);
    let ended = execution.wait().await.expect("it ends");
    let shown = screen + &ended.stdout_text();
    assert_eq!(
        (shown.as_str(), ended.exit_code()),
        ("\r\nend\r\n", Some(0))
    );
    // No input is an input at its end.
    let result = result(&sandbox, "cat; echo end").await;
    assert_eq!(result.stdout_text(), "end\r\n");
}

async fn exit_codes_signals_and_time_limits_are_kept() {
    let sandbox = create(policy()).await;
    for code in [0, 1, 42, 255] {
        let result = result(&sandbox, &format!("exit {code}")).await;
        assert_eq!(result.exit_code(), Some(code));
    }
    let signaled = result(&sandbox, "kill -TERM $$").await;
    assert!(matches!(signaled.outcome, Outcome::Signaled { .. }));
    let request = on_terminal("sleep 60").timeout(Duration::from_millis(300));
    let late = sandbox.exec(&request).await.expect("it ends");
    assert_eq!(late.outcome, Outcome::TimedOut);
    let missing = ExecRequest::new("/no/such/program").terminal(SIZE);
    let missing = sandbox.exec(&missing).await.expect_err("there is none");
    assert_eq!(missing.kind(), ErrorKind::ProgramNotFound);
    let mut session = Session::start(&sandbox, sh("trap 'exit 8' USR1; echo ready; read x")).await;
    session.expect("ready").await;
    session.execution.signal(10).await.expect("a signal");
    assert_eq!(session.end().await.exit_code(), Some(8));
}

async fn killed_execution_leaves_no_process_of_its_terminal() {
    let sandbox = create(policy()).await;
    let marker = processes::unique_seconds();
    let script = format!("setsid sleep {marker} & sleep {marker} & echo ready; sleep {marker}");
    let mut session = Session::start(&sandbox, sh(&script)).await;
    session.expect("ready").await;
    session.execution.kill().await;
    let result = session.end().await;
    assert!(matches!(result.outcome, Outcome::Signaled { .. }));
    wait_until_async("they end", Duration::from_secs(30), async || {
        processes::with_argument(&marker).is_empty()
    })
    .await;
}

async fn dropped_execution_ends_background_jobs_of_its_terminal() {
    let sandbox = create(policy()).await;
    let marker = processes::unique_seconds();
    let script = format!("nohup sleep {marker} >/dev/null 2>&1 & echo ready; sleep {marker}");
    let mut session = Session::start(&sandbox, sh(&script)).await;
    session.expect("ready").await;
    drop(session);
    wait_until_async("they end", Duration::from_secs(30), async || {
        processes::with_argument(&marker).is_empty()
    })
    .await;
    let next = result(&sandbox, "echo next").await;
    assert_eq!(next.stdout_text(), "next\r\n");
}

async fn later_execution_gets_a_terminal_too() {
    let sandbox = create(policy()).await;
    // The agent forks later executions ahead of time, and those have pipes.
    for round in 0..5 {
        let piped = sandbox.exec(&sh("test -t 1")).await.expect("it works");
        assert_eq!(piped.exit_code(), Some(1), "round {round}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let shown = result(&sandbox, "test -t 1 && stty size").await;
        assert_eq!(shown.stdout_text(), "33 101\r\n", "round {round}");
    }
}

async fn terminal_works_where_one_program_may_run() {
    let mut policy = policy();
    policy.subprocess_execution = Some(false);
    let sandbox = create(policy).await;
    let stty = ExecRequest::new("stty").arg("size").terminal(SIZE);
    let result = sandbox.exec(&stty).await.expect("it works");
    assert_eq!(result.stdout_text(), "33 101\r\n");
}

async fn program_on_a_terminal_is_confined_as_any_other() {
    let sandbox = create(policy()).await;
    let script = "import os, ctypes\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        fields = 'Uid Gid Groups NoNewPrivs Seccomp Seccomp_filters CapInh CapPrm CapEff CapBnd CapAmb \
        SigBlk SigIgn'.split()\n\
        try:\n\
        \x20   for line in open('/proc/self/status'):\n\
        \x20       if line.split(':')[0] in fields: print(line, end='')\n\
        \x20   print(open('/proc/self/cgroup').read(), open('/proc/self/limits').read())\n\
        except OSError as e: print(e)\n\
        open_ones = []\n\
        for fd in range(1024):\n\
        \x20   try: os.fstat(fd); open_ones.append(fd)\n\
        \x20   except OSError: pass\n\
        print(open_ones, os.getsid(0) == os.getpid(), os.getcwd(), os.umask(0))\n\
        for path in '/usr/x', '/etc/x', '/x', '/dev/x', '/dev/pts/x', '/proc/sysrq-trigger':\n\
        \x20   try: open(path, 'w'); print(path, 'opened')\n\
        \x20   except OSError as e: print(e)\n\
        for call in 165, 101, 272, 425, 321, 298:\n\
        \x20   print(call, libc.syscall(call, 0, 0, 0, 0, 0), ctypes.get_errno())";
    let python = ExecRequest::new("python3").args(["-c", script]);
    let piped = sandbox.exec(&python).await.expect("it works").stdout_text();
    let shown = sandbox.exec(&python.terminal(SIZE)).await;
    let shown = shown.expect("it works").stdout_text().replace('\r', "");
    assert!(piped.contains("NoNewPrivs:\t1") || !crate::support::namespaces());
    assert!(piped.contains("[0, 1, 2] True"), "{piped}");
    assert_eq!(piped, shown);
}

async fn code_opens_terminals_of_its_own() {
    let sandbox = create(CapabilityPolicy::new()).await;
    let script = "import os, pty\n\
        pid, master = pty.fork()\n\
        if pid == 0: os.execvp('sh', ['sh', '-c', 'test -t 0 && tty && : < /dev/tty && echo own'])\n\
        out = b''\n\
        try:\n\
        \x20   while chunk := os.read(master, 999): out += chunk\n\
        except OSError: pass\n\
        os.waitpid(pid, 0)\n\
        print(out)";
    let python = ExecRequest::new("python3").args(["-c", script]);
    for request in [python.clone(), python.terminal(SIZE)] {
        let result = sandbox.exec(&request).await.expect("it works");
        let text = result.output();
        assert!(text.contains(r"/dev/pts/"), "{text}");
        assert!(text.contains(r"own\r\n"), "{text}");
    }
    let script = ExecRequest::new("script").args(["-qc", "tty; exit 9", "/dev/null"]);
    match sandbox.exec(&script.arg("-e")).await {
        Ok(result) => {
            assert_eq!(
                result.stdout_text(),
                "/dev/pts/0\r\n",
                "{}",
                result.stderr_text()
            );
            assert_eq!(result.exit_code(), Some(9));
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::ProgramNotFound),
    }
}

async fn number_of_terminals_is_limited() {
    let sandbox = create(CapabilityPolicy::new()).await;
    let script = "import os, errno\n\
        fds = []\n\
        try:\n\
        \x20   while len(fds) < 500: fds += os.openpty()\n\
        except OSError as e: print(len(fds) // 2, errno.errorcode[e.errno])\n\
        input()";
    let python = ExecRequest::new("python3").args(["-c", script]);
    let mut execution = sandbox
        .start(&python, Stdin::Piped)
        .await
        .expect("it starts");
    let keyboard = execution.take_stdin().expect("it is piped");
    loop {
        match execution.next_event().await.expect("it works") {
            Some(ExecEvent::Stdout(bytes)) => {
                assert_eq!(bytes, "64 ENOSPC\n");
                break;
            }
            Some(ExecEvent::Started) => {}
            other => panic!("{other:?}"),
        }
    }
    let refused = sandbox.exec(&on_terminal("true")).await;
    let refused = refused.expect_err("there are 64 already").to_string();
    assert!(refused.contains("too many terminals open"), "{refused}");
    drop(keyboard);
    execution.wait().await.expect("it ends");
    assert!(result(&sandbox, "true").await.success());
}

async fn input_cannot_be_typed_into_a_terminal() {
    let sandbox = create(policy()).await;
    // TIOCSTI, TIOCLINUX, TIOCCONS and TIOCSETD.
    let script = "import fcntl, struct\n\
        for request in 0x5412, 0x541c, 0x541d, 0x5423:\n\
        \x20   try: fcntl.ioctl(0, request, b'x\\0\\0\\0'); print('worked')\n\
        \x20   except OSError as e: print(e.strerror)";
    let python = ExecRequest::new("python3").args(["-c", script]);
    let result = sandbox
        .exec(&python.terminal(SIZE))
        .await
        .expect("it works");
    assert_eq!(
        result.stdout_text(),
        "Operation not permitted\r\n".repeat(4)
    );
}
