//! Connections to the API server that are cut, by a relay that only this test uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::config::Kubeconfig;
use sandbox_core::{
    CapabilityPolicy, ErrorKind, ExecRequest, Outcome, SandboxClient, SandboxHandle,
};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig};
use sandbox_testing::contract::egress::ONE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::cluster::{run, small};
use crate::egress::{with_one, with_rules};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("resume::executions_and_files_are_complete", complete),
    (
        "resume::connections_that_rules_allow_are_complete",
        connections,
    ),
    (
        "resume::an_execution_of_a_removed_pod_is_unknown",
        removed_pod,
    ),
    ("resume::a_kill_during_an_outage_is_an_error", kill),
];

/// A relay in front of the API server.
struct ServerRelay {
    server: String,
    /// Whether new connections are refused.
    shut: AtomicBool,
    cut: Notify,
    /// Bytes from the server, over all connections.
    forwarded: AtomicUsize,
    /// After this number of bytes, all connections are cut; 0 for never.
    cut_interval: AtomicUsize,
    cuts: AtomicUsize,
}

impl ServerRelay {
    fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
        self.cut.notify_waiters();
    }

    fn shut(&self, shut: bool) {
        self.shut.store(shut, Ordering::Relaxed);
        if shut {
            self.cut();
        }
    }

    fn count(&self, bytes: usize) {
        let every = self.cut_interval.load(Ordering::Relaxed);
        let before = self.forwarded.fetch_add(bytes, Ordering::Relaxed);
        if every > 0 && before / every != (before + bytes) / every {
            self.cut();
        }
    }

    async fn listen(self: Arc<Self>, listener: TcpListener) {
        while let Ok((client, _)) = listener.accept().await {
            if !self.shut.load(Ordering::Relaxed) {
                // Both ends see how the connection ends, so the result is not needed.
                tokio::spawn(Arc::clone(&self).forward(client));
            }
        }
    }

    async fn forward(self: Arc<Self>, client: TcpStream) -> std::io::Result<()> {
        let server = TcpStream::connect(&self.server).await?;
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let outwards = async {
            let mut bytes = vec![0; 16 * 1024];
            loop {
                match from_server.read(&mut bytes).await? {
                    0 => return Ok::<_, std::io::Error>(0),
                    count => {
                        to_client.write_all(&bytes[..count]).await?;
                        self.count(count);
                    }
                }
            }
        };
        tokio::select! {
            ended = outwards => ended.map(drop),
            ended = tokio::io::copy(&mut from_client, &mut to_server) => ended.map(drop),
            () = self.cut.notified() => Ok(()),
        }
    }
}

/// A client that uses the relay. It still checks the server's certificate.
struct RelayedClient {
    relay: Arc<ServerRelay>,
    client: SandboxClient,
    _kubeconfig: tempfile::NamedTempFile,
}

impl RelayedClient {
    async fn new() -> Result<Self, Box<dyn std::error::Error>> {
        Self::under(CapabilityPolicy::new()).await
    }

    /// The same under this policy, with more time for each execution.
    async fn under(mut policy: CapabilityPolicy) -> Result<Self, Box<dyn std::error::Error>> {
        let mut config = Kubeconfig::read()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let used = config.current_context.clone().unwrap_or_default();
        let context = config.contexts.iter().find(|one| one.name == used);
        let context = context.and_then(|one| one.context.clone());
        let cluster = context.ok_or("no context")?.cluster;
        let named = config.clusters.iter_mut().find(|one| one.name == cluster);
        let cluster = named
            .and_then(|one| one.cluster.as_mut())
            .ok_or("no cluster")?;
        let url = cluster.server.clone().ok_or("no server")?;
        let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
        let server = rest.trim_end_matches('/').to_owned();
        let host = server.rsplit_once(':').map_or(&*server, |(host, _)| host);
        cluster
            .tls_server_name
            .get_or_insert_with(|| host.to_owned());
        cluster.server = Some(format!("{scheme}://{address}"));
        let file = tempfile::NamedTempFile::new()?;
        serde_json::to_writer(&file, &config)?;
        let relay = Arc::new(ServerRelay {
            server,
            shut: AtomicBool::new(false),
            cut: Notify::new(),
            forwarded: AtomicUsize::new(0),
            cut_interval: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
        });
        tokio::spawn(Arc::clone(&relay).listen(listener));
        let config = with_one(KubernetesConfig::default().kubeconfig(file.path()));
        let backend = KubernetesBackend::new(config);
        // Streams that are cut repeatedly are slow on a busy node.
        policy.timeout = Some(Duration::from_secs(120));
        let client = SandboxClient::with_backend(Arc::new(backend), policy)?;
        Ok(Self {
            relay,
            client,
            _kubeconfig: file,
        })
    }

