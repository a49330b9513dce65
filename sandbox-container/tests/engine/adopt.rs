//! Containers that somebody else has made, and sandboxes that become images.

use std::task::Poll;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptions, RemoveContainerOptions, RemoveImageOptions,
};
use libtest_mimic::Failed;
use sandbox_core::{
    Capability, CapabilityPolicy, ErrorKind, ExecRequest, Outcome, SandboxClient, unique_name,
};

use crate::family::Backend;
use crate::suite::Test;
use crate::suite::engine::{BUSYBOX, SCRATCH, api, client_of, config, output, run, shell, spec};

pub const TESTS: &[Test] = &[
    (
        "adopt::a_foreign_container_is_entered_and_left_as_it_was",
        entered,
    ),
    ("adopt::the_gate_stands_before_a_foreign_container", gate),
    ("adopt::what_was_started_there_ends_with_the_handle", ends),
    (
        "adopt::a_container_that_is_not_there_or_does_not_run_is_told",
        not_there,
    ),
    ("adopt::a_read_only_root_cannot_be_entered", read_only),
    (
        "adopt::an_interrupted_adoption_leaves_nothing_there",
        interrupted,
    ),
    (
        "commit::what_code_wrote_is_in_a_new_image_and_nothing_of_ours",
        committed,
    ),
    ("commit::no_name_is_taken_from_another_image", taken),
    ("commit::the_agent_goes_on_afterwards", goes_on),
];

pub fn no_network() -> HostConfig {
    HostConfig {
        network_mode: Some("none".into()),
        ..HostConfig::default()
    }
}

/// A container that is nobody's sandbox, and is removed with this value.
pub struct Foreign {
    pub name: String,
}

impl Foreign {
    pub async fn start(image: &str, command: &[&str], host: HostConfig) -> Self {
        let name = unique_name("foreign");
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(command.iter().map(|&part| part.to_owned()).collect()),
            cmd: Some(Vec::new()),
            env: Some(vec!["THEIRS=1".to_owned()]),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions {
            name: Some(name.clone()),
            ..CreateContainerOptions::default()
        };
        let engine = api();
        engine
            .create_container(Some(options), body)
            .await
            .expect("container");
        engine.start_container(&name, None).await.expect("started");
        Self { name }
    }

    async fn busybox(command: &[&str]) -> Self {
        Self::start(BUSYBOX, command, no_network()).await
    }

    async fn changes(&self) -> Vec<String> {
        let changes = api().container_changes(&self.name).await.expect("changes");
        changes
            .into_iter()
            .flatten()
            .map(|change| change.path)
            .collect()
    }

    async fn is_running(&self) -> bool {
        let found = match api().inspect_container(&self.name, None).await {
            // Podman's state of one that has ended and is not cleaned up yet, which Docker's API does not know.
            Err(Error::JsonDataError { message, .. }) if message.contains("`stopped`") => {
                return false;
            }
            found => found.expect("container"),
        };
        found.state.and_then(|state| state.running) == Some(true)
    }

    pub async fn remove(self) {
        let options = RemoveContainerOptions {
            force: true,
            ..RemoveContainerOptions::default()
        };
        api()
            .remove_container(&self.name, Some(options))
            .await
            .expect("removed");
    }
}

/// A client that accepts what no foreign container can hold.
pub fn accepting(more: &[Capability]) -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    policy.allow_partial = vec![Capability::EnvVarAccess, Capability::Processes];
    policy.allow_unenforced = more.to_vec();
    client_of(Backend::new(config()), policy)
}

fn entered() -> Result<(), Failed> {
    run(async {
        let theirs = Foreign::busybox(&["/bin/sleep", "300"]).await;
        let before = theirs.changes().await;
        let sandbox = accepting(&[]).adopt(&theirs.name, &spec()).await?;
        assert_eq!(
            theirs.changes().await,
            before,
            "the agent's program is gone"
        );
        // As the container's user, without its capabilities and its variables.
        assert_eq!(
            output(&sandbox, "id -u; pwd; echo ${THEIRS-none}").await?,
            "0\n/\nnone\n"
        );
        let status = output(&sandbox, "cat /proc/self/status").await?;
        for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{line} in {status}");
        }
        sandbox
            .put("/tmp/file", 0o644, Box::new(&b"content"[..]))
            .await?;
        assert_eq!(sandbox.fetch("/tmp/file", 100).await?, b"content");
        let failed = sandbox.exec(&ExecRequest::shell("exit 7")).await?;
        assert_eq!(failed.exit_code(), Some(7));
        let late = ExecRequest::shell("sleep 60").timeout(Duration::from_millis(300));
        assert_eq!(sandbox.exec(&late).await?.outcome, Outcome::TimedOut);
        sandbox.stop().await?;
        assert!(theirs.is_running().await, "never stopped");
        let left = theirs.changes().await;
        assert!(left.iter().all(|path| !path.contains("agent")), "{left:?}");
        theirs.remove().await;
        Ok(())
    })
}

/// Drops a future after it has been polled this often; gives its result where it was ready before.
async fn at_most<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

