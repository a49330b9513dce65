//! An agent that answers late or never. These tests use tokio's paused clock.

mod fake;

use std::time::Duration;

use async_trait::async_trait;
use fake::{
    ClientRole, Count, Destroyed, FakeAgent, PIPE, assert_ended, assert_unknown_and_destroyed,
    client_of, connect, exec, frame, request, sandbox, unknown_reason,
};
use sandbox_agent::protocol::{
    ExitKind, FailStep, Failure, FrameKind, VERSION, WINDOW, encode_frame,
};
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream};
use sandbox_core::{ErrorKind, Outcome};
use sandbox_host::AgentInstance;
use tokio::time::{Instant, sleep, timeout};

/// The first half of a frame.
fn half_a_frame(stream: u32) -> Vec<u8> {
    let mut bytes = frame(stream, FrameKind::Stdout, &[0; 1000]);
    bytes.truncate(500);
    bytes
}

/// A sandbox whose agent answers pings and nothing else.
async fn pinging_sandbox() -> (AgentInstance, Destroyed) {
    sandbox(|mut agent| async move { agent.only_answer_pings().await }).await
}

/// Asserts that a request ends within `limit` seconds with an unknown outcome for this reason, and
/// that the sandbox is destroyed.
async fn assert_given_up(
    instance: &AgentInstance,
    destroyed: &Destroyed,
    reason: &str,
    limit: u64,
) {
    let start = Instant::now();
    assert_unknown_and_destroyed(instance, destroyed, reason).await;
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(limit), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn stall_in_the_middle_of_a_frame_ends_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        agent.raw(&half_a_frame(stream)).await;
        agent.stall().await;
    })
    .await;
    assert_given_up(&instance, &destroyed, "does not answer", 60).await;
}

