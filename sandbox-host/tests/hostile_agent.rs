//! An agent that the guest owns: it sends garbage, floods, lies and stalls. The host stays bounded and says what is known.

mod fake;

use std::path::Path;

use fake::{
    Client, Count, FakeAgent, client_of, exec, exited, has_ended, report, request, sandbox,
    unknown, unknown_and_destroyed,
};
use proptest::prelude::*;
use sandbox_agent::protocol::{
    Channel, ExitKind, FailStep, Failure, Kind, MAX_MESSAGE, MAX_PAYLOAD, WINDOW, encode_frame,
    encode_message,
};
use sandbox_core::spi::Instance;
use sandbox_core::{ArtifactLimits, Outcome};

#[tokio::test]
async fn silent_end_is_unknown_not_success() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.wait_for(Kind::Exec).await;
    })
    .await;
    unknown_and_destroyed(&instance, &destroyed, "agent ended").await;
}

#[tokio::test]
async fn output_beyond_the_credit_ends_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let piece = vec![b'x'; 60_000];
        for _ in 0..WINDOW as usize / piece.len() + 1 {
            // A reader that waits in the middle would make room; none of these frames is read before all are there.
            let mut bytes = Vec::new();
            for _ in 0..10 {
                encode_frame(&mut bytes, stream, Kind::Stdout, false, &piece);
            }
            if !agent.raw(&bytes).await {
                return;
            }
        }
        agent.next().await;
        std::future::pending::<()>().await;
    })
    .await;
    unknown_and_destroyed(&instance, &destroyed, "more bytes than were granted").await;
}

#[tokio::test]
async fn frames_of_unopened_streams_end_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.wait_for(Kind::Exec).await;
        agent.frame(77, Kind::Stdout, b"hello").await;
        std::future::pending::<()>().await;
    })
    .await;
    unknown_and_destroyed(&instance, &destroyed, "not open").await;
}

#[tokio::test]
async fn second_end_of_a_stream_ends_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        agent
            .frame(stream, Kind::Exited, &exited(ExitKind::Exited(0)))
            .await;
        agent.wait_for(Kind::Exec).await;
        agent
            .frame(stream, Kind::Exited, &exited(ExitKind::Exited(0)))
            .await;
        std::future::pending::<()>().await;
    })
    .await;
    assert!(exec(&instance).await.outcome.ok());
    unknown_and_destroyed(&instance, &destroyed, "not open").await;
}

#[tokio::test]
async fn premature_timeout_and_unrequested_kill_are_unknown() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        for kind in [ExitKind::TimedOut, ExitKind::Killed, ExitKind::Lost] {
            let stream = agent.wait_for(Kind::Exec).await.unwrap();
            agent.frame(stream, Kind::Exited, &exited(kind)).await;
        }
        std::future::pending::<()>().await;
    })
    .await;
    for _ in 0..3 {
        unknown(&exec(&instance).await);
    }
}

#[tokio::test]
async fn output_flood_is_bounded_by_the_receiver() {
    let (instance, _destroyed) = sandbox(|agent| agent.flood_first(Kind::Exec)).await;
    let mut sink = Count {
        stop_after: Some(1_000_000),
        ..Count::default()
    };
    let end = instance
        .exec(&request(), None.into(), &mut sink)
        .await
        .unwrap();
    assert_eq!(end.outcome, Outcome::OutputLimit);
    assert!(
        sink.bytes < 1_000_000 + 2 * WINDOW as usize,
        "{}",
        sink.bytes
    );
}