    async fn sandbox(&self, name: &str) -> sandbox_core::Result<SandboxHandle> {
        let label = format!("{name}-{}", std::process::id());
        self.client
            .create(&small(name).label("resume", label))
            .await
    }
}

/// The API of pods, without the relay.
async fn pods() -> Result<Api<Pod>, Box<dyn std::error::Error>> {
    let config = kube::Config::infer().await?;
    Ok(Api::default_namespaced(kube::Client::try_from(config)?))
}

/// The names of a test's pods. Labels of a specification are in an annotation, which selectors
/// ignore.
async fn pods_of(pods: &Api<Pod>, name: &str) -> kube::Result<Vec<String>> {
    let label = format!("\"resume\":\"{name}-{}\"", std::process::id());
    let all = ListParams::default().labels("sandbox.tier=k8s");
    let all = pods.list(&all).await?.items.into_iter();
    let matching = all.filter(|pod| {
        let annotations = pod.metadata.annotations.as_ref();
        let labels = annotations.and_then(|all| all.get("sandbox.labels"));
        labels.is_some_and(|labels| labels.contains(&label))
    });
    Ok(matching.filter_map(|pod| pod.metadata.name).collect())
}

fn complete() -> TestResult {
    run(async {
        let relayed = RelayedClient::new().await?;
        let sandbox = relayed.sandbox("complete").await?;
        output(&relayed.relay, &sandbox).await?;
        short(&relayed.relay, &sandbox).await?;
        files(&relayed.relay, &sandbox).await?;
        ended_during_outage(&relayed.relay, &sandbox).await?;
        sandbox.kill().await?;
        Ok(())
    })
}

async fn output(relay: &ServerRelay, sandbox: &SandboxHandle) -> TestResult {
    let total = 24 << 20;
    relay.cut_interval.store(2_500_009, Ordering::Relaxed);
    let script = format!("yes 1234567 | head -c {total}; echo err >&2; exit 9");
    let result = sandbox.shell(script.as_str()).await?;
    assert_eq!(result.exit_code(), Some(9), "{:?}", result.outcome);
    assert_eq!(result.stdout.bytes.len(), total);
    assert!(
        result
            .stdout
            .bytes
            .chunks(8)
            .all(|line| line == b"1234567\n")
    );
    assert_eq!(result.stderr_text(), "err\n");
    let cuts = relay.cuts.load(Ordering::Relaxed);
    assert!(cuts > 5, "{cuts}");
    relay.cut_interval.store(0, Ordering::Relaxed);
    Ok(())
}

/// A connection of code to an allowed host is carried on over each new stream.
fn connections() -> TestResult {
    run(async {
        let total = 12 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let server = tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await?;
            let mut received = Vec::new();
            peer.read_to_end(&mut received).await?;
            peer.write_all(format!("{}\n", received.len()).as_bytes())
                .await?;
            Ok::<_, std::io::Error>(received)
        });
        let policy = with_rules(&[&format!("{ONE}:{port} tcp private")]);
        let relayed = RelayedClient::under(policy).await?;
        let sandbox = relayed.sandbox("connections").await?;
        let interval = &relayed.relay.cut_interval;
        interval.store(2_500_009, Ordering::Relaxed);
        let send = format!("yes 1234567 | head -c {total} | nc {ONE} {port}");
        let result = sandbox.shell(send.as_str()).await?;
        interval.store(0, Ordering::Relaxed);
        assert_eq!(result.output(), format!("{total}\n"));
        let received = server.await??;
        assert!(received.chunks(8).all(|line| line == b"1234567\n"));
        let cuts = relayed.relay.cuts.load(Ordering::Relaxed);
        assert!(cuts > 3, "{cuts}");
        sandbox.kill().await?;
        Ok(())
    })
}

