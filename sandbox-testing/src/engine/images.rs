//! Images: pulling from a registry on loopback, committing, listing and removing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::query_parameters::{PushImageOptions, RemoveImageOptions, TagImageOptions};
use futures_util::StreamExt;
use sandbox_container::ContainerConfig;
use sandbox_core::spi::unique_name;
use sandbox_core::{
    CapabilityPolicy, ErrorKind, ImageEvent, ImageRetention, PullPolicy, SandboxClient,
};

use super::registry::{Registry, free_port};
use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, TestResult, output, run};
use crate::wait::wait_until_async;

/// Tests that need a registry.
pub const WITH_REGISTRY: &[EngineTest] = &[
    (
        "images::an_image_is_pulled_when_it_is_missing",
        pulled_when_missing,
    ),
    ("images::always_follows_a_tag_that_has_moved", follows_a_tag),
    ("images::a_digest_pins_the_image", pinned),
    ("images::failed_pulls_have_distinct_errors", failures),
    (
        "images::credentials_of_the_client_are_used_and_not_shown",
        credentials,
    ),
    (
        "images::a_pulled_image_is_removed_with_its_sandbox",
        goes_with_the_sandbox,
    ),
];

/// Tests that need no registry.
pub const TESTS: &[EngineTest] = &[
    ("images::a_missing_registry_is_an_error", no_registry),
    ("images::a_silent_registry_is_an_error", silent_registry),
    ("images::only_images_of_the_policy_are_used", allowed),
    ("images::the_first_digits_of_an_id_are_no_name", digits),
];

/// A unique name in this registry.
fn name_in(registry: &Registry) -> String {
    format!("{}/test/{}", registry.address, unique_name("image"))
}

async fn tag(engine: &'static TestEngine, image: &str, name: &str, tag: &str) {
    let options = TagImageOptions {
        repo: Some(name.to_owned()),
        tag: Some(tag.to_owned()),
    };
    engine
        .api()
        .tag_image(image, Some(options))
        .await
        .expect("tag");
}

async fn untag(engine: &'static TestEngine, name: &str) {
    let api = engine.api();
    let removed = api.remove_image(name, None::<RemoveImageOptions>, None);
    removed.await.expect("removed");
}

/// Pushes an image under this name, and removes the name from the engine.
async fn push(engine: &'static TestEngine, image: &str, name: &str, version: &str) {
    tag(engine, image, name, version).await;
    let options = PushImageOptions {
        tag: Some(version.to_owned()),
        ..PushImageOptions::default()
    };
    let user = DockerCredentials {
        username: Some("u".into()),
        password: Some("pw".into()),
        ..DockerCredentials::default()
    };
    let api = engine.api();
    let mut pushed = Box::pin(api.push_image(name, Some(options), Some(user)));
    while let Some(event) = pushed.next().await {
        event.expect("pushed");
    }
    untag(engine, &format!("{name}:{version}")).await;
}

/// Commits a unique image from busybox with one more file, and returns its ID. [`untag`] removes
/// it.
async fn own_image(engine: &'static TestEngine, mark: &str) -> String {
    let client = engine.client(CapabilityPolicy::new());
    let sandbox = client
        .create(&engine.spec().writable_root(true).user("0"))
        .await
        .expect("sandbox");
    output(&sandbox, &format!("echo {mark} > /etc/mark"))
        .await
        .expect("written");
    let name = format!("sandbox-test/{}:own", unique_name("own"));
    let image = sandbox.commit(&name).await.expect("committed");
    sandbox.kill().await.expect("killed");
    assert_eq!(image.names, [format!("docker.io/{name}")]);
    name
}

fn puller(engine: &'static TestEngine, pull: PullPolicy) -> SandboxClient {
    engine.client_with(engine.config().pull(pull), CapabilityPolicy::new())
}

async fn has(engine: &'static TestEngine, image: &str) -> bool {
    engine.image(image).await.is_some()
}