#[tokio::test]
async fn endless_list_is_truncated() {
    let (instance, _destroyed) = sandbox(|agent| agent.flood_first(Kind::Exec)).await;
    let folder = tempfile::tempdir().unwrap();
    let exported = instance
        .export(
            &["/output".into()],
            Path::new(folder.path()),
            ArtifactLimits::default(),
        )
        .await;
    // The records are nonsense, or end in the middle of one: an error or nothing, never a file.
    assert!(exported.is_err() || exported.unwrap().artifacts.is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn names_that_leave_the_folder_are_refused() {
    use sandbox_agent::protocol::Writer;
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let mut records = Writer::new();
        for name in [
            "/output/../../etc/passwd",
            "/output/../x",
            "/output",
            "/",
            "",
            "/output//x",
        ] {
            records
                .u8(b'f')
                .u32(0o644)
                .u64(1)
                .u64(1)
                .u64(0)
                .bytes(name.as_bytes());
        }
        agent.frame(stream, Kind::Stdout, &records.finish()).await;
        agent
            .frame(stream, Kind::Exited, &exited(ExitKind::Exited(0)))
            .await;
        while let Some(stream) = agent.wait_for(Kind::Exec).await {
            agent.frame(stream, Kind::Stdout, b"x").await;
            agent
                .frame(stream, Kind::Exited, &exited(ExitKind::Exited(0)))
                .await;
        }
    })
    .await;
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("out");
    let export = instance
        .export(&["/output/".into()], &folder, ArtifactLimits::default())
        .await
        .unwrap();
    for artifact in &export.artifacts {
        assert!(
            artifact.path.starts_with(folder.canonicalize().unwrap()),
            "{artifact:?}"
        );
    }
    assert_eq!(
        std::fs::read_dir(outer.path()).unwrap().count(),
        1,
        "nothing beside the folder"
    );
}

/// An agent that answers the first execution with these bytes.
async fn answered_with(bytes: Vec<u8>) -> (sandbox_host::AgentInstance, fake::Destroyed) {
    sandbox(|mut agent| async move {
        agent.wait_for(Kind::Exec).await;
        agent.raw(&bytes).await;
        agent.stall().await;
    })
    .await
}

fn frame(stream: u32, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, stream, kind, false, payload);
    bytes
}

#[tokio::test]
async fn reports_out_of_range_end_the_sandbox() {
    let good = exited(ExitKind::Exited(0));
    let with = |kind: u8, code: u8| [&[kind, code], &good[2..]].concat();
    let cases = [
        (with(1, 0), "value out of range in kind of an end"),
        (with(1, 65), "value out of range in kind of an end"),
        (with(2, 1), "value out of range in kind of an end"),
        (with(4, 9), "value out of range in kind of an end"),
        (with(5, 0), "value out of range in kind of an end"),
        (good[..good.len() - 1].to_vec(), "ends in the middle"),
        ([&good[..], &[0]].concat(), "after the last field"),
        (Vec::new(), "ends in the middle"),
    ];
    for (report, said) in cases {
        let (instance, destroyed) = answered_with(frame(1, Kind::Exited, &report)).await;
        unknown_and_destroyed(&instance, &destroyed, said).await;
    }
}

#[tokio::test]
async fn end_of_another_stream_does_not_count() {
    for stream in [2, u32::MAX] {
        let bytes = frame(stream, Kind::Exited, &exited(ExitKind::Exited(0)));
        let (instance, destroyed) = answered_with(bytes).await;
        unknown_and_destroyed(&instance, &destroyed, "not open").await;
    }
    let (instance, destroyed) =
        answered_with(frame(0, Kind::Exited, &exited(ExitKind::Exited(0)))).await;
    unknown_and_destroyed(&instance, &destroyed, "stream 0").await;
}

#[tokio::test]
async fn first_end_counts_and_second_ends_the_sandbox() {
    let failure = Failure {
        step: FailStep::NotFound,
        errno: 2,
        detail: "x".into(),
    };
    for second in [
        frame(1, Kind::Exited, &exited(ExitKind::Exited(0))),
        frame(1, Kind::Failed, &failure.encode()),
        frame(1, Kind::Stdout, b"late"),
        frame(1, Kind::Started, &[0; 4]),
    ] {
        let first = frame(1, Kind::Exited, &exited(ExitKind::Exited(3)));
        let (instance, destroyed) = answered_with([first, second].concat()).await;
        assert_eq!(exec(&instance).await.outcome, Outcome::Exited { code: 3 });
        assert!(destroyed.soon().await);
        has_ended(&instance).await;
    }
}

