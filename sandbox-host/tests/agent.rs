//! The client and the real agent without isolation.

mod common;

use std::time::Duration;

use common::{Kept, all, instance, run, shell, source};
use sandbox_core::spi::Instance;
use sandbox_core::{ArtifactLimits, CapabilityPolicy, ErrorKind, ExecRequest, Outcome, SkipReason};

#[tokio::test]
async fn programs_run_and_end() {
    let instance = instance().await;
    let (end, kept) = run(&instance, &shell("echo out; echo err >&2; exit 7"), None).await;
    assert_eq!(end.outcome, Outcome::Exited { code: 7 });
    assert_eq!(
        (kept.stdout.as_slice(), kept.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    let (end, _) = run(&instance, &shell("kill -11 $$"), None).await;
    assert_eq!(end.outcome, Outcome::Signaled { signal: 11 });
    let (end, _) = run(&instance, &shell("kill -9 $$"), None).await;
    assert_eq!(end.outcome, Outcome::Signaled { signal: 9 });
}

#[tokio::test]
async fn failed_start_is_a_typed_error() {
    let instance = instance().await;
    for (request, kind) in [
        (
            ExecRequest::new("no-such-program"),
            ErrorKind::ProgramNotFound,
        ),
        (ExecRequest::new("/etc/passwd"), ErrorKind::NotExecutable),
        (
            ExecRequest::new("true").workdir("/no/such/folder"),
            ErrorKind::BadWorkdir,
        ),
    ] {
        let error = instance
            .exec(&request, None.into(), &mut Kept::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test]
async fn large_streams_arrive_complete() {
    let instance = instance().await;
    let bytes = (0..8_000_000u32)
        .map(|i| (i % 251) as u8)
        .collect::<Vec<_>>();
    let (end, kept) = run(&instance, &shell("cat"), Some(source(bytes.clone()))).await;
    assert!(end.outcome.success(), "{end:?}");
    assert!(kept.stdout == bytes);
}

#[tokio::test]
async fn timeout_keeps_output_and_ends_the_tree() {
    let instance = instance().await;
    let script = "trap '' TERM; echo first; setsid sh -c 'sleep 60' & while :; do :; done";
    let request = ExecRequest::shell(script).timeout(Duration::from_millis(500));
    let (end, kept) = run(&instance, &request, None).await;
    assert_eq!(end.outcome, Outcome::TimedOut);
    assert_eq!(kept.stdout, b"first\n");
}

#[tokio::test]
async fn background_child_neither_blocks_nor_survives() {
    let instance = instance().await;
    let start = std::time::Instant::now();
    let script = "(setsid sh -c 'sleep 61' &) ; echo done";
    let (end, kept) = run(&instance, &shell(script), None).await;
    assert!(end.outcome.success());
    assert_eq!(kept.stdout, b"done\n");
    assert!(end.stragglers > 0, "{end:?}");
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "the end must not wait for the child"
    );
}

#[tokio::test]
async fn files_go_in_and_out() {
    let instance = instance().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let content = (0..3_000_000u32)
        .map(|i| (i % 241) as u8)
        .collect::<Vec<_>>();
    instance
        .put(&path("a/b/größe.bin"), 0o640, source(content.clone()))
        .await
        .unwrap();
    instance
        .put(&path("empty"), 0o600, source(Vec::new()))
        .await
        .unwrap();
    let mut kept = Kept::default();
    instance
        .fetch(&path("a/b/größe.bin"), &mut kept)
        .await
        .unwrap();
    assert!(kept.stdout == content);
    std::os::unix::fs::symlink("/etc/passwd", path("link")).unwrap();
    for bad in ["link", "missing", "a"] {
        let error = instance
            .fetch(&path(bad), &mut Kept::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Path, "{bad}: {error}");
    }
}

#[tokio::test]
async fn exports_copy_files_and_report_skips() {
    let instance = instance().await;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().to_str().unwrap().to_owned();
    let script = format!(
        "cd {inside} && mkdir plots && printf 'a,b\\n' >data.csv && : >empty && printf x >plots/p.png \
         && ln -s /etc/passwd link && mkfifo fifo && truncate -s 1T sparse"
    );
    let (end, kept) = run(&instance, &shell(&script), None).await;
    assert!(
        end.outcome.success(),
        "{}",
        String::from_utf8_lossy(&kept.stderr)
    );
    let out = tempfile::tempdir().unwrap();
    let paths = [
        inside.clone(),
        format!("{inside}/*.csv"),
        "/no/such/file".to_owned(),
    ];
    let export = instance
        .export(&paths, out.path(), ArtifactLimits::default())
        .await
        .unwrap();
    let mut sizes = export
        .artifacts
        .iter()
        .map(|a| {
            (
                a.source.rsplit('/').next().unwrap().to_owned(),
                a.size_bytes,
            )
        })
        .collect::<Vec<_>>();
    sizes.sort();
    assert_eq!(
        sizes,
        [
            ("data.csv".into(), 4),
            ("empty".into(), 0),
            ("p.png".into(), 1)
        ]
    );
    let csv = export
        .artifacts
        .iter()
        .find(|a| a.source.ends_with("data.csv"))
        .unwrap();
    assert_eq!(csv.content_type.as_deref(), Some("text/csv"));
    assert_eq!(csv.blake3, blake3::hash(b"a,b\n").to_hex().to_string());
    let reason = |name: &str| {
        let skipped = export.skipped.iter().find(|s| s.source.ends_with(name));
        skipped
            .unwrap_or_else(|| panic!("{name} must be skipped: {export:?}"))
            .reason
            .clone()
    };
    assert_eq!(reason("link"), SkipReason::Symlink);
    assert_eq!(reason("fifo"), SkipReason::SpecialFile);
    assert_eq!(
        reason("sparse"),
        SkipReason::TooLarge {
            size_bytes: 1 << 40
        }
    );
    assert_eq!(reason("/no/such/file"), SkipReason::Missing);
}

#[tokio::test]
async fn log_outlives_its_programs() {
    let instance = instance().await;
    run(&instance, &shell("echo one"), None).await;
    run(&instance, &shell("echo two >&2"), None).await;
    assert_eq!(instance.logs(None).await.unwrap(), b"one\ntwo\n");
    assert_eq!(instance.logs(Some(1)).await.unwrap(), b"two\n");
}

#[tokio::test]
async fn dropped_execution_is_killed_alone() {
    let instance = instance().await;
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark").to_str().unwrap().to_owned();
    let script = format!("sleep 1; echo late >{mark}");
    let mut kept = Kept::default();
    let request = shell(&script);
    let dropped = instance.exec(&request, None.into(), &mut kept);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), dropped)
            .await
            .is_err()
    );
    let (end, kept) = run(&instance, &shell("echo still; sleep 1.5"), None).await;
    assert!(end.outcome.success());
    assert_eq!(kept.stdout, b"still\n");
    assert!(
        !std::path::Path::new(&mark).exists(),
        "the dropped execution must not have gone on"
    );
}

