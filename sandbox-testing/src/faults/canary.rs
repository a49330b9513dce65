//! Nothing that crosses the stream to a sandbox is stored by its engine: all files of a private
//! engine are searched for canaries.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::WaitContainerOptions;
use futures_util::StreamExt;
use sandbox_core::{ExecRequest, SandboxHandle, SandboxSpec, Stdin};

use super::private_engine::{IMAGE, PrivateEngine, run, spec};
use super::{EngineLauncher, FaultTest};
use crate::contract::TestResult;
use crate::users::is_root;

pub const TESTS: &[FaultTest] = &[
    ("canary::the_search_finds_what_an_engine_logs", control),
    ("canary::nothing_from_the_stream_is_stored", stream),
    (
        "canary::a_writable_root_is_removed_with_its_sandbox",
        writable_root,
    ),
];

/// Why the current user cannot search the engine's storage; `None` where it can.
pub fn missing() -> Option<String> {
    (!is_root()).then(|| "a rootless engine's files belong to subordinate users".into())
}

/// The secrets of one test: a random prefix, and the name of the channel that each crosses.
struct Canaries(String);

impl Canaries {
    fn new() -> Self {
        let mut random = [0; 16];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut random))
            .expect("random bytes");
        // No hexadecimal digits, so that no hash contains them.
        let letters = random.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Self(letters.map(|half| char::from(b'g' + half)).collect())
    }

    /// The secret of a channel.
    fn of(&self, channel: &str) -> String {
        format!("{}-{channel}", self.0)
    }

    /// The secret in reverse: the code in the sandbox reverses it, so that input differs from
    /// output.
    fn reversed(&self, channel: &str) -> String {
        self.of(channel).chars().rev().collect()
    }

    /// The channels whose secrets are in the engine's files, each with the file.
    fn found(&self, engine: &PrivateEngine) -> BTreeSet<String> {
        let mut matches = BTreeSet::new();
        let reversed = self.0.chars().rev().collect::<String>();
        let pattern = format!("{}-[a-z_]*\\|[a-z_]*-{reversed}", self.0);
        let search = Command::new("grep")
            .args(["-r", "-a", "-o", "-s", "-e", &pattern])
            .arg(engine.folder())
            .output()
            .expect("grep");
        for line in String::from_utf8_lossy(&search.stdout).lines() {
            let file = line.strip_prefix(&format!("{}", engine.folder().display()));
            matches.insert(file.unwrap_or(line).replace(&self.0, "CANARY"));
        }
        matches
    }
}

/// The search finds a container's log and variables, which an engine stores.
fn control(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start(launcher).await;
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
        for channel in ["CANARY-log", "CANARY-variable"] {
            assert!(
                found.iter().any(|line| line.ends_with(channel)),
                "{channel}: {found:?}"
            );
        }
        Ok(())
    })
}

fn stream(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start(launcher).await;
        let canaries = Canaries::new();
        let detached = spec()
            .detached(true)
            .lifetime(std::time::Duration::from_secs(120));
        for spec in [spec(), detached] {
            let spec = spec.env("SPEC_SECRET", canaries.of("specification"));
            let detached = spec.detached;
            let sandbox = create(&engine, &spec).await?;
            use_every_channel(&sandbox, &canaries).await?;
            let (record, running) = canaries
                .found(&engine)
                .into_iter()
                .partition::<BTreeSet<_>, _>(|line| line.starts_with("/state/"));
            assert_eq!(running, BTreeSet::new(), "detached: {detached}");
            // The record of a detached sandbox has its specification, and nothing that was
            // executed.
            assert_eq!(record.len(), usize::from(detached), "{record:?}");
            assert!(
                record
                    .iter()
                    .all(|line| line.ends_with("CANARY-specification")),
                "{record:?}"
            );
            sandbox.kill().await?;
            let after = canaries.found(&engine);
            assert_eq!(after, BTreeSet::new(), "detached: {detached}");
        }
        Ok(())
    })
}

/// Creates a sandbox. A detached one is used by a later client, by its name.
async fn create(engine: &PrivateEngine, spec: &SandboxSpec) -> sandbox_core::Result<SandboxHandle> {
    let client = engine.client();
    let created = client.create(spec).await?;
    if !spec.detached {
        return Ok(created);
    }
    drop(created);
    client.get(&spec.name).await
}

/// Sends a secret over each channel and asserts that it arrives.
async fn use_every_channel(
    sandbox: &SandboxHandle,
    canaries: &Canaries,
) -> sandbox_core::Result<()> {
    // From arguments, a variable and standard input, to standard output, standard error and a file.
    let script = "rev; echo \"$SECRET\" | rev >&2; echo \"$1\" | rev > turned";
    let request = ExecRequest::new("sh")
        .args(["-c", script, "sh"])
        .arg(canaries.of("argument"))
        .env("SECRET", canaries.of("variable"));
    let input = Stdin::from_bytes(format!("{}\n", canaries.of("input")));
    let result = sandbox.exec_with(&request, input, |_, _| {});
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
    sandbox.write("/workspace/put", content.as_str()).await?;
    std::fs::write(folder.path().join("copied"), canaries.of("copied")).expect("written");
    sandbox
        .copy_in(&folder.path().join("copied"), "/workspace/copied")
        .await?;
    assert_eq!(sandbox.read_to_string("/workspace/put").await?, content);
    let out = folder.path().join("out");
    sandbox.copy_out("/workspace/turned", &out).await?;
    let turned = read_copy(&out, "turned");
    assert_eq!(turned.trim(), canaries.reversed("argument"));
    // A temporary file.
    let script = format!("echo {} > /tmp/own", canaries.of("temporary"));
    assert!(sandbox.exec(&ExecRequest::shell(script)).await?.success());
    Ok(())
}

/// The content of a file that was copied to `path`, or into the folder there.
fn read_copy(path: &Path, name: &str) -> String {
    std::fs::read_to_string(path)
        .or_else(|_| std::fs::read_to_string(path.join(name)))
        .expect("the copy")
}

/// Files in a writable root are in the engine's storage until the sandbox ends.
fn writable_root(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start(launcher).await;
        let canaries = Canaries::new();
        let sandbox = engine.client().create(&spec().writable_root(true)).await?;
        use_every_channel(&sandbox, &canaries).await?;
        // The container's layer has the files at once.
        let running = canaries.found(&engine);
        assert!(!running.is_empty(), "the search does not include the layer");
        for line in &running {
            assert!(
                line.contains("/workspace/"),
                "not written by the code: {running:?}"
            );
        }
        sandbox.kill().await?;
        assert_eq!(canaries.found(&engine), BTreeSet::new());
        Ok(())
    })
}
