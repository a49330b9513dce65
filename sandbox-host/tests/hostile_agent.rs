//! An agent that floods, stalls and sends false reports. The host stays bounded, and reports only
//! what is certain.

mod fake;

use std::path::Path;

use fake::{
    ClientRole, Count, FakeAgent, assert_ended, assert_unknown_and_destroyed, client_of, exec,
    frame, report, request, sandbox, unknown_reason,
};
use sandbox_agent::protocol::{ExitKind, ExitReport, FrameKind, WINDOW, encode_frame};
use sandbox_core::spi::Instance;
use sandbox_core::{ArtifactLimits, Outcome};

#[tokio::test]
async fn silent_end_is_unknown_not_success() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.wait_for(FrameKind::Exec).await;
    })
    .await;
    assert_unknown_and_destroyed(&instance, &destroyed, "agent ended").await;
}

#[tokio::test]
async fn output_beyond_the_credit_ends_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        let piece = vec![b'x'; 60_000];
        for _ in 0..WINDOW as usize / piece.len() + 1 {
            // One write: a host that reads between two frames would grant more credit.
            let mut bytes = Vec::new();
            for _ in 0..10 {
                encode_frame(&mut bytes, stream, FrameKind::Stdout, false, &piece);
            }
            if !agent.raw(&bytes).await {
                return;
            }
        }
        agent.next().await;
        std::future::pending::<()>().await;
    })
    .await;
    assert_unknown_and_destroyed(&instance, &destroyed, "more bytes than were granted").await;
}

#[tokio::test]
async fn frames_of_unopened_streams_end_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.wait_for(FrameKind::Exec).await;
        agent.frame(77, FrameKind::Stdout, b"hello").await;
        std::future::pending::<()>().await;
    })
    .await;
    assert_unknown_and_destroyed(&instance, &destroyed, "not open").await;
}

#[tokio::test]
async fn second_end_of_a_stream_ends_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        agent.exit(stream, ExitKind::Exited(0)).await;
        agent.wait_for(FrameKind::Exec).await;
        agent.exit(stream, ExitKind::Exited(0)).await;
        std::future::pending::<()>().await;
    })
    .await;
    assert!(exec(&instance).await.outcome.success());
    assert_unknown_and_destroyed(&instance, &destroyed, "not open").await;
}

#[tokio::test]
async fn premature_timeout_and_unrequested_kill_are_unknown() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        for kind in [ExitKind::TimedOut, ExitKind::Killed, ExitKind::Lost] {
            let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
            agent.exit(stream, kind).await;
        }
        std::future::pending::<()>().await;
    })
    .await;
    for _ in 0..3 {
        unknown_reason(&exec(&instance).await);
    }
}

#[tokio::test]
async fn output_flood_is_bounded_by_the_receiver() {
    let (instance, _destroyed) = sandbox(|agent| agent.flood_first(FrameKind::Exec)).await;
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
    let (instance, _destroyed) = sandbox(|agent| agent.flood_first(FrameKind::Exec)).await;
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
async fn survivors_end_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        let survived = ExitReport {
            survivors: 1,
            ..report(ExitKind::Exited(0))
        };
        agent
            .frame(stream, FrameKind::Exited, &survived.encode())
            .await;
        agent.stall().await;
    })
    .await;
    assert!(exec(&instance).await.outcome.success());
    assert!(destroyed.count() > 0);
    assert_ended(&instance).await;
}

/// An agent that sends single bytes and reads nothing does not make the host queue a credit for
/// each.
#[tokio::test]
async fn single_bytes_are_granted_in_batches() {
    const BYTES: usize = 200_000;
    for dropped in [false, true] {
        let (done, end) = tokio::sync::oneshot::channel();
        let (instance, _destroyed) = sandbox(move |mut agent| async move {
            let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
            if dropped {
                agent.wait_for(FrameKind::Kill).await.unwrap();
            }
            let bytes = frame(stream, FrameKind::Stdout, b"x").repeat(100);
            for _ in 0..BYTES / 100 {
                assert!(agent.raw(&bytes).await);
                // So that the host takes them one by one.
                tokio::task::yield_now().await;
            }
            let report = ExitReport {
                stdout_total: BYTES as u64,
                ..ExitReport::of(ExitKind::Killed)
            };
            agent
                .frame(stream, FrameKind::Exited, &report.encode())
                .await;
            // The request of the next execution follows all credits of this one.
            let mut credits = 0;
            while let Some((_, kind, _)) = agent.next().await {
                credits += usize::from(kind == FrameKind::Credit);
                if kind == FrameKind::Exec {
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

/// A client that does not own the sandbox destroys it only for a protocol violation.
#[tokio::test]
async fn unowned_sandbox_ends_only_on_a_violation() {
    for client in [ClientRole::Creator, ClientRole::Later] {
        let (instance, destroyed) = client_of(client, |mut agent| async move {
            agent.wait_for(FrameKind::Exec).await;
            agent.raw(&[0xff; 100]).await;
            agent.stall().await;
        })
        .await;
        assert_unknown_and_destroyed(&instance, &destroyed, "broke the protocol").await;

        let (instance, destroyed) = client_of(client, |mut agent| async move {
            agent.wait_for(FrameKind::Exec).await;
        })
        .await;
        assert!(unknown_reason(&exec(&instance).await).contains("agent ended"));
        assert!(!destroyed.soon().await);
        assert_ended(&instance).await;
        drop(instance);
        assert!(!destroyed.soon().await);

        let (instance, destroyed) = client_of(client, FakeAgent::stall).await;
        drop(instance);
        assert!(!destroyed.soon().await);
    }
}