fn interrupted() -> Result<(), Failed> {
    run(async {
        let theirs = Foreign::busybox(&["/bin/sleep", "300"]).await;
        let before = theirs.changes().await;
        let client = accepting(&[]);
        // Its engine is found before, so that the attempts are interrupted where they differ.
        client.adopt(&theirs.name, &spec()).await?.kill().await?;
        let mut whole = false;
        for polls in 0..MOST_POLLS {
            let spec = spec();
            let adopted = at_most(polls, client.adopt(&theirs.name, &spec)).await;
            client.settle().await;
            assert_eq!(theirs.changes().await, before, "after {polls} polls");
            if let Some(adopted) = adopted {
                adopted?.kill().await?;
                whole = true;
                break;
            }
        }
        assert!(whole, "no adoption was whole after {MOST_POLLS} polls");
        theirs.remove().await;
        Ok(())
    })
}

/// More than an adoption takes.
const MOST_POLLS: usize = 200;

fn gate() -> Result<(), Failed> {
    run(async {
        let host = HostConfig {
            binds: Some(vec!["/usr:/host:ro".into()]),
            ..HostConfig::default()
        };
        let theirs = Foreign::start(BUSYBOX, &["/bin/sleep", "300"], host).await;
        let plain = client_of(Backend::new(config()), CapabilityPolicy::new());
        let error = plain
            .adopt(&theirs.name, &spec())
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let mut unmet = error
            .unmet()
            .iter()
            .map(|unmet| unmet.demand.capability)
            .collect::<Vec<_>>();
        unmet.sort();
        use Capability::*;
        assert_eq!(
            unmet,
            [FilesystemReadRoots, NetworkAccess, EnvVarAccess, Processes]
        );
        assert!(error.to_string().contains("/usr of the host"), "{error}");
        let client = accepting(&[FilesystemReadRoots, NetworkAccess]);
        let sandbox = client.adopt(&theirs.name, &spec()).await?;
        assert_eq!(
            sandbox.enforcement().get(Memory).map(|e| e.status()),
            Some("unenforced")
        );
        sandbox.kill().await?;
        // Nothing was put where it was refused, and a demand that was written is required there as well.
        let limited = spec().memory(sandbox_core::ByteSize::mib(64));
        let error = client
            .adopt(&theirs.name, &limited)
            .await
            .expect_err("no limit");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let mut policy = CapabilityPolicy::new();
        policy.images = Some(vec!["python:*".into()]);
        let listed = client_of(Backend::new(config()), policy);
        let error = listed
            .adopt(&theirs.name, &spec())
            .await
            .expect_err("another image");
        assert_eq!(error.kind(), ErrorKind::PolicyExceeded, "{error}");
        theirs.remove().await;
        Ok(())
    })
}