/// During the outage one program ends, and another one reaches its time limit.
async fn ended_during_outage(relay: &ServerRelay, sandbox: &SandboxHandle) -> TestResult {
    let over = ExecRequest::shell("echo begun; sleep 1; echo over; exit 6");
    let limited = ExecRequest::shell("echo begun; sleep 60").timeout(Duration::from_secs(2));
    let outage = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        relay.shut(true);
        tokio::time::sleep(Duration::from_secs(4)).await;
        relay.shut(false);
    };
    let (over, limited, ()) = tokio::join!(sandbox.exec(&over), sandbox.exec(&limited), outage);
    let (over, limited) = (over?, limited?);
    assert_eq!(over.exit_code(), Some(6), "{:?}", over.outcome);
    assert_eq!(over.stdout_text(), "begun\nover\n");
    assert_eq!(limited.outcome, Outcome::TimedOut);
    assert_eq!(limited.stdout_text(), "begun\n");
    Ok(())
}

/// Cuts short executions after different delays.
async fn short(relay: &ServerRelay, sandbox: &SandboxHandle) -> TestResult {
    for number in 0..25u64 {
        let cut = async {
            tokio::time::sleep(Duration::from_micros(number * 400)).await;
            relay.cut();
        };
        let script = format!("echo out{number}; exit {number}");
        let (result, ()) = tokio::join!(sandbox.shell(script.as_str()), cut);
        let result = result?;
        assert_eq!(
            result.exit_code(),
            Some(number as i32),
            "{:?}",
            result.outcome
        );
        assert_eq!(result.stdout_text(), format!("out{number}\n"));
    }
    Ok(())
}

async fn files(relay: &ServerRelay, sandbox: &SandboxHandle) -> TestResult {
    let folder = tempfile::tempdir()?;
    let bytes: Vec<u8> = (0..6_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    std::fs::write(folder.path().join("in"), &bytes)?;
    let cuts = async {
        for _ in 0..12 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            relay.cut();
        }
        std::future::pending::<()>().await;
    };
    let both = async {
        sandbox
            .copy_in(&folder.path().join("in"), "/workspace/in")
            .await?;
        sandbox
            .copy_out("/workspace/in", folder.path().join("out"))
            .await
    };
    tokio::select! {
        copied = both => drop(copied?),
        () = cuts => {}
    }
    assert!(std::fs::read(folder.path().join("out"))? == bytes);
    Ok(())
}

fn removed_pod() -> TestResult {
    run(async {
        let relayed = RelayedClient::new().await?;
        let sandbox = relayed.sandbox("gone").await?;
        let begin = Instant::now();
        let removed = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            relayed.relay.shut(true);
            let pods = pods().await?;
            let names = pods_of(&pods, "gone").await?;
            assert_eq!(names.len(), 1, "{names:?}");
            pods.delete(&names[0], &DeleteParams::default().grace_period(0))
                .await?;
            relayed.relay.shut(false);
            Ok::<(), Box<dyn std::error::Error>>(())
        };
        let (result, removed) = tokio::join!(sandbox.shell("echo begun; sleep 60"), removed);
        removed?;
        let result = result?;
        assert!(
            matches!(result.outcome, Outcome::Unknown { .. }),
            "{:?}",
            result.outcome
        );
        assert_eq!(
            (result.exit_code(), result.stdout_text().as_ref()),
            (None, "begun\n")
        );
        assert!(begin.elapsed() < Duration::from_secs(40));
        let refused = sandbox.shell("true").await.expect_err("removed");
        assert_eq!(refused.kind(), ErrorKind::SandboxEnded, "{refused}");
        Ok(())
    })
}

fn kill() -> TestResult {
    run(async {
        let relayed = RelayedClient::new().await?;
        let sandbox = relayed.sandbox("kill").await?;
        let pods = pods().await?;
        assert_eq!(pods_of(&pods, "kill").await?.len(), 1);
        relayed.relay.shut(true);
        let begin = Instant::now();
        let error = sandbox.kill().await.expect_err("no cluster");
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        relayed.relay.shut(false);
        // The backend retries the removal.
        let begin = Instant::now();
        while !pods_of(&pods, "kill").await?.is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the pod is left");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    })
}
