//! The end of executions and of the agent.

mod common;

use std::time::{Duration, Instant};

use common::{
    FirstClient, command,
    processes::{alive, unique_seconds, wait_until},
    script, settings,
};
use sandbox_agent::protocol::{
    ExecRequest, ExitKind, FailStep, Failure, FrameKind, encode_frame, encode_message,
};

#[test]
fn timeout_keeps_earlier_output() {
    let mut client = FirstClient::start(&settings());
    let mark = unique_seconds();
    let request = ExecRequest {
        timeout_ms: 1000,
        ..script(&format!(
            "trap '' TERM; echo early; echo late >&2; setsid sleep {mark} & sleep {mark}"
        ))
    };
    let start = Instant::now();
    let outcome = client.run(&request);
    let elapsed = start.elapsed();
    assert_eq!(outcome.kind(), ExitKind::TimedOut);
    assert_eq!(
        (outcome.text().as_str(), &outcome.stderr[..]),
        ("early\n", &b"late\n"[..])
    );
    assert!(elapsed >= Duration::from_secs(1) && elapsed < Duration::from_secs(20));
    assert_eq!(outcome.report().stragglers, 2, "{:?}", outcome.report());
    assert_eq!(alive(&mark), 0);
    // An execution that ends in time is not affected.
    let request = ExecRequest {
        timeout_ms: 5000,
        ..command(&["true"])
    };
    assert_eq!(client.run(&request).kind(), ExitKind::Exited(0));
    // A program that sleeps in the kernel, or waits for input.
    let request = ExecRequest {
        timeout_ms: 100,
        stdin: true,
        ..command(&["cat"])
    };
    assert_eq!(client.run(&request).kind(), ExitKind::TimedOut);
}

#[test]
fn background_process_does_not_delay_the_exit() {
    let mut client = FirstClient::start(&settings());
    let mark = unique_seconds();
    let start = Instant::now();
    // A double fork with its own session, which holds the outputs open.
    let text =
        format!("setsid sh -c 'sleep {mark} & exit' ; setsid sleep {mark} & echo main; exit 3");
    let outcome = client.run(&script(&text));
    assert_eq!(outcome.kind(), ExitKind::Exited(3));
    assert_eq!(outcome.text(), "main\n");
    assert!(start.elapsed() < Duration::from_secs(20));
    let report = outcome.report();
    assert!((1..=3).contains(&report.stragglers), "{report:?}");
    assert_eq!((report.survivors, report.drain_cut), (0, false));
    assert_eq!(alive(&mark), 0);
}

#[test]
fn output_held_open_by_another_execution_is_cut() {
    let mut client = FirstClient::start(&settings());
    let fifo = tempfile::tempdir().unwrap();
    let path = fifo.path().join("pid").to_str().unwrap().to_string();
    let first = client.exec(&script(&format!(
        "echo $$ > {path}; echo before; sleep 0.6; exit 5"
    )));
    wait_until("the first runs", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))
    });
    // The second opens the first one's output and writes to it forever.
    let second = client.exec(&script(&format!(
        "exec > /proc/$(cat {path})/fd/1; while sleep 0.01; do echo more; done"
    )));
    let outcome = client.finish(first);
    assert_eq!(outcome.kind(), ExitKind::Exited(5));
    assert!(outcome.report().drain_cut);
    assert!(outcome.text().starts_with("before\n"));
    client.send(second, FrameKind::Kill, &[]);
    client.finish(second);
}

#[test]
fn tree_of_500_processes_is_killed() {
    let mut client = FirstClient::start(&settings());
    let mark = unique_seconds();
    // Each with its own session, and with a parent that has exited.
    let text = format!(
        "i=0; while [ $i -lt 500 ]; do (setsid sleep {mark} &) ; i=$((i+1)); done; echo ready; sleep {mark}"
    );
    let stream = client.exec(&script(&text));
    let mut killed = None;
    let outcome = client.follow(stream, |client, message| {
        if message.kind == FrameKind::Stdout {
            wait_until("500 processes", || alive(&mark) >= 501);
            client.send(stream, FrameKind::Kill, &[]);
            killed = Some(Instant::now());
        }
    });
    let elapsed = killed.unwrap().elapsed();
    assert_eq!(outcome.kind(), ExitKind::Killed);
    let report = outcome.report();
    assert_eq!(
        (report.stragglers, report.survivors),
        (501, 0),
        "{report:?}"
    );
    assert_eq!(alive(&mark), 0);
    eprintln!("a tree of 501 was gone after {elapsed:?}");
    assert_eq!(client.run(&command(&["echo", "alive"])).text(), "alive\n");
}

