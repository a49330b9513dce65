//! An agent that sends malformed messages. The host refuses them, and reports only what is certain.

mod fake;

use fake::{
    ClientRole, Count, FakeAgent, assert_ended, assert_unknown_and_destroyed, exec, exited, frame,
    report, request, sandbox, unknown_reason,
};
use proptest::prelude::*;
use sandbox_agent::protocol::{
    Channel, ExitKind, FailStep, Failure, FrameKind, MAX_MESSAGE, MAX_PAYLOAD, encode_frame,
    encode_message,
};
use sandbox_core::spi::Instance;
use sandbox_core::{ArtifactLimits, Outcome};

#[tokio::test]
async fn names_that_leave_the_folder_are_refused() {
    use sandbox_agent::protocol::MessageWriter;
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        let mut records = MessageWriter::new();
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
        agent
            .frame(stream, FrameKind::Stdout, &records.finish())
            .await;
        agent.exit(stream, ExitKind::Exited(0)).await;
        while let Some(stream) = agent.wait_for(FrameKind::Exec).await {
            agent.frame(stream, FrameKind::Stdout, b"x").await;
            agent.exit(stream, ExitKind::Exited(0)).await;
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
        agent.wait_for(FrameKind::Exec).await;
        agent.raw(&bytes).await;
        agent.stall().await;
    })
    .await
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
    for (report, expected) in cases {
        let (instance, destroyed) = answered_with(frame(1, FrameKind::Exited, &report)).await;
        assert_unknown_and_destroyed(&instance, &destroyed, expected).await;
    }
}

#[tokio::test]
async fn end_of_another_stream_does_not_count() {
    for stream in [2, u32::MAX] {
        let bytes = frame(stream, FrameKind::Exited, &exited(ExitKind::Exited(0)));
        let (instance, destroyed) = answered_with(bytes).await;
        assert_unknown_and_destroyed(&instance, &destroyed, "not open").await;
    }
    let (instance, destroyed) =
        answered_with(frame(0, FrameKind::Exited, &exited(ExitKind::Exited(0)))).await;
    assert_unknown_and_destroyed(&instance, &destroyed, "stream 0").await;
}

#[tokio::test]
async fn first_end_counts_and_second_ends_the_sandbox() {
    let failure = Failure {
        step: FailStep::NotFound,
        errno: 2,
        detail: "x".into(),
    };
    for second in [
        frame(1, FrameKind::Exited, &exited(ExitKind::Exited(0))),
        frame(1, FrameKind::Failed, &failure.encode()),
        frame(1, FrameKind::Stdout, b"late"),
        frame(1, FrameKind::Started, &[0; 4]),
    ] {
        let first = frame(1, FrameKind::Exited, &exited(ExitKind::Exited(3)));
        let (instance, destroyed) = answered_with([first, second].concat()).await;
        assert_eq!(exec(&instance).await.outcome, Outcome::Exited { code: 3 });
        assert!(destroyed.soon().await);
        assert_ended(&instance).await;
    }
}

#[tokio::test]
async fn invalid_frames_end_the_sandbox() {
    let credit = |channel: Channel, bytes| frame(1, FrameKind::Credit, &channel.credit(bytes));
    let started = frame(1, FrameKind::Started, &[0; 4]);
    for (bytes, expected) in [
        ([started.clone(), started].concat(), "second start"),
        (credit(Channel::Stdout, 1), "channel of a credit"),
        // Nothing was sent that it could be for.
        (credit(Channel::Stdin, 1), "value out of range in credit"),
        (
            credit(Channel::Stdin, u32::MAX),
            "value out of range in credit",
        ),
        (frame(1, FrameKind::Exec, b""), "frame of the host's kind"),
        (frame(0, FrameKind::Hello, b""), "stream 0"),
        (frame(0, FrameKind::Welcome, b""), "stream 0"),
        (frame(0, FrameKind::Attach, b""), "stream 0"),
    ] {
        let (instance, destroyed) = answered_with(bytes).await;
        assert_unknown_and_destroyed(&instance, &destroyed, expected).await;
    }
}

#[tokio::test]
async fn huge_lengths_are_refused_without_allocation() {
    // A frame that claims more than a frame may have.
    let mut header = frame(1, FrameKind::Stdout, b"");
    header[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
    let (instance, destroyed) = answered_with(header).await;
    assert_unknown_and_destroyed(&instance, &destroyed, "frame is larger").await;
    // A field that claims more than its message has.
    let mut failure = vec![FailStep::Spawn as u8, 0, 0, 0, 0];
    failure.extend(u32::MAX.to_le_bytes());
    let (instance, destroyed) = answered_with(frame(1, FrameKind::Failed, &failure)).await;
    assert_unknown_and_destroyed(&instance, &destroyed, "ends in the middle").await;
    // A message that never ends.
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        let mut bytes = Vec::new();
        encode_frame(
            &mut bytes,
            stream,
            FrameKind::Failed,
            true,
            &[b'x'; MAX_PAYLOAD],
        );
        let mut sent = 0;
        while agent.raw(&bytes).await {
            sent += bytes.len();
            assert!(sent < 2 * MAX_MESSAGE + fake::PIPE, "the host takes it all");
        }
    })
    .await;
    assert_unknown_and_destroyed(&instance, &destroyed, "message is larger").await;
}

