//! An agent that the guest owns, and that takes its time. The clock of these tests is the runtime's own, and runs as fast as
//! there is nothing to do.

mod fake;

use std::time::Duration;

use async_trait::async_trait;
use fake::{
    Client, Count, FakeAgent, PIPE, client_of, connect, exec, exited, has_ended, request, sandbox,
    unknown, unknown_and_destroyed,
};
use sandbox_agent::protocol::{ExitKind, FailStep, Failure, Kind, VERSION, WINDOW, encode_frame};
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream};
use sandbox_core::{ErrorKind, Outcome};
use tokio::time::{Instant, sleep, timeout};

/// A frame that never becomes whole.
fn half_a_frame(stream: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, stream, Kind::Stdout, false, &[0; 1000]);
    bytes.truncate(500);
    bytes
}

#[tokio::test(start_paused = true)]
async fn a_stall_in_the_middle_of_a_frame() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        agent.raw(&half_a_frame(stream)).await;
        agent.stall().await;
    })
    .await;
    let start = Instant::now();
    unknown_and_destroyed(&instance, &destroyed, "does not answer").await;
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn single_bytes_of_a_frame_are_no_answer() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, stream, Kind::Stdout, false, &[0; 60_000]);
        for byte in bytes {
            if !agent.raw(&[byte]).await {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let start = Instant::now();
    unknown_and_destroyed(&instance, &destroyed, "does not answer").await;
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_never_ends() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.only_answer_pings().await;
    })
    .await;
    let start = Instant::now();
    unknown_and_destroyed(&instance, &destroyed, "did not end an execution").await;
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_frames_that_cost_nothing() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let mut bytes = Vec::new();
        for _ in 0..100 {
            encode_frame(&mut bytes, stream, Kind::Stdout, false, b"");
            encode_frame(&mut bytes, 0, Kind::Pong, false, b"");
        }
        while agent.raw(&bytes).await {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let start = Instant::now();
    unknown_and_destroyed(&instance, &destroyed, "did not end an execution").await;
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_kill_that_is_not_answered() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
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
    // That much the host has seen itself.
    assert_eq!(end.outcome, Outcome::OutputLimit);
    assert!(end.incomplete.unwrap().contains("did not end an execution"));
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(sink.bytes < 1_000_000 + 2 * WINDOW as usize);
    assert!(destroyed.soon().await);
    has_ended(&instance).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_execution_that_goes_on() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.only_answer_pings().await;
    })
    .await;
    let mut sink = Count::default();
    let request = request().timeout(Duration::from_secs(100_000));
    let dropped = instance.exec(&request, None.into(), &mut sink);
    assert!(timeout(Duration::from_secs(1), dropped).await.is_err());
    assert_eq!(destroyed.count(), 0);
    sleep(Duration::from_secs(30)).await;
    assert!(destroyed.count() > 0);
    has_ended(&instance).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_not_answered() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.only_answer_pings().await;
    })
    .await;
    let start = Instant::now();
    instance.stop(Duration::from_secs(10)).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(destroyed.count() > 0);
    has_ended(&instance).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_reads_nothing() {
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
    assert!(unknown(&end).contains("stopped reading"), "{end:?}");
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(destroyed.soon().await);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_never_comes() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.only_answer_pings().await;
    })
    .await;
    let start = Instant::now();
    let fetched = instance.fetch("/file", &mut Count::default()).await;
    assert_eq!(fetched.unwrap_err().kind(), ErrorKind::SandboxEnded);
    assert!(start.elapsed() < Duration::from_secs(700));
    assert!(destroyed.soon().await);
}