#[test]
fn continuously_forking_tree_is_killed() {
    let mut client = FirstClient::start(&settings());
    let temp_dir = tempfile::tempdir().unwrap();
    let stop = temp_dir.path().join("stop");
    let stop_path = stop.to_str().unwrap();
    // Two generations at any time, each with its own session. The file stops them if the kill
    // fails.
    let text = format!(
        "f() {{ while [ ! -e {stop_path} ]; do setsid sh -c 'sleep 0.02 & sleep 0.01' & sleep 0.005; done; }}; \
         f & f & echo ready; sleep 0.3; exit 0"
    );
    let outcome = client.run(&script(&text));
    std::fs::write(&stop, "").unwrap();
    assert_eq!(outcome.kind(), ExitKind::Exited(0));
    let report = outcome.report();
    assert!(report.stragglers > 0 && report.survivors == 0, "{report:?}");
}

#[test]
fn kill_leaves_other_executions_running() {
    let mut client = FirstClient::start(&settings());
    let other = client.exec(&script("sleep 0.5; echo alive"));
    let stream = client.exec(&command(&["sleep", "100"]));
    client.send(stream, FrameKind::Kill, &[]);
    assert_eq!(client.finish(stream).kind(), ExitKind::Killed);
    assert_eq!(client.finish(other).text(), "alive\n");
}

#[test]
fn lost_supervisor_is_reported_and_its_tree_killed() {
    let mut client = FirstClient::start(&settings());
    let mark = unique_seconds();
    let other = client.exec(&script("sleep 0.7; echo alive"));
    for signal in ["KILL", "STOP"] {
        // Code with the agent's own identity can do this to its parent.
        let text = format!(
            "setsid sleep {mark} & (setsid sleep {mark} &); kill -{signal} $PPID; sleep {mark}"
        );
        let outcome = client.run(&script(&text));
        assert_eq!(outcome.kind(), ExitKind::Lost);
        assert_eq!(outcome.report().survivors, 0);
        assert_eq!(alive(&mark), 0);
    }
    assert_eq!(client.finish(other).text(), "alive\n");
}

#[test]
fn stop_waits_for_the_grace_period() {
    let mut client = FirstClient::start(&settings());
    let polite = client.exec(&script(
        "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.02; done",
    ));
    let stubborn = client.exec(&script(
        "trap '' TERM; echo up; while :; do sleep 0.02; done",
    ));
    for stream in [polite, stubborn] {
        assert_eq!(client.wait(stream).kind, FrameKind::Started);
        assert_eq!(client.wait(stream).bytes, b"up\n");
    }
    let start = Instant::now();
    client.send(0, FrameKind::Stop, &2000u32.to_le_bytes());
    let late = client.exec(&command(&["true"]));
    assert_eq!(client.finish(late).failure().step, FailStep::Request);
    // The shell may report on stderr that the signal ended its `sleep` too.
    let word = loop {
        let message = client.wait(polite);
        if message.kind == FrameKind::Stdout {
            break message.bytes;
        }
        assert_eq!(message.kind, FrameKind::Stderr);
    };
    assert_eq!(word, b"bye\n");
    assert_eq!(client.wait_end(polite).kind, ExitKind::Exited(7));
    assert!(start.elapsed() < Duration::from_millis(1900));
    assert_eq!(client.wait_end(stubborn).kind, ExitKind::Killed);
    assert!(start.elapsed() >= Duration::from_secs(2));
    assert_eq!(client.wait(0).kind, FrameKind::Stopped);
    assert_eq!(client.agent_end().code(), Some(0));
}

