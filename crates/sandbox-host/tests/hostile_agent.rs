//! An agent that the guest owns: it sends garbage, floods, lies and stalls. The host stays bounded and says what is known.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use sandbox_agent::protocol::{
    Channel, Confinement, ExitKind, ExitReport, FrameBuffer, Kind, WINDOW, Welcome, encode_frame,
    encode_message,
};
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream};
use sandbox_core::{
    ArtifactLimits, CapabilityPolicy, EnforcementReport, ErrorKind, ExecRequest, Outcome, Plan,
    Result, SandboxSpec,
};
use sandbox_host::{AgentInstance, Isolator, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

struct Counted(Arc<AtomicUsize>);

#[async_trait]
impl Isolator for Counted {
    fn tier(&self) -> &str {
        "hostile"
    }
    async fn destroy(&self) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn destroy_soon(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    async fn oom_kills(&self) -> Option<u64> {
        Some(0)
    }
    async fn post_mortem(&self) -> Option<String> {
        None
    }
}

#[derive(Default)]
struct Count {
    bytes: usize,
    stop_after: Option<usize>,
}

#[async_trait]
impl OutputSink for Count {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        self.bytes += bytes.len();
        match self.stop_after {
            Some(limit) if self.bytes > limit => Flow::Stop,
            _ => Flow::Continue,
        }
    }
}

struct FakeAgent {
    stream: DuplexStream,
    buffer: FrameBuffer,
}

impl FakeAgent {
    async fn next(&mut self) -> Option<(u32, Kind, Vec<u8>)> {
        loop {
            if let Some(frame) = self.buffer.next_frame().unwrap() {
                return Some((
                    frame.header.stream,
                    frame.header.kind,
                    frame.payload.to_vec(),
                ));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.buffer.extend(&bytes[..count]),
            }
        }
    }

    async fn wait_for(&mut self, kind: Kind) -> Option<u32> {
        while let Some((stream, found, _)) = self.next().await {
            if found == kind {
                return Some(stream);
            }
        }
        None
    }

    async fn frame(&mut self, stream: u32, kind: Kind, payload: &[u8]) -> bool {
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, stream, kind, false, payload);
        self.stream.write_all(&bytes).await.is_ok()
    }
}

fn exited(kind: ExitKind) -> Vec<u8> {
    ExitReport {
        kind,
        stdout_total: 0,
        stderr_total: 0,
        stragglers: 0,
        survivors: 0,
        drain_cut: false,
        cpu_us: 0,
        max_rss_kib: 0,
        wall_us: 0,
        refused_programs: 0,
        refused_processes: 0,
    }
    .encode()
}

async fn sandbox<F, Fut>(agent: F) -> (AgentInstance, Arc<AtomicUsize>)
where
    F: FnOnce(FakeAgent) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (host, guest) = tokio::io::duplex(1 << 20);
    let mut fake = FakeAgent {
        stream: guest,
        buffer: FrameBuffer::new(),
    };
    let welcome = async {
        fake.wait_for(Kind::Hello).await.unwrap();
        let welcome = Welcome {
            split: true,
            landlock_abi: 0,
            capabilities: 0,
        };
        assert!(fake.frame(0, Kind::Welcome, &welcome.encode()).await);
        fake
    };
    let destroyed = Arc::new(AtomicUsize::new(0));
    let plan = Plan::resolve(&SandboxSpec::new("hostile"), &CapabilityPolicy::new()).unwrap();
    let settings = Sandbox::new(&plan, Confinement::default(), EnforcementReport::new()).unwrap();
    let isolator = Box::new(Counted(Arc::clone(&destroyed)));
    let (instance, fake) = tokio::join!(AgentInstance::connect(host, settings, isolator), welcome);
    tokio::spawn(agent(fake));
    (instance.unwrap(), destroyed)
}

fn request() -> ExecRequest {
    ExecRequest::new("true").timeout(Duration::from_secs(5))
}

