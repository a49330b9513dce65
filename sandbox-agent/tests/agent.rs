//! Executions in a running agent.

mod common;

use std::{
    fs,
    time::{Duration, Instant},
};

use common::{FirstClient, command, script, settings};
use sandbox_agent::protocol::{
    Channel, ExecProgram, ExecRequest, ExitKind, FailStep, FrameKind, LogRequest, MAX_STREAMS,
};

#[test]
fn program_runs_and_reports_its_exit() {
    let mut client = FirstClient::start(&settings());
    let outcome = client.run(&command(&["echo", "hello"]));
    assert_eq!(outcome.text(), "hello\n");
    assert_eq!(outcome.kind(), ExitKind::Exited(0));
    assert!(outcome.pid.is_some());
    let report = outcome.report();
    assert!(report.wall_us > 0 && report.max_rss_kib > 0, "{report:?}");
    assert_eq!(
        (report.stragglers, report.survivors, report.drain_cut),
        (0, 0, false)
    );
}

#[test]
fn resource_usage_is_reported() {
    let mut client = FirstClient::start(&settings());
    let report = client
        .run(&script("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"))
        .report();
    assert!(report.cpu_us > 20_000, "{report:?}");
    assert!(report.wall_us >= report.cpu_us * 9 / 10, "{report:?}");
    let report = client
        .run(&script(
            "head -c 50000000 /dev/zero | tail -c 50000000 | wc -c",
        ))
        .report();
    assert!(report.max_rss_kib > 45_000, "{report:?}");
    // The agent's own memory, with a full log of 16 MiB, does not count as the program's.
    let mut settings = settings();
    settings.log_bytes = 16 << 20;
    let mut client = FirstClient::start(&settings);
    let fill = ExecRequest {
        log: true,
        ..script("head -c 17000000 /dev/zero")
    };
    assert_eq!(client.run(&fill).stdout.len(), 17_000_000);
    let report = client.run(&command(&["true"])).report();
    assert!(report.max_rss_kib < 8000, "{report:?}");
}

#[test]
fn every_exit_code_is_reported() {
    let mut client = FirstClient::start(&settings());
    for code in 0..=255 {
        let outcome = client.run(&script(&format!("exit {code}")));
        assert_eq!(outcome.kind(), ExitKind::Exited(code));
    }
}

#[test]
fn fatal_signals_are_reported() {
    let mut client = FirstClient::start(&settings());
    for signal in [1, 2, 6, 9, 11, 15] {
        let outcome = client.run(&script(&format!("kill -{signal} $$; sleep 5")));
        assert_eq!(outcome.kind(), ExitKind::Signaled(signal));
    }
    // A signal from the client goes to the main process only, even if it arrives before the program
    // runs.
    for _ in 0..20 {
        let stream = client.exec(&command(&["sleep", "5"]));
        client.send(stream, FrameKind::Signal, &15u32.to_le_bytes());
        assert_eq!(client.finish(stream).kind(), ExitKind::Signaled(15));
    }
    let stream = client.exec(&script(
        "trap 'echo got it' USR1; echo ready; sleep 0.3; wait",
    ));
    let outcome = client.follow(stream, |client, message| {
        if message.kind == FrameKind::Stdout && message.bytes == b"ready\n" {
            client.send(stream, FrameKind::Signal, &10u32.to_le_bytes());
        }
    });
    assert_eq!(outcome.text(), "ready\ngot it\n");
    // After the end, a signal is not an error.
    client.send(stream, FrameKind::Signal, &15u32.to_le_bytes());
    client.send(stream, FrameKind::Kill, &[]);
    client.ping();
}

#[test]
fn programs_start_with_default_signal_actions() {
    let mut client = FirstClient::start(&settings());
    let status = client.run(&command(&["cat", "/proc/self/status"])).text();
    for set in ["SigBlk", "SigIgn", "SigCgt"] {
        assert!(
            status.contains(&format!("{set}:\t0000000000000000\n")),
            "{status}"
        );
    }
}