#[tokio::test]
async fn fifty_executions_keep_output_separate() {
    let instance = instance().await;
    let instance = &instance;
    let runs = (0..50u8).map(|number| async move {
        let script = format!(
            "head -c 100000 /dev/zero | tr '\\0' {}; exit {number}",
            number % 10
        );
        let (end, kept) = run(instance, &shell(&script), None).await;
        assert_eq!(
            end.outcome,
            Outcome::Exited {
                code: number.into()
            }
        );
        assert_eq!(kept.stdout, vec![b'0' + number % 10; 100_000]);
    });
    all(runs).await;
}

#[tokio::test]
async fn stop_waits_for_programs_and_leaves_none() {
    let instance = instance().await;
    let request = shell("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
    let mut kept = Kept::default();
    let program = instance.exec(&request, None.into(), &mut kept);
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        instance.stop(Duration::from_secs(2)).await
    };
    let (end, stopped) = tokio::join!(program, stop);
    stopped.unwrap();
    let end = end.unwrap();
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "ready\nbye\n");
    assert_eq!(end.outcome, Outcome::Exited { code: 3 });
    let error = instance
        .exec(&shell("true"), None.into(), &mut Kept::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SandboxEnded);
}

#[tokio::test]
async fn file_operation_ends_at_its_time_limit() {
    let mut policy = CapabilityPolicy::new();
    policy.file_timeout = Some(Duration::from_millis(300));
    let instance = common::instance_under(&policy).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let (endless, _writer) = tokio::io::duplex(64);
    let put = instance.put(path.to_str().unwrap(), 0o600, Box::new(endless));
    let put = tokio::time::timeout(Duration::from_secs(30), put).await;
    let error = put.expect("the limit applies").unwrap_err();
    assert!(error.to_string().contains("file_timeout"), "{error}");
    assert!(!path.exists());
}