async fn unknown_and_destroyed(instance: &AgentInstance, destroyed: &AtomicUsize, said: &str) {
    let end = instance
        .exec(&request(), None.into(), &mut Count::default())
        .await
        .unwrap();
    let Outcome::Unknown { reason } = &end.outcome else {
        panic!("{end:?}")
    };
    assert!(reason.contains(said), "{reason}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(
        destroyed.load(Ordering::Relaxed) > 0,
        "the sandbox must be destroyed"
    );
    let again = instance
        .exec(&request(), None.into(), &mut Count::default())
        .await
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::SandboxEnded);
}

#[tokio::test]
async fn an_end_without_a_word_is_unknown_and_never_success() {
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
            if agent.stream.write_all(&bytes).await.is_err() {
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
async fn frames_of_streams_that_nobody_opened_end_the_sandbox() {
    let (instance, destroyed) = sandbox(|mut agent| async move {
        agent.wait_for(Kind::Exec).await;
        agent.frame(77, Kind::Stdout, b"hello").await;
        std::future::pending::<()>().await;
    })
    .await;
    unknown_and_destroyed(&instance, &destroyed, "not open").await;
}

#[tokio::test]
async fn a_second_end_of_a_stream_ends_the_sandbox() {
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
    let first = instance
        .exec(&request(), None.into(), &mut Count::default())
        .await
        .unwrap();
    assert!(first.outcome.ok());
    unknown_and_destroyed(&instance, &destroyed, "not open").await;
}

#[tokio::test]
async fn a_timeout_before_its_time_and_a_kill_nobody_asked_for_are_unknown() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        for kind in [ExitKind::TimedOut, ExitKind::Killed, ExitKind::Lost] {
            let stream = agent.wait_for(Kind::Exec).await.unwrap();
            agent.frame(stream, Kind::Exited, &exited(kind)).await;
        }
        std::future::pending::<()>().await;
    })
    .await;
    for _ in 0..3 {
        let end = instance
            .exec(&request(), None.into(), &mut Count::default())
            .await
            .unwrap();
        assert!(matches!(end.outcome, Outcome::Unknown { .. }), "{end:?}");
    }
}

#[tokio::test]
async fn a_flood_is_bounded_by_its_receiver() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let piece = vec![b'x'; 60_000];
        let mut credit = i64::from(WINDOW);
        loop {
            while credit >= 60_000 {
                if !agent.frame(stream, Kind::Stdout, &piece).await {
                    return;
                }
                credit -= 60_000;
            }
            match agent.next().await {
                Some((_, Kind::Credit, payload)) => {
                    credit += i64::from(Channel::read_credit(&payload).unwrap().1);
                }
                Some((_, Kind::Kill, _)) => break,
                Some(_) => {}
                None => return,
            }
        }
        agent
            .frame(stream, Kind::Exited, &exited(ExitKind::Killed))
            .await;
        std::future::pending::<()>().await;
    })
    .await;
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
async fn a_list_that_never_ends_is_cut() {
    let (instance, _destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(Kind::Exec).await.unwrap();
        let mut credit = i64::from(WINDOW);
        loop {
            while credit >= 60_000 {
                if !agent.frame(stream, Kind::Stdout, &[b'f'; 60_000]).await {
                    return;
                }
                credit -= 60_000;
            }
            match agent.next().await {
                Some((_, Kind::Credit, payload)) => {
                    credit += i64::from(Channel::read_credit(&payload).unwrap().1);
                }
                Some((_, Kind::Kill, _)) => break,
                Some(_) => {}
                None => return,
            }
        }
        agent
            .frame(stream, Kind::Exited, &exited(ExitKind::Killed))
            .await;
        std::future::pending::<()>().await;
    })
    .await;
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes after the welcome, an execution ends without a panic and without success.
    #[test]
    fn garbage_never_becomes_success(garbage in proptest::collection::vec(any::<u8>(), 1..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (instance, _) = sandbox(|mut agent| async move {
                agent.wait_for(Kind::Exec).await;
                let _ = agent.stream.write_all(&garbage).await;
            }).await;
            let end = instance.exec(&request(), None.into(), &mut Count::default()).await.unwrap();
            assert!(matches!(end.outcome, Outcome::Unknown { .. }), "{end:?}");
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
                    if agent.stream.write_all(&bytes).await.is_err() {
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
}