#[test]
fn failure_to_start_names_step_and_path() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = |name: &str| temp_dir.path().join(name).to_str().unwrap().to_string();
    let write = |name: &str, text: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        fs::write(path(name), text).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    write("plain", "text", 0o644);
    write("garbage", "\x01\x02\x03", 0o755);
    write("orphan", "#!/no/such/interpreter\n", 0o755);
    write("script", "#!/bin/sh\necho \"script $1\"\n", 0o755);
    let mut client = FirstClient::start(&settings());
    let mut fails = |argv: &[&str], step: FailStep, errno: i32| {
        let outcome = client.run(&command(argv));
        let failure = outcome.failure();
        assert_eq!(
            (failure.step, failure.errno),
            (step, errno),
            "{argv:?}: {failure:?}"
        );
        assert_eq!(outcome.pid, None);
        failure.detail.clone()
    };
    assert_eq!(
        fails(&["no-such-program"], FailStep::NotFound, libc::ENOENT),
        "no-such-program"
    );
    fails(&["/no/such/program"], FailStep::NotFound, libc::ENOENT);
    fails(&["/etc/passwd/x"], FailStep::NotFound, libc::ENOTDIR);
    fails(&[""], FailStep::NotFound, libc::ENOENT);
    fails(&[&path("plain")], FailStep::NotExecutable, libc::EACCES);
    fails(&["/etc"], FailStep::NotExecutable, libc::EACCES);
    fails(&[&path("garbage")], FailStep::NotExecutable, libc::ENOEXEC);
    let detail = fails(&[&path("orphan")], FailStep::NotExecutable, libc::ENOENT);
    assert!(detail.ends_with("orphan: interpreter missing"), "{detail}");
    fails(&["a\0b"], FailStep::Request, 0);
    let large = "x".repeat(200_000);
    fails(&["true", &large], FailStep::Request, libc::E2BIG);
    assert_eq!(
        client.run(&command(&[&path("script"), "1"])).text(),
        "script 1\n"
    );

    let elsewhere = |workdir: &str| ExecRequest {
        workdir: workdir.into(),
        ..command(&["pwd"])
    };
    assert_eq!(client.run(&elsewhere("/usr")).text(), "/usr\n");
    let outcome = client.run(&elsewhere("/no/such"));
    let failure = outcome.failure();
    assert_eq!(
        (failure.step, failure.errno),
        (FailStep::Workdir, libc::ENOENT)
    );
    assert_eq!(failure.detail, "/no/such");
    let outcome = client.run(&elsewhere("/etc/passwd"));
    assert_eq!(outcome.failure().step, FailStep::Workdir);
    // A name with a slash is relative to the working directory.
    let relative = ExecRequest {
        workdir: temp_dir.path().to_str().unwrap().into(),
        ..command(&["./script", "2"])
    };
    assert_eq!(client.run(&relative).text(), "script 2\n");
}

#[test]
fn environment_is_passed_unchanged() {
    let mut client = FirstClient::start(&settings());
    let with = |env: &[&[u8]]| ExecRequest {
        env: env.iter().map(|entry| entry.to_vec()).collect(),
        ..command(&["/usr/bin/env"])
    };
    assert_eq!(client.run(&with(&[])).stdout, b"");
    let outcome = client.run(&with(&[b"B=2", b"A=\xff\xfe", b"C=", b"B=3"]));
    assert_eq!(outcome.stdout, b"B=2\nA=\xff\xfe\nC=\nB=3\n");
    let outcome = client.run(&with(&[b"A=\0"]));
    assert_eq!(outcome.failure().step, FailStep::Request);
    // PATH is the request's, or the default.
    let bare = ExecRequest {
        env: Vec::new(),
        ..command(&["env"])
    };
    assert_eq!(client.run(&bare).kind(), ExitKind::Exited(0));
    let lost = ExecRequest {
        env: vec![b"PATH=/etc:/".to_vec()],
        ..command(&["env"])
    };
    assert_eq!(client.run(&lost).failure().step, FailStep::NotFound);
}