#[tokio::test(start_paused = true)]
async fn logs_that_never_end() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.only_answer_pings().await;
    })
    .await;
    let mut sink = Count::default();
    let followed = instance.follow_logs(None, &mut sink);
    assert!(timeout(Duration::from_secs(1000), followed).await.is_err());
    // The order to end it was not obeyed.
    sleep(Duration::from_secs(30)).await;
    assert!(destroyed.count() > 0);

    let (instance, _destroyed) = sandbox(|mut agent| async move {
        agent.only_answer_pings().await;
    })
    .await;
    let start = Instant::now();
    let logs = instance.logs(None).await;
    assert_eq!(logs.unwrap_err().kind(), ErrorKind::SandboxEnded);
    assert!(start.elapsed() < Duration::from_secs(100));

    // More than any log has.
    let (instance, _destroyed) = sandbox(|agent| agent.flood_first(Kind::Logs)).await;
    let logs = instance.logs(None).await.unwrap();
    assert!(
        logs.len() < (64 << 20) + 2 * WINDOW as usize,
        "{}",
        logs.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stall_ends_the_handle_of_a_sandbox_that_is_not_owned_and_not_the_sandbox() {
    for client in [Client::Creator, Client::Later] {
        let (instance, destroyed) = client_of(client, FakeAgent::stall).await;
        assert!(unknown(&exec(&instance).await).contains("does not answer"));
        assert!(!destroyed.soon().await);
        has_ended(&instance).await;
    }
}

/// What says nothing, or nonsense, to the first message.
#[tokio::test(start_paused = true)]
async fn no_welcome() {
    let frame = |stream, kind, payload: &[u8]| {
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, stream, kind, false, payload);
        bytes
    };
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
            frame(0, Kind::Stdout, b"hello"),
            ErrorKind::Protocol,
            "unexpected first frame",
        ),
        (
            frame(0, Kind::Welcome, b""),
            ErrorKind::Protocol,
            "ends in the middle",
        ),
        (
            frame(0, Kind::Welcome, &other_version),
            ErrorKind::Protocol,
            &versions,
        ),
        (
            frame(0, Kind::Failed, &refusal.encode()),
            ErrorKind::InvalidRequest,
            "wrong key",
        ),
    ];
    for client in [Client::Owner, Client::Creator, Client::Later] {
        for (bytes, kind, said) in &cases {
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
            assert!(error.to_string().contains(said), "{error}");
            assert!(start.elapsed() < Duration::from_secs(15));
            // Whoever creates a sandbox that does not start removes it.
            assert_eq!(destroyed.count() > 0, client != Client::Later);
        }
        // Nobody at all.
        let (host, guest) = tokio::io::duplex(PIPE);
        drop(guest);
        let (instance, destroyed) = connect(client, host).await;
        let kind = if client == Client::Later {
            ErrorKind::SandboxEnded
        } else {
            ErrorKind::Protocol
        };
        assert_eq!(instance.unwrap_err().kind(), kind);
        assert_eq!(destroyed.count() > 0, client != Client::Later);
    }
}

/// Takes an hour for each piece.
struct Slow;

#[async_trait]
impl OutputSink for Slow {
    async fn write(&mut self, _stream: OutputStream, _bytes: &[u8]) -> Flow {
        sleep(Duration::from_secs(3600)).await;
        Flow::Continue
    }
}

/// The other side of it: an agent that does what it has to is not blamed for a receiver that takes its time.
#[tokio::test(start_paused = true)]
async fn a_slow_receiver_is_not_the_agents_fault() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let mut sent = 0;
        let mut credit = i64::from(WINDOW);
        while sent < 20 * 60_000 {
            while credit >= 60_000 {
                agent.frame(stream, Kind::Stdout, &[b'x'; 60_000]).await;
                credit -= 60_000;
                sent += 60_000;
            }
            match agent.next().await.unwrap() {
                (_, Kind::Credit, payload) => {
                    let granted = sandbox_agent::protocol::Channel::read_credit(&payload);
                    credit += i64::from(granted.unwrap().1);
                }
                (_, Kind::Ping, payload) => {
                    agent.frame(0, Kind::Pong, &payload).await;
                }
                other => panic!("{other:?}"),
            }
        }
        let end = exited(ExitKind::Exited(0));
        agent.frame(stream, Kind::Exited, &end).await;
        agent.only_answer_pings().await;
    })
    .await;
    let start = Instant::now();
    let end = instance.exec(&request(), None.into(), &mut Slow).await;
    assert!(end.unwrap().outcome.ok());
    assert!(start.elapsed() > Duration::from_secs(3600));
    assert_eq!(destroyed.count(), 0);
}
