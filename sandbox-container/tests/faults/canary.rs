//! That nothing of what crosses the stream to a sandbox gets into its engine's storage: all that an engine of the test's own has
//! written is searched.

use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::path::Path;
use std::process::Command;

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::WaitContainerOptions;
use futures_util::StreamExt;
use libtest_mimic::Failed;
use sandbox_core::{ArtifactLimits, ExecRequest, SandboxHandle, SandboxSpec};

use super::Test;
use super::engine::{Engine, IMAGE, is_root, run, spec};

pub const TESTS: &[Test] = &[
    ("canary::what_is_logged_is_found", control),
    ("canary::nothing_of_the_stream_is_stored", stream),
    (
        "canary::a_writable_root_goes_with_its_sandbox",
        writable_root,
    ),
];

/// Why the engine's storage cannot be searched by this user; `None` where it can.
pub fn missing() -> Option<&'static str> {
    (!is_root())
        .then_some("without root, files of an engine belong to numbers that its user is not")
}

/// Secrets of one test, told apart by what each went through.
struct Canaries(String);

impl Canaries {
    fn new() -> Self {
        let mut random = [0; 16];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut random))
            .expect("random bytes");
        // Letters that are neither digits nor hexadecimal, so that no hash has them by chance.
        let letters = random.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Self(letters.map(|half| char::from(b'g' + half)).collect())
    }

    /// What goes this way.
    fn of(&self, way: &str) -> String {
        format!("{}-{way}", self.0)
    }

    /// What the guest turns around before it comes back, so that the way in is not taken for the way out.
    fn reversed(&self, way: &str) -> String {
        self.of(way).chars().rev().collect()
    }

    /// What ways the engine's files show, and in which files.
    fn found(&self, engine: &Engine) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let reversed = self.0.chars().rev().collect::<String>();
        let ways = format!("{}-[a-z_]*\\|[a-z_]*-{reversed}", self.0);
        let search = Command::new("grep")
            .args(["-r", "-a", "-o", "-s", "-e", &ways])
            .arg(engine.folder())
            .output()
            .expect("grep");
        for line in String::from_utf8_lossy(&search.stdout).lines() {
            let file = line.strip_prefix(&format!("{}", engine.folder().display()));
            found.insert(file.unwrap_or(line).replace(&self.0, "CANARY"));
        }
        found
    }
}

/// The search finds what an engine stores, if it is asked to.
fn control() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start().await;
        let canaries = Canaries::new();
        assert_eq!(canaries.found(&engine), BTreeSet::new());
        let log = HostConfigLogConfig {
            typ: Some("json-file".into()),
            config: None,
        };
        let script = format!("echo {} | rev", canaries.reversed("log"));
        let body = ContainerCreateBody {
            image: Some(IMAGE.into()),
            cmd: Some(["sh", "-c", &script].map(str::to_owned).to_vec()),
            env: Some(vec![format!("SECRET={}", canaries.of("variable"))]),
            host_config: Some(HostConfig {
                log_config: Some(log),
                network_mode: Some("none".into()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let api = engine.api();
        let id = api.create_container(None, body).await.expect("made").id;
        api.start_container(&id, None).await.expect("started");
        let end = api
            .wait_container(&id, None::<WaitContainerOptions>)
            .next()
            .await;
        end.expect("an end").expect("success");
        let found = canaries.found(&engine);
        for way in ["CANARY-log", "CANARY-variable"] {
            assert!(
                found.iter().any(|line| line.ends_with(way)),
                "{way}: {found:?}"
            );
        }
        Ok(())
    })
}

fn stream() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start().await;
        let canaries = Canaries::new();
        let kept = spec()
            .detached(true)
            .lifetime(std::time::Duration::from_secs(120));
        for spec in [spec(), kept] {
            let spec = spec.env("SPEC_SECRET", canaries.of("specification"));
            let detached = spec.detached;
            let sandbox = made(&engine, &spec).await?;
            every_way(&sandbox, &canaries).await?;
            let (kept, running) = canaries
                .found(&engine)
                .into_iter()
                .partition::<BTreeSet<_>, _>(|line| line.starts_with("/state/"));
            assert_eq!(running, BTreeSet::new(), "detached: {detached}");
            // Its user's own record of a detached one, for later clients, has what was specified and nothing that was done.
            assert_eq!(kept.len(), usize::from(detached), "{kept:?}");
            assert!(
                kept.iter()
                    .all(|line| line.ends_with("CANARY-specification")),
                "{kept:?}"
            );
            sandbox.kill().await?;
            let after = canaries.found(&engine);
            assert_eq!(after, BTreeSet::new(), "detached: {detached}");
        }
        Ok(())
    })
}