#[test]
fn programs_inherit_only_standard_streams() {
    let mut client = FirstClient::start(&settings());
    // Other executions run at the same time, with their own pipes.
    let other = client.exec(&ExecRequest {
        stdin: true,
        ..command(&["cat"])
    });
    let outcome = client.run(&command(&["ls", "-l", "/proc/self/fd"]));
    let listed: Vec<String> = outcome
        .text()
        .lines()
        .filter_map(|line| line.split_whitespace().nth(8).map(str::to_string))
        .collect();
    assert_eq!(listed, ["0", "1", "2", "3"], "{}", outcome.text());
    assert!(outcome.text().contains("0 -> /dev/null"));
    // If another process held the write end open, this would not end.
    client.send(other, FrameKind::StdinEnd, &[]);
    assert_eq!(client.finish(other).kind(), ExitKind::Exited(0));
    // The agent keeps no descriptors of an execution. Only root can check.
    client.ping();
    let agent = client.agent.id();
    let open = || fs::read_dir(format!("/proc/{agent}/fd")).map(Iterator::count);
    let Ok(before) = open() else { return };
    for _ in 0..20 {
        client.run(&command(&["true"]));
        client.run(&command(&["no-such-program"]));
    }
    client.ping();
    assert_eq!(open().unwrap(), before);
}

#[test]
fn standard_input_is_passed_with_flow_control() {
    let mut client = FirstClient::start(&settings());
    let cat = ExecRequest {
        stdin: true,
        ..command(&["cat"])
    };
    let stream = client.exec(&cat);
    for word in ["one ", "two ", "three"] {
        client.send(stream, FrameKind::Stdin, word.as_bytes());
    }
    client.send(stream, FrameKind::StdinEnd, &[]);
    assert_eq!(client.finish(stream).text(), "one two three");
    // More than one window, as the agent grants credit.
    let data: Vec<u8> = (0..5_000_000u32).map(|n| (n * 7 % 251) as u8).collect();
    let stream = client.exec(&ExecRequest {
        stdin: true,
        ..command(&["cat"])
    });
    let (mut sent, mut credit) = (0, sandbox_agent::protocol::WINDOW as usize);
    let outcome = client.follow(stream, |client, message| {
        if message.kind == FrameKind::Credit {
            let (channel, bytes) = Channel::read_credit(&message.bytes).unwrap();
            assert_eq!(channel, Channel::Stdin);
            credit += bytes as usize;
        }
        while credit > 0 && sent < data.len() {
            let count = credit.min(30_000).min(data.len() - sent);
            client.send(stream, FrameKind::Stdin, &data[sent..sent + count]);
            sent += count;
            credit -= count;
            if sent == data.len() {
                client.send(stream, FrameKind::StdinEnd, &[]);
            }
        }
    });
    assert!(outcome.stdout == data);
    // A program that does not read its input.
    let stream = client.exec(&ExecRequest {
        stdin: true,
        ..script("exec <&-; sleep 0.1; exit 4")
    });
    for _ in 0..4 {
        client.send(stream, FrameKind::Stdin, &[0; 60_000]);
    }
    assert_eq!(client.finish(stream).kind(), ExitKind::Exited(4));
    // Input for a program without standard input.
    let stream = client.exec(&command(&["cat"]));
    client.send(stream, FrameKind::Stdin, b"lost");
    client.send(stream, FrameKind::StdinEnd, &[]);
    assert_eq!(client.finish(stream).text(), "");
}

#[test]
fn fifty_executions_run_at_once() {
    let mut client = FirstClient::start(&settings());
    let streams: Vec<u32> = (0..50)
        .map(|number| {
            client.exec(&script(&format!(
                "sleep 0.2; echo {number}; echo {number} >&2; exit {number}"
            )))
        })
        .collect();
    let start = Instant::now();
    for (number, stream) in (0..50u8).zip(streams) {
        let outcome = client.finish(stream);
        assert_eq!(outcome.kind(), ExitKind::Exited(number));
        assert_eq!(outcome.text(), format!("{number}\n"));
        assert_eq!(outcome.stderr, format!("{number}\n").as_bytes());
    }
    assert!(start.elapsed() < Duration::from_secs(8));
}

