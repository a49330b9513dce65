//! The backend against a real cluster: the one of `KUBECONFIG`, whose nodes have the images of `cargo xtask images`.
//!
//! Without a cluster the tests are listed as ignored, with the reason; `SANDBOX_REQUIRE` with the tier's name makes that a failure.

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use sandbox_core::spi::Backend;
use sandbox_core::{
    ArtifactLimits, ByteSize, Capability, CapabilityPolicy, Cpus, ErrorKind, ExecRequest, Outcome,
    SandboxClient, SandboxHandle, SandboxSpec,
};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig, PodProfile};

const TIER: &str = "k8s";

type Done = Result<(), Failed>;
type Test = (&'static str, fn() -> Done);

const TESTS: &[Test] = &[
    ("a_program_runs_to_its_end", program),
    ("code_has_no_network", no_network),
    ("code_is_nobody_and_stays_so", identity),
    ("limits_are_the_kernels", limits),
    ("a_time_limit_kills", time_limit),
    ("files_go_in_and_out", files),
    ("a_missing_image_is_the_kubelets_word", missing_image),
    ("no_room_is_the_schedulers_word", no_room),
    (
        "the_restricted_profile_refuses_what_it_cannot",
        restricted_refuses,
    ),
    (
        "the_restricted_profile_runs_what_is_accepted",
        restricted_runs,
    ),
    ("nothing_is_left", nothing_left),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = missing();
    let required = std::env::var("SANDBOX_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|name| name.trim() == TIER));
    if let Some(reason) = &missing {
        println!("NOT RUN: tests that need a cluster: {reason}");
        if required {
            eprintln!("SANDBOX_REQUIRE={TIER}: a cluster is required");
            return ExitCode::FAILURE;
        }
    }
    let trials = TESTS.iter().map(|(name, test)| {
        Trial::test(*name, *test)
            .with_kind(TIER)
            .with_ignored_flag(missing.is_some())
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

fn missing() -> Option<String> {
    let findings = run(async { backend(PodProfile::HardenedInit).diagnose().await });
    let absent = findings.iter().find(|finding| !finding.present);
    absent.map(|finding| format!("{}; fix: {}", finding.detail, finding.fix))
}

fn backend(profile: PodProfile) -> KubernetesBackend {
    KubernetesBackend::new(KubernetesConfig::default().profile(profile))
}

fn client_of(profile: PodProfile, policy: CapabilityPolicy) -> SandboxClient {
    SandboxClient::with_backend(Arc::new(backend(profile)), policy).expect("a client")
}

fn client() -> SandboxClient {
    client_of(PodProfile::HardenedInit, CapabilityPolicy::new())
}

fn small(name: &str) -> SandboxSpec {
    SandboxSpec::new(name)
        .image("sandbox-test/busybox:latest")
        .memory(ByteSize::mib(64))
        .cpus(Cpus::milli(200))
}

async fn sandbox(name: &str) -> SandboxHandle {
    client().create(&small(name)).await.expect("a sandbox")
}

async fn output(sandbox: &SandboxHandle, script: &str) -> String {
    let result = sandbox.shell(script).await.expect("an execution");
    format!("{}{}", result.stdout_text(), result.stderr_text())
}

fn program() -> Done {
    run(async {
        let sandbox = sandbox("program").await;
        let result = sandbox.shell("echo out; echo err >&2; exit 7").await?;
        assert_eq!(result.exit_code(), Some(7));
        assert_eq!(result.stdout_text(), "out\n");
        assert_eq!(result.stderr_text(), "err\n");
        let killed = sandbox.shell("kill -9 $$").await?;
        assert_eq!(killed.exit_code(), None);
        assert!(matches!(killed.outcome, Outcome::Signaled { signal: 9 }));
        let missing = sandbox
            .exec(&ExecRequest::new("/no/such"))
            .await
            .expect_err("no program");
        assert_eq!(missing.kind(), ErrorKind::ProgramNotFound);
        sandbox.kill().await?;
        Ok(())
    })
}

fn no_network() -> Done {
    run(async {
        let sandbox = sandbox("network").await;
        let report = sandbox.enforcement();
        let network = report.get(Capability::NetworkAccess).expect("an entry");
        assert!(network.is_enforced(), "{network}");
        let interfaces = output(&sandbox, "cat /proc/net/route | tail -n +2; ip -o link").await;
        for line in interfaces.lines().filter(|line| !line.contains(": lo:")) {
            assert!(!line.contains("UP"), "{interfaces}");
        }
        let up = output(&sandbox, "ip link set eth0 up 2>&1 || echo refused").await;
        assert!(up.contains("refused"), "{up}");
        sandbox.kill().await?;
        Ok(())
    })
}

fn identity() -> Done {
    run(async {
        let sandbox = sandbox("identity").await;
        let text = output(
            &sandbox,
            "id -u; grep -E 'Cap(Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status; ls -A /var/run/secrets; touch /x; touch /tmp/y && echo written",
        )
        .await;
        let user: u32 = text.lines().next().unwrap_or_default().parse()?;
        assert!(user > 100_000, "{text}");
        for expected in [
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
            "written",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(text.contains("Read-only file system"), "{text}");
        sandbox.kill().await?;
        Ok(())
    })
}

fn limits() -> Done {
    run(async {
        let sandbox = sandbox("limits").await;
        for capability in [Capability::Memory, Capability::Cpus] {
            let entry = sandbox.enforcement().get(capability).expect("an entry");
            assert!(entry.is_enforced(), "{entry}");
        }
        let result = sandbox
            .shell("x=$(dd if=/dev/zero bs=1M count=100 2>/dev/null | tr '\\0' x); echo ${#x}")
            .await?;
        assert!(!result.ok(), "{result:?}");
        Ok(())
    })
}

fn time_limit() -> Done {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.timeout = Some(Duration::from_secs(1));
        let client = client_of(PodProfile::HardenedInit, policy);
        let sandbox = client.create(&small("timeout")).await?;
        let result = sandbox.shell("echo begun; sleep 60").await?;
        assert_eq!(result.outcome, Outcome::TimedOut);
        assert_eq!(result.stdout_text(), "begun\n");
        sandbox.kill().await?;
        Ok(())
    })
}

fn files() -> Done {
    run(async {
        let sandbox = sandbox("files").await;
        let folder = std::env::temp_dir().join(format!("sandbox-k8s-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let bytes: Vec<u8> = (0..3_000_000u32)
            .map(|number| (number % 251) as u8)
            .collect();
        std::fs::write(folder.join("in"), &bytes)?;
        sandbox.copy_in(&folder.join("in"), "/workspace/in").await?;
        let result = sandbox.shell("cp in out && wc -c < out").await?;
        assert_eq!(result.stdout_text().trim(), "3000000");
        sandbox
            .copy_out(
                "/workspace/out",
                &folder.join("out"),
                ArtifactLimits::default(),
            )
            .await?;
        assert!(std::fs::read(folder.join("out"))? == bytes);
        std::fs::remove_dir_all(&folder)?;
        sandbox.kill().await?;
        Ok(())
    })
}

fn missing_image() -> Done {
    run(async {
        let spec = small("image").image("no-such-image:1");
        let error = client().create(&spec).await.expect_err("no image");
        assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error}");
        assert!(error.to_string().contains("ErrImageNeverPull"), "{error}");
        Ok(())
    })
}

fn no_room() -> Done {
    run(async {
        let spec = small("room").cpus(Cpus::whole(900));
        let error = client().create(&spec).await.expect_err("no room");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        assert!(error.to_string().contains("Insufficient cpu"), "{error}");
        Ok(())
    })
}

fn restricted_refuses() -> Done {
    run(async {
        let client = client_of(PodProfile::Restricted, CapabilityPolicy::new());
        let error = client
            .create(&small("restricted"))
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        assert!(error.to_string().contains("network_access"), "{error}");
        Ok(())
    })
}

fn restricted_runs() -> Done {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.allow_unenforced = vec![Capability::NetworkAccess];
        let client = client_of(PodProfile::Restricted, policy);
        let sandbox = client.create(&small("restricted")).await?;
        let text = output(&sandbox, "grep -E 'CapBnd|NoNewPrivs' /proc/self/status").await;
        assert!(text.contains("CapBnd:\t0000000000000000"), "{text}");
        assert!(
            !sandbox
                .enforcement()
                .get(Capability::NetworkAccess)
                .expect("an entry")
                .is_enforced()
        );
        sandbox.kill().await?;
        Ok(())
    })
}

/// By the cluster's own word: a sandbox that was killed, and one that was dropped.
fn nothing_left() -> Done {
    run(async {
        let config = kube::Config::infer().await?;
        let cluster = kube::Client::try_from(config)?;
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::default_namespaced(cluster);
        let of_this = format!("left-{}", std::process::id());
        let label = kube::api::ListParams::default().labels(&format!("test={of_this}"));
        let spec = |name: &str| small(name).label("test", &*of_this);
        let killed = client().create(&spec("killed")).await?;
        let dropped = client().create(&spec("dropped")).await?;
        assert_eq!(pods.list(&label).await?.items.len(), 2);
        killed.kill().await?;
        drop(dropped);
        let begin = std::time::Instant::now();
        while !pods.list(&label).await?.items.is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(30), "a pod is left");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    })
}