fn pulled_when_missing(engine: &'static TestEngine) -> TestResult {
    run(async {
        let registry = Registry::open(engine);
        let name = name_in(&registry);
        let own = own_image(engine, "missing").await;
        push(engine, &own, &name, "1").await;
        untag(engine, &own).await;
        let image = format!("{name}:1");
        let never = puller(engine, PullPolicy::Never)
            .create(&engine.spec().image(&image))
            .await;
        let error = never.expect_err("not there");
        assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error}");
        assert!(
            error
                .fix()
                .is_some_and(|fix| fix.contains("--pull missing")),
            "{error}"
        );

        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let client = puller(engine, PullPolicy::Never);
        let missing = engine.spec().image(&image).pull(PullPolicy::Missing);
        let sandbox = client
            .create_with_progress(&missing, &mut move |event| {
                seen.lock().expect("events").push(event.clone());
            })
            .await?;
        assert_eq!(output(&sandbox, "cat /etc/mark").await?, "missing\n");
        sandbox.kill().await?;
        assert!(has(engine, &image).await, "kept by default");
        let events = std::mem::take(&mut *events.lock().expect("events"));
        assert!(
            matches!(&events[0], ImageEvent::Pulling { reference } if *reference == image),
            "{events:?}"
        );
        assert!(
            events
                .iter()
                .any(|event| matches!(event, ImageEvent::Layer { .. })),
            "{events:?}"
        );
        // The image exists, so the registry is not contacted.
        drop(registry);
        let silent = &mut |event: &ImageEvent| panic!("{event:?}");
        let again = client.create_with_progress(&missing, silent).await?;
        again.kill().await?;
        untag(engine, &image).await;
        Ok(())
    })
}

fn follows_a_tag(engine: &'static TestEngine) -> TestResult {
    run(async {
        let registry = Registry::open(engine);
        let name = name_in(&registry);
        let (old, new) = (
            own_image(engine, "old").await,
            own_image(engine, "new").await,
        );
        push(engine, &old, &name, "1").await;
        let image = format!("{name}:1");
        let client = puller(engine, PullPolicy::Missing);
        let mark = async |pull| {
            let sandbox = client
                .create(&engine.spec().image(&image).pull(pull))
                .await?;
            let mark = output(&sandbox, "cat /etc/mark").await?;
            sandbox.kill().await?;
            Ok::<_, sandbox_core::Error>(mark)
        };
        assert_eq!(mark(PullPolicy::Missing).await?, "old\n");
        tag(engine, &image, &name, "kept").await;
        push(engine, &new, &name, "1").await;
        tag(engine, &format!("{name}:kept"), &name, "1").await;
        assert_eq!(mark(PullPolicy::Missing).await?, "old\n");
        assert_eq!(mark(PullPolicy::Always).await?, "new\n");
        for name in [image, format!("{name}:kept"), old, new] {
            untag(engine, &name).await;
        }
        Ok(())
    })
}

fn pinned(engine: &'static TestEngine) -> TestResult {
    run(async {
        let registry = Registry::open(engine);
        let name = name_in(&registry);
        let own = own_image(engine, "pinned").await;
        push(engine, &own, &name, "1").await;
        // Podman lists every digest that it has for an image, also those that no registry has.
        untag(engine, &own).await;
        let client = puller(engine, PullPolicy::Missing);
        let silent = &mut |_: &ImageEvent| {};
        let pulled = client
            .pull_image(&format!("{name}:1"), PullPolicy::Always, silent)
            .await?;
        let digest = pulled
            .digests
            .iter()
            .find(|digest| digest.starts_with(&name));
        let digest = digest.expect("a digest").clone();
        untag(engine, &format!("{name}:1")).await;
        let sandbox = client.create(&engine.spec().image(&digest)).await?;
        assert_eq!(output(&sandbox, "cat /etc/mark").await?, "pinned\n");
        sandbox.kill().await?;
        // A tag next to a digest is ignored, also where it does not exist.
        let (_, hash) = digest.split_once('@').expect("a digest");
        let sandbox = client
            .create(&engine.spec().image(format!("{name}:no@{hash}")))
            .await?;
        sandbox.kill().await?;
        let wrong = format!("{name}@sha256:{}", "0".repeat(64));
        let error = client
            .create(&engine.spec().image(wrong))
            .await
            .expect_err("no such digest");
        assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error}");
        // An image of another repository with this digest is not accepted.
        let wrong = format!("{name}-other@{hash}");
        let never = puller(engine, PullPolicy::Never)
            .create(&engine.spec().image(wrong))
            .await;
        assert_eq!(never.expect_err("another").kind(), ErrorKind::ImageNotFound);
        untag(engine, &digest).await;
        Ok(())
    })
}