#[test]
fn stop_is_immediate_without_executions() {
    let mut client = FirstClient::start(&settings());
    let start = Instant::now();
    client.send(0, FrameKind::Stop, &10_000u32.to_le_bytes());
    assert_eq!(client.wait(0).kind, FrameKind::Stopped);
    assert_eq!(client.agent_end().code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn owner_disconnect_leaves_no_process() {
    let mut client = FirstClient::start(&settings());
    let mark = unique_seconds();
    let stream = client.exec(&script(&format!(
        "trap '' TERM HUP; (setsid sleep {mark} &); setsid sleep {mark} & echo up; sleep {mark}"
    )));
    assert_eq!(client.wait(stream).kind, FrameKind::Started);
    assert_eq!(client.wait(stream).bytes, b"up\n");
    wait_until("three processes", || alive(&mark) == 3);
    client.socket.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(client.agent_end().code(), Some(0));
    assert_eq!(alive(&mark), 0);
}

#[test]
fn killed_agent_leaves_no_process() {
    let mut client = FirstClient::start(&settings());
    let mark = unique_seconds();
    let stream = client.exec(&script(&format!(
        "(setsid sleep {mark} &); echo up; sleep {mark}"
    )));
    assert_eq!(client.wait(stream).kind, FrameKind::Started);
    assert_eq!(client.wait(stream).bytes, b"up\n");
    wait_until("two processes", || alive(&mark) == 2);
    client.agent.kill().unwrap();
    client.agent.wait().unwrap();
    wait_until("none is left", || alive(&mark) == 0);
}

#[test]
fn expired_lease_ends_the_sandbox() {
    let mut settings = settings();
    settings.lease_ms = 2000;
    settings.owned = false;
    let mut client = FirstClient::start(&settings);
    let mark = unique_seconds();
    let stream = client.exec(&command(&["sleep", &mark]));
    assert_eq!(client.wait(stream).kind, FrameKind::Started);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        client.ping();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(alive(&mark), 1);
    assert_eq!(client.agent_end().code(), Some(69));
    assert_eq!(alive(&mark), 0);
}

#[test]
fn expired_time_to_live_ends_the_sandbox() {
    let mut settings = settings();
    settings.lifetime_ms = 700;
    let mut client = FirstClient::start(&settings);
    let mark = unique_seconds();
    let stream = client.exec(&command(&["sleep", &mark]));
    assert_eq!(client.wait(stream).kind, FrameKind::Started);
    assert_eq!(alive(&mark), 1);
    // The lease is not the reason: pings continue.
    client.ping();
    let word = client.wait(0);
    let failure = Failure::decode(&word.bytes).unwrap();
    assert_eq!(failure.step, FailStep::Ended);
    assert_eq!(client.agent_end().code(), Some(69));
    assert_eq!(alive(&mark), 0);
}

#[test]
fn protocol_violations_end_the_agent() {
    let check = |break_it: &dyn Fn(&mut FirstClient)| {
        let mut client = FirstClient::start(&settings());
        let stream = client.exec(&ExecRequest {
            stdin: true,
            ..command(&["sleep", "100"])
        });
        assert_eq!(client.wait(stream).kind, FrameKind::Started);
        break_it(&mut client);
        let message = client.wait(0);
        assert_eq!(message.kind, FrameKind::Failed);
        let failure = Failure::decode(&message.bytes).unwrap();
        assert_eq!(failure.step, FailStep::Protocol);
        assert_eq!(client.agent_end().code(), Some(70));
        failure.detail
    };
    let detail = check(&|client| {
        use std::io::Write;
        // The pipe accepts 1 MiB, then no more credit is granted.
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, 1, FrameKind::Stdin, false, &[0; 60_000]);
        for _ in 0..40 {
            // The agent may exit before it has read everything.
            let _ = client.socket.write_all(&bytes);
        }
    });
    assert_eq!(detail, "more bytes than were granted");
    let again = command(&["true"]).encode();
    check(&|client| client.send(1, FrameKind::Exec, &again));
    check(&|client| client.send(0, FrameKind::Exec, &again));
    check(&|client| client.send(0, FrameKind::Hello, &settings().encode()));
    check(&|client| client.send(0, FrameKind::Setup, &[]));
    check(&|client| client.send(2, FrameKind::Exec, &[]));
    check(&|client| client.send(1, FrameKind::Signal, &65u32.to_le_bytes()));
    check(&|client| client.send(1, FrameKind::Signal, &[15]));
    check(&|client| client.send(1, FrameKind::Credit, &[1]));
    check(&|client| client.send(1, FrameKind::Started, &[0; 4]));
    check(&|client| {
        client.send(1, FrameKind::StdinEnd, &[]);
        client.send(1, FrameKind::Stdin, &[1]);
    });
    check(&|client| {
        use std::io::Write;
        let mut bytes = Vec::new();
        encode_message(&mut bytes, 2, FrameKind::Exec, &vec![0; 5 << 20]);
        // The agent may exit before it has read everything.
        let _ = client.socket.write_all(&bytes);
    });
}

#[test]
fn flood_of_pings_uses_bounded_memory() {
    use std::io::Write;
    let mut client = FirstClient::start(&settings());
    client.socket.set_nonblocking(true).unwrap();
    let mut bytes = Vec::new();
    encode_message(&mut bytes, 0, FrameKind::Ping, &[7; 60_000]);
    // The client reads nothing: at some point the agent stops reading too.
    let start = Instant::now();
    let mut taken = 0u64;
    while start.elapsed() < Duration::from_millis(700) {
        match client.socket.write(&bytes) {
            Ok(count) => taken += count as u64,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let agent = client.agent.id();
    let status = std::fs::read_to_string(format!("/proc/{agent}/status")).unwrap();
    let rss: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap();
    assert!(taken < 16 << 20, "{taken}");
    assert!(rss < 24_000, "{rss} KiB after {taken} bytes");
}