#[tokio::test]
async fn failure_text_is_truncated_and_escaped() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        let mut writer = sandbox_agent::protocol::MessageWriter::new();
        writer
            .u8(FailStep::NotFound as u8)
            .i32(2)
            .bytes(&b"\x1b]0;owned\x07\n".repeat(100_000));
        let mut bytes = Vec::new();
        encode_message(&mut bytes, stream, FrameKind::Failed, &writer.finish());
        agent.raw(&bytes).await;
        agent.stall().await;
    })
    .await;
    let error = instance
        .exec(&request(), None.into(), &mut Count::default())
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.len() < 40_000, "{}", text.len());
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[tokio::test]
async fn report_numbers_are_passed_on() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        let false_report = sandbox_agent::protocol::ExitReport {
            stragglers: u32::MAX,
            cpu_us: u64::MAX,
            max_rss_kib: u64::MAX,
            wall_us: u64::MAX,
            refused_programs: u32::MAX,
            refused_processes: u32::MAX,
            memory_kills: Some(u64::MAX),
            ..report(ExitKind::Exited(255))
        };
        agent
            .frame(stream, FrameKind::Exited, &false_report.encode())
            .await;
        agent.stall().await;
    })
    .await;
    assert_eq!(exec(&instance).await.outcome, Outcome::Exited { code: 255 });
}

#[tokio::test]
async fn totals_that_differ_from_the_output_end_the_sandbox() {
    for (stdout_total, stderr_total) in [(0, 2), (4, 2), (3, 1), (3, u64::MAX), (2, 3)] {
        let (instance, destroyed) = sandbox(move |mut agent| async move {
            let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
            agent.frame(stream, FrameKind::Stdout, b"out").await;
            agent.frame(stream, FrameKind::Stderr, b"er").await;
            let false_report = sandbox_agent::protocol::ExitReport {
                stdout_total,
                stderr_total,
                ..report(ExitKind::Exited(0))
            };
            agent
                .frame(stream, FrameKind::Exited, &false_report.encode())
                .await;
            agent.stall().await;
        })
        .await;
        assert_unknown_and_destroyed(&instance, &destroyed, "total of an execution's output").await;
    }
}

/// Runs a future on its own runtime, because proptest calls ordinary functions.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Garbage after the welcome never ends an execution with success, and never panics.
    #[test]
    fn garbage_never_becomes_success(garbage in proptest::collection::vec(any::<u8>(), 1..400)) {
        block_on(async {
            let (instance, _) = sandbox(|mut agent| async move {
                agent.wait_for(FrameKind::Exec).await;
                agent.raw(&garbage).await;
            }).await;
            unknown_reason(&exec(&instance).await);
        });
    }

    /// Valid frames with random content never panic.
    #[test]
    fn frames_with_random_content_do_not_panic(
        frames in proptest::collection::vec((0u32..3, 0u8..=255, proptest::collection::vec(any::<u8>(), 0..60)), 1..20)
    ) {
        block_on(async {
            let (instance, _) = sandbox(|mut agent| async move {
                agent.wait_for(FrameKind::Exec).await;
                for (stream, kind, payload) in frames {
                    let Ok(kind) = FrameKind::from_byte(kind) else { continue };
                    let mut bytes = Vec::new();
                    encode_message(&mut bytes, stream, kind, &payload);
                    if !agent.raw(&bytes).await {
                        return;
                    }
                }
            }).await;
            let end = instance.exec(&request(), None.into(), &mut Count::default()).await;
            if let Ok(end) = end {
                assert!(!end.outcome.success() || end.incomplete.is_none());
            }
        });
    }

    /// Garbage in response to a later client's key is a typed error. It does not end the sandbox.
    #[test]
    fn garbage_welcome_is_refused(
        garbage in proptest::collection::vec(any::<u8>(), 0..200),
        kind in any::<u8>(),
    ) {
        let framed = FrameKind::from_byte(kind).map(|kind| frame(0, kind, &garbage));
        for bytes in framed.into_iter().chain([garbage]) {
            block_on(async {
                let (host, guest) = tokio::io::duplex(fake::PIPE);
                let mut agent = FakeAgent::new(guest);
                agent.raw(&bytes).await;
                drop(agent);
                let (instance, destroyed) = fake::connect(ClientRole::Later, host).await;
                assert!(instance.is_err());
                assert_eq!(destroyed.count(), 0);
            });
        }
    }
}