async fn failure(
    engine: &'static TestEngine,
    client: &SandboxClient,
    image: &str,
) -> sandbox_core::Error {
    let failed = client.create(&engine.spec().image(image)).await;
    let error = failed.expect_err("no image");
    assert!(error.to_string().contains(image), "{error}");
    assert!(error.fix().is_some(), "{error}");
    error
}

fn failures(engine: &'static TestEngine) -> TestResult {
    run(async {
        let (open, private) = (Registry::open(engine), Registry::private(engine));
        let (name, hidden) = (name_in(&open), name_in(&private));
        push(engine, BUSYBOX, &name, "1").await;
        push(engine, BUSYBOX, &hidden, "1").await;
        let client = puller(engine, PullPolicy::Always);
        for (image, kind) in [
            (format!("{name}:2"), ErrorKind::ImageNotFound),
            (format!("{name}-other:1"), ErrorKind::ImageNotFound),
            (format!("{hidden}:1"), ErrorKind::ImageDenied),
        ] {
            let error = failure(engine, &client, &image).await;
            assert_eq!(error.kind(), kind, "{error}");
        }
        Ok(())
    })
}

fn credentials(engine: &'static TestEngine) -> TestResult {
    // Credentials come from the environment, so a separate process pulls.
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let registry = Registry::private(engine);
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let config = format!(
        r#"{{"auths":{{"{}":{{"auth":"dTpwdw=="}}}}}}"#,
        registry.address
    );
    std::fs::create_dir(home.path().join(".docker")).map_err(|error| error.to_string())?;
    std::fs::write(home.path().join(".docker/config.json"), config)
        .map_err(|error| error.to_string())?;
    let name = name_in(&registry);
    run(async {
        push(engine, BUSYBOX, &name, "1").await;
        Ok(())
    })?;
    let pull = |home: &std::path::Path| {
        let child = std::process::Command::new(&program)
            .env("HOME", home)
            .env_remove("DOCKER_CONFIG")
            .env_remove("REGISTRY_AUTH_FILE")
            .env_remove("XDG_RUNTIME_DIR")
            .env(PULL, format!("{name}:1"))
            .output()
            .expect("this program");
        (
            child.status.success(),
            String::from_utf8_lossy(&child.stdout).into_owned(),
        )
    };
    let (ok, printed) = pull(home.path());
    assert!(ok, "{printed}");
    assert!(
        !printed.contains("pw") && !printed.contains("dTpwdw"),
        "{printed}"
    );
    run(async {
        untag(engine, &format!("{name}:1")).await;
        Ok(())
    })?;
    let (ok, printed) = pull(std::path::Path::new("/nonexistent"));
    assert!(!ok && printed.contains("image_denied"), "{printed}");
    Ok(())
}

/// The image that a process of [`credentials`] pulls.
const PULL: &str = "SANDBOX_TEST_PULL";

/// Pulls an image, where this process was started for that, and returns the exit code.
pub fn pull_if_asked(engine: &'static TestEngine) -> Option<std::process::ExitCode> {
    let image = std::env::var(PULL).ok()?;
    let pulled = run(async move {
        let client = puller(engine, PullPolicy::Always);
        let pulled = client
            .pull_image(&image, PullPolicy::Always, &mut |_| {})
            .await;
        // Prints everything that a user could see.
        println!("{:?} {:?}", pulled, ContainerConfig::default());
        if let Err(error) = &pulled {
            println!("{} {error}", error.kind().as_str());
        }
        pulled.map(drop)
    });
    Some(match pulled {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    })
}