#[test]
fn number_of_streams_is_bounded() {
    let mut settings = settings();
    settings.lease_ms = 60_000;
    let mut client = FirstClient::start(&settings);
    // Log streams count too; these wait for credit that never comes.
    let logged = ExecRequest {
        log: true,
        ..script("head -c 1000000 /dev/zero")
    };
    settings.log_bytes = 2_000_000;
    let mut large = FirstClient::start(&settings);
    large.run(&logged);
    for number in 0..MAX_STREAMS as u32 {
        let request = LogRequest {
            tail: u32::MAX,
            follow: false,
        };
        large.send(1000 + number, FrameKind::Logs, &request.encode());
    }
    let outcome = large.run(&command(&["true"]));
    assert_eq!(outcome.failure().step, FailStep::Request);
    drop(large);
    assert_eq!(client.run(&command(&["true"])).kind(), ExitKind::Exited(0));
}

#[test]
fn agent_answers_while_programs_flood() {
    let mut client = FirstClient::start(&settings());
    let stream = client.exec(&command(&["yes"]));
    assert_eq!(client.wait(stream).kind, FrameKind::Started);
    // Without credit, one window arrives. Then the program blocks, and the agent does not.
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..20 {
        assert!(client.ping() < Duration::from_secs(5));
    }
    let mut received = 0;
    while let Some(message) = client.receive(Duration::from_millis(200)) {
        assert_eq!(message.kind, FrameKind::Stdout);
        received += message.bytes.len();
    }
    assert!(received <= sandbox_agent::protocol::WINDOW as usize);
    client.send(stream, FrameKind::Kill, &[]);
    // Bytes in the pipe still count, and so does output until the kill takes effect.
    client.grant(stream, Channel::Stdout, 1 << 30);
    assert_eq!(client.wait_end(stream).kind, ExitKind::Killed);
}

#[test]
fn log_keeps_and_replays_output() {
    let mut settings = settings();
    settings.log_bytes = 1000;
    let mut client = FirstClient::start(&settings);
    let tail = |client: &mut FirstClient, lines: u32| {
        let stream = client.open_stream();
        let request = LogRequest {
            tail: lines,
            follow: false,
        };
        client.send(stream, FrameKind::Logs, &request.encode());
        let outcome = client.finish(stream);
        assert_eq!(outcome.kind(), ExitKind::Exited(0));
        outcome.text()
    };
    assert_eq!(tail(&mut client, 100), "");
    let logged = |text: &str| ExecRequest {
        log: true,
        ..script(text)
    };
    client.run(&logged("echo out; sleep 0.05; echo err >&2"));
    client.run(&script("echo not logged"));
    assert_eq!(tail(&mut client, 100), "out\nerr\n");
    assert_eq!(tail(&mut client, 1), "err\n");
    client.run(&logged("yes 123456789 | head -n 500"));
    assert_eq!(tail(&mut client, u32::MAX), "123456789\n".repeat(100));
}

#[test]
fn output_of_64_mib_arrives_unchanged() {
    let mut client = FirstClient::start(&settings());
    let text = "i=0; while [ $i -lt 64 ]; do head -c 1048576 /dev/urandom; i=$((i+1)); done \
        | tee /dev/stderr | sha256sum >/tmp/x-$$; cat /tmp/x-$$ >&2; rm /tmp/x-$$";
    let outcome = client.run(&ExecRequest {
        program: ExecProgram::Command {
            argv: vec![b"bash".to_vec(), b"-c".to_vec(), text.into()],
        },
        ..command(&["x"])
    });
    assert_eq!(outcome.kind(), ExitKind::Exited(0));
    assert_eq!(
        outcome.stderr.len(),
        (64 << 20) + 68,
        "{}",
        outcome.stdout.len()
    );
    let (data, sum) = outcome.stderr.split_at(64 << 20);
    let check = {
        use std::io::Write;
        let mut child = std::process::Command::new("sha256sum")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(data).unwrap();
        child.wait_with_output().unwrap().stdout
    };
    assert_eq!(sum, check);
}