fn ends() -> Result<(), Failed> {
    run(async {
        let theirs = Foreign::busybox(&["/bin/sleep", "300"]).await;
        let client = accepting(&[]);
        let sandbox = client.adopt(&theirs.name, &spec()).await?;
        let started = sandbox
            .start(
                &ExecRequest::shell("exec sleep 287"),
                sandbox_core::Stdin::Null,
            )
            .await?;
        let other = client.adopt(&theirs.name, &spec()).await?;
        let runs = "ps | grep -c '[s]leep 287'";
        assert_eq!(shell(&other, runs).await?.stdout_text(), "1\n");
        drop(started);
        drop(sandbox);
        let mut left = String::new();
        for _ in 0..100 {
            left = shell(&other, runs).await?.stdout_text();
            if left == "0\n" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(left, "0\n", "still there after 5 s");
        // The container's end is the sandbox's.
        theirs.remove().await;
        let error = other.exec(&ExecRequest::shell("true")).await;
        let ended = match error {
            Err(error) => error.kind() == ErrorKind::SandboxEnded,
            Ok(result) => matches!(result.outcome, Outcome::Unknown { .. }),
        };
        assert!(ended);
        other.kill().await
    })
}

fn not_there() -> Result<(), Failed> {
    run(async {
        let client = accepting(&[]);
        let error = client
            .adopt("no-such-container", &spec())
            .await
            .expect_err("none");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        for bad in ["", "../images", "a b", "-x"] {
            let error = client.adopt(bad, &spec()).await.expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        }
        let theirs = Foreign::busybox(&["/bin/true"]).await;
        for _ in 0..100 {
            if !theirs.is_running().await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let error = client
            .adopt(&theirs.name, &spec())
            .await
            .expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        theirs.remove().await;
        let ours = client.create(&spec()).await?;
        let name = format!("sandbox-{}", ours.name());
        let error = client.adopt(&name, &spec()).await.expect_err("ours");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        ours.kill().await
    })
}

fn read_only() -> Result<(), Failed> {
    run(async {
        let host = HostConfig {
            network_mode: Some("none".into()),
            readonly_rootfs: Some(true),
            ..HostConfig::default()
        };
        let theirs = Foreign::start(BUSYBOX, &["/bin/sleep", "300"], host).await;
        let error = accepting(&[])
            .adopt(&theirs.name, &spec())
            .await
            .expect_err("read-only");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        theirs.remove().await;
        Ok(())
    })
}

async fn remove_image(name: &str) {
    let engine = api();
    let removed = engine.remove_image(name, None::<RemoveImageOptions>, None);
    removed.await.expect("the image");
}

fn committed() -> Result<(), Failed> {
    run(async {
        let client = client_of(Backend::new(config()), CapabilityPolicy::new());
        let asked = spec()
            .writable_root(true)
            .env("OURS", "1")
            .label("team", "x");
        let sandbox = client.create(&asked).await?;
        let disk = sandbox
            .enforcement()
            .get(Capability::Disk)
            .expect("an entry");
        assert_eq!(disk.status(), "partial", "{disk}");
        // The code is an ordinary user: its folder is its own, and the image's files are root's.
        let script = "echo kept > file; echo gone > /tmp/file; echo x > /etc/passwd; id -u";
        assert_eq!(output(&sandbox, script).await?, "1000\n");
        let tag = format!("sandbox-test/{}:1", unique_name("committed"));
        let image = sandbox.commit(&tag).await?;
        assert_eq!(image.names, [format!("docker.io/{tag}")]);
        sandbox.kill().await?;
        let engine = api();
        let made = engine.inspect_image(&tag).await.expect("image");
        let base = engine.inspect_image(BUSYBOX).await.expect("image");
        assert_eq!(
            made.config, base.config,
            "configured like the image it comes from"
        );
        let text = format!("{made:?}");
        for ours in ["sandbox.tier", "OURS", "stdio", "sandbox-agent"] {
            assert!(!text.contains(ours), "{ours} in {text}");
        }
        let again = client.create(&spec().image(&tag)).await?;
        assert_eq!(shell(&again, "ls /tmp/file").await?.exit_code(), Some(1));
        again.kill().await?;
        // The work folder is a place of the sandbox's own again; a container shows what is in the image.
        let theirs = Foreign::start(&tag, &["/bin/sleep", "300"], no_network()).await;
        let all = accepting(&[Capability::NetworkAccess]);
        let sandbox = all.adopt(&theirs.name, &spec()).await?;
        assert_eq!(output(&sandbox, "cat /workspace/file").await?, "kept\n");
        sandbox.kill().await?;
        theirs.remove().await;
        remove_image(&tag).await;
        let dangling = std::collections::HashMap::from([
            ("dangling".to_owned(), vec!["true".to_owned()]),
            ("label".to_owned(), vec!["sandbox.passing".to_owned()]),
        ]);
        let options = bollard::query_parameters::ListImagesOptions {
            filters: Some(dangling),
            ..Default::default()
        };
        // Podman gives no list while an image of another test is being removed.
        let mut left = engine.list_images(Some(options.clone())).await;
        for _ in 0..100 {
            if left.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            left = engine.list_images(Some(options.clone())).await;
        }
        let left = left.expect("images");
        // Another test may be in the middle of a commit.
        assert!(left.iter().all(|other| other.id != image.id), "{left:?}");
        Ok(())
    })
}

fn taken() -> Result<(), Failed> {
    run(async {
        let client = client_of(Backend::new(config()), CapabilityPolicy::new());
        let sandbox = client.create(&spec().writable_root(true)).await?;
        for name in [BUSYBOX, SCRATCH, "docker.io/sandbox-test/busybox"] {
            let error = sandbox.commit(name).await.expect_err(name);
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        }
        sandbox.kill().await?;
        let error = sandbox
            .commit("sandbox-test/never:1")
            .await
            .expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        let plain = client.create(&spec()).await?;
        let error = plain
            .commit("sandbox-test/never:1")
            .await
            .expect_err("read-only");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        plain.kill().await
    })
}

fn goes_on() -> Result<(), Failed> {
    run(async {
        let client = client_of(Backend::new(config()), CapabilityPolicy::new());
        let sandbox = client.create(&spec().writable_root(true).user("0")).await?;
        // Not beneath the root itself, which is not writable on Podman. Large enough that an agent which stood still meanwhile would be noticed, and files of many kinds.
        let script = "dd if=/dev/zero of=/etc/big bs=1M count=64 2>/dev/null; ln -s big /etc/link; \
                      mkdir /etc/ünï; : > /etc/ünï/empty; chmod 750 /etc/ünï; rm /bin/vi";
        output(&sandbox, script).await?;
        let tag = format!("sandbox-test/{}:1", unique_name("goes-on"));
        sandbox.commit(&tag).await?;
        assert_eq!(output(&sandbox, "echo on").await?, "on\n");
        sandbox.kill().await?;
        let again = client.create(&spec().image(&tag).user("0")).await?;
        let script = "stat -c '%s %a' /etc/big /etc/ünï/empty; stat -c %a /etc/ünï; readlink /etc/link; ls /bin/vi";
        let seen = shell(&again, script).await?.stdout_text();
        assert_eq!(seen, "67108864 644\n0 644\n750\nbig\n", "{seen}");
        again.kill().await?;
        remove_image(&tag).await;
        Ok(())
    })
}
