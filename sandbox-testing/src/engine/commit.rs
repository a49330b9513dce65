//! Sandboxes that become images.

use std::path::Path;

use bollard::query_parameters::RemoveImageOptions;
use sandbox_core::spi::unique_name;
use sandbox_core::{Capability, CapabilityPolicy, ErrorKind};

use super::adopt::{ContainerFixture, accepting, no_network};
use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, SCRATCH, TestResult, output, run, shell};
use crate::engine_api;

pub const TESTS: &[EngineTest] = &[
    (
        "commit::an_image_has_the_codes_files_and_nothing_of_the_agent",
        committed,
    ),
    ("commit::no_name_is_taken_from_another_image", taken),
    ("commit::the_agent_keeps_running", goes_on),
];

async fn remove_image(engine: &'static TestEngine, name: &str) {
    let api = engine.api();
    let removed = api.remove_image(name, None::<RemoveImageOptions>, None);
    removed.await.expect("the image");
}

fn committed(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = engine.client(CapabilityPolicy::new());
        let asked = engine
            .spec()
            .writable_root(true)
            .env("OURS", "1")
            .label("team", "x");
        let sandbox = client.create(&asked).await?;
        let disk = sandbox
            .enforcement()
            .get(Capability::Disk)
            .expect("an entry");
        assert_eq!(disk.status(), "partial", "{disk}");
        // The code's user owns its folder, and root owns the image's files.
        let script = "echo kept > file; echo gone > /tmp/file; echo x > /etc/passwd; id -u";
        assert_eq!(output(&sandbox, script).await?, "1000\n");
        let tag = format!("sandbox-test/{}:1", unique_name("committed"));
        let image = sandbox.commit(&tag).await?;
        assert_eq!(image.names, [format!("docker.io/{tag}")]);
        sandbox.kill().await?;
        let made = engine.image(&tag).await.expect("image");
        let base = engine.image(BUSYBOX).await.expect("image");
        assert_eq!(
            made.config, base.config,
            "configured like the image it comes from"
        );
        let text = format!("{made:?}");
        for trace in ["sandbox.tier", "OURS", "stdio", "sandbox-agent"] {
            assert!(!text.contains(trace), "{trace} in {text}");
        }
        let again = client.create(&engine.spec().image(&tag)).await?;
        assert_eq!(shell(&again, "ls /tmp/file").await?.exit_code(), Some(1));
        again.kill().await?;
        // In a sandbox, the work folder hides the image's. A plain container shows the image's.
        let foreign =
            ContainerFixture::start(engine, &tag, &["/bin/sleep", "300"], no_network()).await;
        let all = accepting(engine, &[Capability::NetworkAccess]);
        let sandbox = all.adopt(&foreign.name, &engine.spec()).await?;
        assert_eq!(output(&sandbox, "cat /workspace/file").await?, "kept\n");
        sandbox.kill().await?;
        foreign.remove().await;
        remove_image(engine, &tag).await;
        // Untagged images with the label: {"dangling":["true"],"label":["sandbox.passing"]}.
        let path = "/images/json?filters=%7B%22dangling%22%3A%5B%22true%22%5D%2C\
                    %22label%22%3A%5B%22sandbox.passing%22%5D%7D";
        let left = engine_api::list(Path::new(&engine.socket()), path);
        let left = left.as_array().expect("images");
        // Another test may be committing an image.
        assert!(
            left.iter().all(|other| other["Id"] != image.id.as_str()),
            "{left:?}"
        );
        Ok(())
    })
}

fn taken(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = engine.client(CapabilityPolicy::new());
        let sandbox = client.create(&engine.spec().writable_root(true)).await?;
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
        let plain = client.create(&engine.spec()).await?;
        let error = plain
            .commit("sandbox-test/never:1")
            .await
            .expect_err("read-only");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        plain.kill().await
    })
}

fn goes_on(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = engine.client(CapabilityPolicy::new());
        let sandbox = client
            .create(&engine.spec().writable_root(true).user("0"))
            .await?;
        // Not directly in `/`, which is not writable on Podman. Large enough that an agent that is
        // stopped meanwhile is noticed, with files of many kinds.
        let script = "dd if=/dev/zero of=/etc/big bs=1M count=64 2>/dev/null; ln -s big /etc/link; \
                      mkdir /etc/ünï; : > /etc/ünï/empty; chmod 750 /etc/ünï; rm /bin/vi";
        output(&sandbox, script).await?;
        let tag = format!("sandbox-test/{}:1", unique_name("goes-on"));
        sandbox.commit(&tag).await?;
        assert_eq!(output(&sandbox, "echo on").await?, "on\n");
        sandbox.kill().await?;
        let again = client.create(&engine.spec().image(&tag).user("0")).await?;
        let script = "stat -c '%s %a' /etc/big /etc/ünï/empty; stat -c %a /etc/ünï; readlink /etc/link; ls /bin/vi";
        let seen = shell(&again, script).await?.stdout_text();
        assert_eq!(seen, "67108864 644\n0 644\n750\nbig\n", "{seen}");
        again.kill().await?;
        remove_image(engine, &tag).await;
        Ok(())
    })
}