#[tokio::test]
async fn invalid_frames_end_the_sandbox() {
    let credit = |channel: Channel, bytes| frame(1, Kind::Credit, &channel.credit(bytes));
    let started = frame(1, Kind::Started, &[0; 4]);
    for (bytes, said) in [
        ([started.clone(), started].concat(), "second start"),
        (credit(Channel::Stdout, 1), "channel of a credit"),
        // Nothing was sent that it could be for.
        (credit(Channel::Stdin, 1), "value out of range in credit"),
        (
            credit(Channel::Stdin, u32::MAX),
            "value out of range in credit",
        ),
        (frame(1, Kind::Exec, b""), "frame of the host's kind"),
        (frame(0, Kind::Hello, b""), "stream 0"),
        (frame(0, Kind::Welcome, b""), "stream 0"),
        (frame(0, Kind::Attach, b""), "stream 0"),
    ] {
        let (instance, destroyed) = answered_with(bytes).await;
        unknown_and_destroyed(&instance, &destroyed, said).await;
    }
}

#[tokio::test]
async fn huge_lengths_are_refused_without_allocation() {
    // A frame that claims more than a frame may have.
    let mut header = frame(1, Kind::Stdout, b"");
    header[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
    let (instance, destroyed) = answered_with(header).await;
    unknown_and_destroyed(&instance, &destroyed, "frame is larger").await;
    // A field that claims more than its message has.
    let mut failure = vec![FailStep::Spawn as u8, 0, 0, 0, 0];
    failure.extend(u32::MAX.to_le_bytes());
    let (instance, destroyed) = answered_with(frame(1, Kind::Failed, &failure)).await;
    unknown_and_destroyed(&instance, &destroyed, "ends in the middle").await;
    // A message that never ends.
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, stream, Kind::Failed, true, &[b'x'; MAX_PAYLOAD]);
        let mut sent = 0;
        while agent.raw(&bytes).await {
            sent += bytes.len();
            assert!(sent < 2 * MAX_MESSAGE + fake::PIPE, "the host takes it all");
        }
    })
    .await;
    unknown_and_destroyed(&instance, &destroyed, "message is larger").await;
}

#[tokio::test]
async fn failure_text_is_truncated_and_escaped() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let mut writer = sandbox_agent::protocol::Writer::new();
        writer
            .u8(FailStep::NotFound as u8)
            .i32(2)
            .bytes(&b"\x1b]0;owned\x07\n".repeat(100_000));
        let mut bytes = Vec::new();
        encode_message(&mut bytes, stream, Kind::Failed, &writer.finish());
        agent.raw(&bytes).await;
        agent.stall().await;
    })
    .await;
    let error = instance
        .exec(&request(), None.into(), &mut Count::default())
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(said.len() < 40_000, "{}", said.len());
    assert!(!said.chars().any(char::is_control), "{said:?}");
}

#[tokio::test]
async fn report_numbers_are_passed_on() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let lie = sandbox_agent::protocol::ExitReport {
            stdout_total: u64::MAX,
            stderr_total: u64::MAX,
            stragglers: u32::MAX,
            cpu_us: u64::MAX,
            max_rss_kib: u64::MAX,
            wall_us: u64::MAX,
            refused_programs: u32::MAX,
            refused_processes: u32::MAX,
            memory_kills: Some(u64::MAX),
            ..report(ExitKind::Exited(255))
        };
        agent.frame(stream, Kind::Exited, &lie.encode()).await;
        agent.stall().await;
    })
    .await;
    assert_eq!(exec(&instance).await.outcome, Outcome::Exited { code: 255 });
}

#[tokio::test]
async fn survivors_end_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let survived = sandbox_agent::protocol::ExitReport {
            survivors: 1,
            ..report(ExitKind::Exited(0))
        };
        agent.frame(stream, Kind::Exited, &survived.encode()).await;
        agent.stall().await;
    })
    .await;
    assert!(exec(&instance).await.outcome.ok());
    assert!(destroyed.count() > 0);
    has_ended(&instance).await;
}