#[tokio::test(start_paused = true)]
async fn single_bytes_of_a_frame_do_not_count_as_an_answer() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        for byte in frame(stream, FrameKind::Stdout, &[0; 60_000]) {
            if !agent.raw(&[byte]).await {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    assert_given_up(&instance, &destroyed, "does not answer", 60).await;
}

#[tokio::test(start_paused = true)]
async fn execution_that_never_ends_is_unknown() {
    let (instance, destroyed) = pinging_sandbox().await;
    assert_given_up(&instance, &destroyed, "did not end an execution", 30).await;
}

#[tokio::test(start_paused = true)]
async fn flood_of_empty_frames_does_not_extend_the_time_limit() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        let mut bytes = Vec::new();
        for _ in 0..100 {
            encode_frame(&mut bytes, stream, FrameKind::Stdout, false, b"");
            encode_frame(&mut bytes, 0, FrameKind::Pong, false, b"");
        }
        while agent.raw(&bytes).await {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_given_up(&instance, &destroyed, "did not end an execution", 30).await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_kill_ends_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        agent.flood(stream).await;
        agent.only_answer_pings().await;
    })
    .await;
    let mut sink = Count {
        stop_after: Some(1_000_000),
        ..Count::default()
    };
    let request = request().timeout(Duration::from_secs(100_000));
    let start = Instant::now();
    let end = instance.exec(&request, None.into(), &mut sink).await;
    let end = end.unwrap();
    // The host has counted the output itself.
    assert_eq!(end.outcome, Outcome::OutputLimit);
    assert!(end.incomplete.unwrap().contains("did not end an execution"));
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(sink.bytes < 1_000_000 + 2 * WINDOW as usize);
    assert!(destroyed.soon().await);
    assert_ended(&instance).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_execution_that_does_not_end_ends_the_sandbox() {
    let (instance, destroyed) = pinging_sandbox().await;
    let mut sink = Count::default();
    let request = request().timeout(Duration::from_secs(100_000));
    let dropped = instance.exec(&request, None.into(), &mut sink);
    assert!(timeout(Duration::from_secs(1), dropped).await.is_err());
    assert_eq!(destroyed.count(), 0);
    sleep(Duration::from_secs(30)).await;
    assert!(destroyed.count() > 0);
    assert_ended(&instance).await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_stop_destroys_the_sandbox() {
    let (instance, destroyed) = pinging_sandbox().await;
    let start = Instant::now();
    instance.stop(Duration::from_secs(10)).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(destroyed.count() > 0);
    assert_ended(&instance).await;
}

#[tokio::test(start_paused = true)]
async fn agent_that_reads_nothing_is_given_up() {
    let (instance, destroyed) = sandbox(|agent| async move {
        agent.stall().await;
    })
    .await;
    let mut large = request();
    large.argv.push(vec![b'x'; 2 * PIPE]);
    let start = Instant::now();
    let mut sink = Count::default();
    let end = instance.exec(&large, None.into(), &mut sink).await;
    let end = end.unwrap();
    assert!(unknown_reason(&end).contains("stopped reading"), "{end:?}");
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(destroyed.soon().await);
}

#[tokio::test(start_paused = true)]
async fn file_that_is_never_sent_ends_the_sandbox() {
    let (instance, destroyed) = pinging_sandbox().await;
    let start = Instant::now();
    let fetched = instance.fetch("/file", &mut Count::default()).await;
    assert_eq!(fetched.unwrap_err().kind(), ErrorKind::SandboxEnded);
    assert!(start.elapsed() < Duration::from_secs(700));
    assert!(destroyed.soon().await);
}

#[tokio::test(start_paused = true)]
async fn logs_that_never_end_are_bounded() {
    let (instance, destroyed) = pinging_sandbox().await;
    let mut sink = Count::default();
    let followed = instance.follow_logs(None, &mut sink);
    assert!(timeout(Duration::from_secs(1000), followed).await.is_err());
    // The agent ignores the request to end the log.
    sleep(Duration::from_secs(30)).await;
    assert!(destroyed.count() > 0);

    let (instance, _destroyed) = pinging_sandbox().await;
    let start = Instant::now();
    let logs = instance.logs(None).await;
    assert_eq!(logs.unwrap_err().kind(), ErrorKind::SandboxEnded);
    assert!(start.elapsed() < Duration::from_secs(100));

    // More than the largest log.
    let (instance, _destroyed) = sandbox(|agent| agent.flood_first(FrameKind::Logs)).await;
    let logs = instance.logs(None).await.unwrap();
    assert!(
        logs.len() < (64 << 20) + 2 * WINDOW as usize,
        "{}",
        logs.len()
    );
}

#[tokio::test(start_paused = true)]
async fn stall_ends_an_unowned_handle_but_not_the_sandbox() {
    for client in [ClientRole::Creator, ClientRole::Later] {
        let (instance, destroyed) = client_of(client, FakeAgent::stall).await;
        assert!(unknown_reason(&exec(&instance).await).contains("does not answer"));
        assert!(!destroyed.soon().await);
        assert_ended(&instance).await;
    }
}

/// An agent that sends nothing or garbage after the first message.
#[tokio::test(start_paused = true)]
async fn missing_or_malformed_welcome_fails_the_connection() {
    let refusal = Failure {
        step: FailStep::Attach,
        errno: 0,
        detail: "wrong key".into(),
    };
    let other_version = [&(VERSION + 1).to_le_bytes()[..], &[0; 13]].concat();
    let versions = format!("protocol version {}, expected {VERSION}", VERSION + 1);
    let cases = [
        (Vec::new(), ErrorKind::Protocol, "no answer within 10s"),
        (vec![0xff; 64], ErrorKind::Protocol, "flags"),
        (half_a_frame(0), ErrorKind::Protocol, "no answer within 10s"),
        (
            frame(0, FrameKind::Stdout, b"hello"),
            ErrorKind::Protocol,
            "unexpected first frame",
        ),
        (
            frame(0, FrameKind::Welcome, b""),
            ErrorKind::Protocol,
            "ends in the middle",
        ),
        (
            frame(0, FrameKind::Welcome, &other_version),
            ErrorKind::Protocol,
            &versions,
        ),
        (
            frame(0, FrameKind::Failed, &refusal.encode()),
            ErrorKind::InvalidRequest,
            "wrong key",
        ),
    ];
    for client in [ClientRole::Owner, ClientRole::Creator, ClientRole::Later] {
        for (bytes, kind, expected) in &cases {
            let (host, guest) = tokio::io::duplex(PIPE);
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut agent = FakeAgent::new(guest);
                agent.raw(&bytes).await;
                agent.stall().await;
            });
            let start = Instant::now();
            let (instance, destroyed) = connect(client, host).await;
            let error = instance.unwrap_err();
            assert_eq!(error.kind(), *kind, "{error}");
            assert!(error.to_string().contains(expected), "{error}");
            assert!(start.elapsed() < Duration::from_secs(15));
            // A client removes a sandbox that it created and that did not start.
            assert_eq!(destroyed.count() > 0, client != ClientRole::Later);
        }
        // The agent has closed the stream.
        let (host, guest) = tokio::io::duplex(PIPE);
        drop(guest);
        let (instance, destroyed) = connect(client, host).await;
        let kind = if client == ClientRole::Later {
            ErrorKind::SandboxEnded
        } else {
            ErrorKind::Protocol
        };
        assert_eq!(instance.unwrap_err().kind(), kind);
        assert_eq!(destroyed.count() > 0, client != ClientRole::Later);
    }
}

/// Takes an hour for each write.
struct SlowSink;

#[async_trait]
impl OutputSink for SlowSink {
    async fn write(&mut self, _stream: OutputStream, _bytes: &[u8]) -> Flow {
        sleep(Duration::from_secs(3600)).await;
        Flow::Continue
    }
}

/// A slow receiver is not reported as a stalled agent.
#[tokio::test(start_paused = true)]
async fn slow_receiver_does_not_end_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        let mut sent = 0;
        let mut credit = i64::from(WINDOW);
        while sent < 20 * 60_000 {
            while credit >= 60_000 {
                agent
                    .frame(stream, FrameKind::Stdout, &[b'x'; 60_000])
                    .await;
                credit -= 60_000;
                sent += 60_000;
            }
            match agent.next().await.unwrap() {
                (_, FrameKind::Credit, payload) => {
                    let granted = sandbox_agent::protocol::Channel::read_credit(&payload);
                    credit += i64::from(granted.unwrap().1);
                }
                (_, FrameKind::Ping, payload) => {
                    agent.frame(0, FrameKind::Pong, &payload).await;
                }
                other => panic!("{other:?}"),
            }
        }
        agent.exit(stream, ExitKind::Exited(0)).await;
        agent.only_answer_pings().await;
    })
    .await;
    let start = Instant::now();
    let end = instance.exec(&request(), None.into(), &mut SlowSink).await;
    assert!(end.unwrap().outcome.success());
    assert!(start.elapsed() > Duration::from_secs(3600));
    assert_eq!(destroyed.count(), 0);
}