fn goes_with_the_sandbox(engine: &'static TestEngine) -> TestResult {
    run(async {
        let registry = Registry::open(engine);
        let name = name_in(&registry);
        let own = own_image(engine, "goes").await;
        push(engine, &own, &name, "1").await;
        untag(engine, &own).await;
        let image = format!("{name}:1");
        let goes = || {
            engine
                .spec()
                .image(&image)
                .image_retention(ImageRetention::Remove)
        };
        let client = puller(engine, PullPolicy::Missing);
        let (first, second) = (client.create(&goes()).await?, client.create(&goes()).await?);
        first.kill().await?;
        assert!(has(engine, &image).await, "another sandbox uses it");
        second.kill().await?;
        assert!(!has(engine, &image).await, "no sandbox uses it");
        // Dropping the handle removes it as well.
        drop(client.create(&goes()).await?);
        wait_until_async(
            "the image is removed",
            Duration::from_secs(30),
            async || !has(engine, &image).await,
        )
        .await;
        // A detached sandbox's image is removed by the client that ends the sandbox.
        let state = tempfile::tempdir().expect("temporary folder");
        let keeper = || {
            let config = engine.config().pull(PullPolicy::Missing);
            let config = config.state_folder(state.path().join("state"));
            engine.client_with(config, CapabilityPolicy::new())
        };
        let kept = goes().detached(true).lifetime(Duration::from_secs(120));
        drop(keeper().create(&kept).await?);
        assert!(has(engine, &image).await, "its sandbox lives");
        keeper().remove(&kept.name).await?;
        assert!(!has(engine, &image).await, "its sandbox was removed");
        // An image that existed before is kept.
        let silent = &mut |_: &ImageEvent| {};
        puller(engine, PullPolicy::Never)
            .pull_image(&image, PullPolicy::Missing, silent)
            .await?;
        puller(engine, PullPolicy::Missing)
            .create(&goes())
            .await?
            .kill()
            .await?;
        assert!(has(engine, &image).await, "it was there before");
        untag(engine, &image).await;
        Ok(())
    })
}

fn no_registry(engine: &'static TestEngine) -> TestResult {
    run(async {
        let image = format!("127.0.0.1:{}/nothing:1", free_port());
        let error = failure(engine, &puller(engine, PullPolicy::Missing), &image).await;
        assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
        Ok(())
    })
}

fn silent_registry(engine: &'static TestEngine) -> TestResult {
    run(async {
        // Accepts connections in its queue and never answers.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("address");
        let config = engine
            .config()
            .pull(PullPolicy::Missing)
            .image_timeout(Duration::from_secs(2));
        let client = engine.client_with(config, CapabilityPolicy::new());
        let error = failure(engine, &client, &format!("{address}/nothing:1")).await;
        assert_eq!(error.kind(), ErrorKind::ImageTimedOut, "{error}");
        Ok(())
    })
}

fn allowed(engine: &'static TestEngine) -> TestResult {
    run(async {
        let policy = |images: &[&str]| {
            let mut policy = CapabilityPolicy::new();
            policy.images = Some(images.iter().map(|&image| image.to_owned()).collect());
            policy
        };
        let client = |images| engine.client(policy(images));
        let busybox = client(&["sandbox-test/*:*"]);
        busybox.create(&engine.spec()).await?.kill().await?;
        busybox
            .create(&engine.spec().image(BUSYBOX))
            .await?
            .kill()
            .await?;
        // The default image counts as well.
        let error = client(&["python:*"])
            .create(&engine.spec())
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::PolicyExceeded, "{error}");
        assert!(error.to_string().contains("python:*"), "{error}");
        // An image that is not allowed is not pulled.
        let asked = engine
            .spec()
            .image("127.0.0.1:1/x")
            .pull(PullPolicy::Always);
        let error = busybox.create(&asked).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::PolicyExceeded, "{error}");
        Ok(())
    })
}

fn digits(engine: &'static TestEngine) -> TestResult {
    run(async {
        let image = engine.image(BUSYBOX).await.expect("image");
        let id = image.id.expect("id");
        let client = engine.client(CapabilityPolicy::new());
        client
            .create(&engine.spec().image(&id))
            .await?
            .kill()
            .await?;
        let digits = id.strip_prefix("sha256:").expect("an id");
        client
            .create(&engine.spec().image(&digits[..12]))
            .await?
            .kill()
            .await?;
        // Fewer digits are a name, which the engine would take for an ID.
        let error = client
            .create(&engine.spec().image(&digits[..8]))
            .await
            .expect_err("a name");
        assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error}");
        Ok(())
    })
}