/// Whoever sends single bytes, and reads nothing, does not make the host's queue of answers grow with each.
#[tokio::test]
async fn single_bytes_are_granted_in_batches() {
    const BYTES: usize = 200_000;
    for dropped in [false, true] {
        let (done, end) = tokio::sync::oneshot::channel();
        let (instance, _destroyed) = sandbox(move |mut agent| async move {
            let stream = agent.wait_for(Kind::Exec).await.unwrap();
            if dropped {
                agent.wait_for(Kind::Kill).await.unwrap();
            }
            let bytes = frame(stream, Kind::Stdout, b"x").repeat(100);
            for _ in 0..BYTES / 100 {
                assert!(agent.raw(&bytes).await);
                // So that they are taken one by one.
                tokio::task::yield_now().await;
            }
            agent
                .frame(stream, Kind::Exited, &exited(ExitKind::Killed))
                .await;
            // The next execution comes behind all that was answered to this one.
            let mut credits = 0;
            while let Some((_, kind, _)) = agent.next().await {
                credits += usize::from(kind == Kind::Credit);
                if kind == Kind::Exec {
                    break;
                }
            }
            done.send(credits).unwrap();
            agent.stall().await;
        })
        .await;
        let mut sink = Count::default();
        let request = request();
        let first = instance.exec(&request, None.into(), &mut sink);
        if dropped {
            let cut = tokio::time::timeout(std::time::Duration::from_millis(100), first);
            assert!(cut.await.is_err());
        } else {
            first.await.unwrap();
        }
        let mut sink = Count::default();
        let second = instance.exec(&request, None.into(), &mut sink);
        let credits = tokio::select! {
            credits = end => credits.unwrap(),
            end = second => panic!("{end:?}"),
        };
        assert!(credits <= BYTES / (WINDOW as usize / 4) + 1, "{credits}");
    }
}

/// A handle that does not own the sandbox destroys it for a breach of the protocol, and for nothing else.
#[tokio::test]
async fn unowned_sandbox_ends_only_on_a_violation() {
    for client in [Client::Creator, Client::Later] {
        let (instance, destroyed) = client_of(client, |mut agent| async move {
            agent.wait_for(Kind::Exec).await;
            agent.raw(&[0xff; 100]).await;
            agent.stall().await;
        })
        .await;
        unknown_and_destroyed(&instance, &destroyed, "broke the protocol").await;

        let (instance, destroyed) = client_of(client, |mut agent| async move {
            agent.wait_for(Kind::Exec).await;
        })
        .await;
        assert!(unknown(&exec(&instance).await).contains("agent ended"));
        assert!(!destroyed.soon().await);
        has_ended(&instance).await;
        drop(instance);
        assert!(!destroyed.soon().await);

        let (instance, destroyed) = client_of(client, FakeAgent::stall).await;
        drop(instance);
        assert!(!destroyed.soon().await);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes after the welcome, an execution ends without a panic and without success.
    #[test]
    fn garbage_never_becomes_success(garbage in proptest::collection::vec(any::<u8>(), 1..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (instance, _) = sandbox(|mut agent| async move {
                agent.wait_for(Kind::Exec).await;
                agent.raw(&garbage).await;
            }).await;
            unknown(&exec(&instance).await);
        });
    }

    /// Valid frames with random content: never a panic.
    #[test]
    fn frames_with_random_content_do_not_panic(
        frames in proptest::collection::vec((0u32..3, 0u8..=255, proptest::collection::vec(any::<u8>(), 0..60)), 1..20)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (instance, _) = sandbox(|mut agent| async move {
                agent.wait_for(Kind::Exec).await;
                for (stream, kind, payload) in frames {
                    let Ok(kind) = Kind::from_byte(kind) else { continue };
                    let mut bytes = Vec::new();
                    encode_message(&mut bytes, stream, kind, &payload);
                    if !agent.raw(&bytes).await {
                        return;
                    }
                }
            }).await;
            let end = instance.exec(&request(), None.into(), &mut Count::default()).await;
            if let Ok(end) = end {
                assert!(!end.outcome.ok() || end.incomplete.is_none());
            }
        });
    }

    /// Whatever answers a later client's key, it is a typed error, and the sandbox is left alone.
    #[test]
    fn garbage_welcome_is_refused(
        garbage in proptest::collection::vec(any::<u8>(), 0..200),
        kind in any::<u8>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let framed = Kind::from_byte(kind).map(|kind| frame(0, kind, &garbage));
        for bytes in framed.into_iter().chain([garbage]) {
            runtime.block_on(async {
                let (host, guest) = tokio::io::duplex(fake::PIPE);
                let mut agent = FakeAgent::new(guest);
                agent.raw(&bytes).await;
                drop(agent);
                let (instance, destroyed) = fake::connect(Client::Later, host).await;
                assert!(instance.is_err());
                assert_eq!(destroyed.count(), 0);
            });
        }
    }
}