/// A sandbox as its user has it: a detached one by way of its name.
async fn made(engine: &Engine, spec: &SandboxSpec) -> sandbox_core::Result<SandboxHandle> {
    let client = engine.client();
    let created = client.create(spec).await?;
    if !spec.detached {
        return Ok(created);
    }
    drop(created);
    client.get(&spec.name).await
}

/// Has a secret go each way that there is, and makes sure that it got there.
async fn every_way(sandbox: &SandboxHandle, canaries: &Canaries) -> sandbox_core::Result<()> {
    // Of arguments, a variable and standard input to standard output and standard error.
    let script = "rev; echo \"$SECRET\" | rev >&2; echo \"$1\" | rev > turned";
    let request = ExecRequest::new("sh")
        .args(["-c", script, "sh"])
        .arg(canaries.of("argument"))
        .env("SECRET", canaries.of("variable"));
    let input = Cursor::new(format!("{}\n", canaries.of("input")).into_bytes());
    let result = sandbox.exec_with(&request, Some(Box::new(input)), None);
    let result = result.await?;
    assert_eq!(
        result.stdout_text().trim(),
        canaries.reversed("input"),
        "{result:?}"
    );
    assert_eq!(
        result.stderr_text().trim(),
        canaries.reversed("variable"),
        "{result:?}"
    );

    let folder = tempfile::tempdir().expect("a folder");
    let content = canaries.of("file_in");
    let source = Box::new(Cursor::new(content.clone().into_bytes()));
    sandbox.put("/workspace/put", 0o644, source).await?;
    std::fs::write(folder.path().join("copied"), canaries.of("copied")).expect("written");
    sandbox
        .copy_in(&folder.path().join("copied"), "/workspace/copied")
        .await?;
    assert_eq!(
        sandbox.fetch("/workspace/put", 1000).await?,
        content.as_bytes()
    );
    let out = folder.path().join("out");
    sandbox
        .copy_out("/workspace/turned", &out, ArtifactLimits::default())
        .await?;
    let turned = read_copy(&out, "turned");
    assert_eq!(turned.trim(), canaries.reversed("argument"));
    // What is temporary, and what the guest says last.
    let script = format!("echo {} > /tmp/own", canaries.of("temporary"));
    assert!(sandbox.exec(&ExecRequest::shell(script)).await?.ok());
    Ok(())
}

/// A file that was copied to a path, or into the folder there.
fn read_copy(path: &Path, name: &str) -> String {
    std::fs::read_to_string(path)
        .or_else(|_| std::fs::read_to_string(path.join(name)))
        .expect("the copy")
}

/// What code writes to a root that it may write to is in the engine's storage while the sandbox is, as the policy says, and no longer.
fn writable_root() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start().await;
        let canaries = Canaries::new();
        let sandbox = engine.client().create(&spec().writable_root(true)).await?;
        every_way(&sandbox, &canaries).await?;
        // The layer of a container is written when the kernel pleases; the files are there at once.
        let running = canaries.found(&engine);
        assert!(!running.is_empty(), "the search does not see the layer");
        for line in &running {
            assert!(
                line.contains("/workspace/"),
                "only what was written there: {running:?}"
            );
        }
        sandbox.kill().await?;
        assert_eq!(canaries.found(&engine), BTreeSet::new());
        Ok(())
    })
}
