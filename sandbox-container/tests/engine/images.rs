//! Images: pulled from a registry on the loopback, made, kept and removed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::query_parameters::{PushImageOptions, RemoveImageOptions, TagImageOptions};
use futures_util::StreamExt;
use libtest_mimic::Failed;
use sandbox_core::{
    CapabilityPolicy, ErrorKind, ImageEvent, ImageRetention, PullPolicy, SandboxClient, unique_name,
};

use crate::family::{Backend, Config};
use crate::suite::Test;
use crate::suite::engine::{BUSYBOX, api, client_of, config, output, run, spec};
use crate::suite::registry::{Registry, free_port};

/// Tests that need a registry.
pub const WITH_REGISTRY: &[Test] = &[
    (
        "images::an_image_is_pulled_when_it_is_missing",
        pulled_when_missing,
    ),
    ("images::always_follows_a_tag_that_has_moved", follows_a_tag),
    ("images::a_digest_pins_the_image", pinned),
    ("images::pulls_that_fail_are_told_apart", failures),
    (
        "images::credentials_of_the_client_are_used_and_not_shown",
        credentials,
    ),
    (
        "images::what_a_sandbox_brought_goes_with_it",
        goes_with_the_sandbox,
    ),
];

/// Tests that need none.
pub const TESTS: &[Test] = &[
    ("images::a_registry_that_is_not_there_is_told", no_registry),
    (
        "images::a_registry_that_never_answers_is_given_up",
        silent_registry,
    ),
    ("images::only_images_of_the_policy_are_used", allowed),
    ("images::an_ids_first_digits_are_no_name", digits),
];

/// A name in this registry that no other test has.
fn name_in(registry: &Registry) -> String {
    format!("{}/test/{}", registry.address, unique_name("image"))
}

async fn tag(image: &str, name: &str, tag: &str) {
    let options = TagImageOptions {
        repo: Some(name.to_owned()),
        tag: Some(tag.to_owned()),
    };
    api().tag_image(image, Some(options)).await.expect("tag");
}

async fn untag(name: &str) {
    let engine = api();
    let removed = engine.remove_image(name, None::<RemoveImageOptions>, None);
    removed.await.expect("removed");
}

/// Pushes an image under this name, which the engine then does not have any more.
async fn push(image: &str, name: &str, version: &str) {
    tag(image, name, version).await;
    let options = PushImageOptions {
        tag: Some(version.to_owned()),
        ..PushImageOptions::default()
    };
    let user = DockerCredentials {
        username: Some("u".into()),
        password: Some("pw".into()),
        ..DockerCredentials::default()
    };
    let engine = api();
    let mut pushed = Box::pin(engine.push_image(name, Some(options), Some(user)));
    while let Some(event) = pushed.next().await {
        event.expect("pushed");
    }
    untag(&format!("{name}:{version}")).await;
}

/// An image that nobody else has: made of busybox with a file of its own. Gives its id; removed by [`untag`].
async fn own_image(mark: &str) -> String {
    let client = client_of(Backend::new(config()), CapabilityPolicy::new());
    let sandbox = client
        .create(&spec().writable_root(true).user("0"))
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

fn puller(pull: PullPolicy) -> SandboxClient {
    client_of(Backend::new(config().pull(pull)), CapabilityPolicy::new())
}

async fn has(image: &str) -> bool {
    api().inspect_image(image).await.is_ok()
}

fn pulled_when_missing() -> Result<(), Failed> {
    run(async {
        let registry = Registry::open();
        let name = name_in(&registry);
        let own = own_image("missing").await;
        push(&own, &name, "1").await;
        untag(&own).await;
        let image = format!("{name}:1");
        let never = puller(PullPolicy::Never)
            .create(&spec().image(&image))
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
        let client = puller(PullPolicy::Never);
        let missing = spec().image(&image).pull(PullPolicy::Missing);
        let sandbox = client
            .create_with_progress(&missing, &mut move |event| {
                seen.lock().expect("events").push(event.clone());
            })
            .await?;
        assert_eq!(output(&sandbox, "cat /etc/mark").await?, "missing\n");
        sandbox.kill().await?;
        assert!(has(&image).await, "kept unless told otherwise");
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
        // There already: the registry is not even asked.
        drop(registry);
        let silent = &mut |event: &ImageEvent| panic!("{event:?}");
        let again = client.create_with_progress(&missing, silent).await?;
        again.kill().await?;
        untag(&image).await;
        Ok(())
    })
}

fn follows_a_tag() -> Result<(), Failed> {
    run(async {
        let registry = Registry::open();
        let name = name_in(&registry);
        let (old, new) = (own_image("old").await, own_image("new").await);
        push(&old, &name, "1").await;
        let image = format!("{name}:1");
        let client = puller(PullPolicy::Missing);
        let mark = async |pull| {
            let sandbox = client.create(&spec().image(&image).pull(pull)).await?;
            let mark = output(&sandbox, "cat /etc/mark").await?;
            sandbox.kill().await?;
            Ok::<_, sandbox_core::Error>(mark)
        };
        assert_eq!(mark(PullPolicy::Missing).await?, "old\n");
        tag(&image, &name, "kept").await;
        push(&new, &name, "1").await;
        tag(&format!("{name}:kept"), &name, "1").await;
        assert_eq!(mark(PullPolicy::Missing).await?, "old\n");
        assert_eq!(mark(PullPolicy::Always).await?, "new\n");
        for name in [image, format!("{name}:kept"), old, new] {
            untag(&name).await;
        }
        Ok(())
    })
}

fn pinned() -> Result<(), Failed> {
    run(async {
        let registry = Registry::open();
        let name = name_in(&registry);
        let own = own_image("pinned").await;
        push(&own, &name, "1").await;
        // Podman names each digest of an image that it knows, also one that no registry has.
        untag(&own).await;
        let client = puller(PullPolicy::Missing);
        let silent = &mut |_: &ImageEvent| {};
        let pulled = client
            .pull_image(&format!("{name}:1"), PullPolicy::Always, silent)
            .await?;
        let digest = pulled
            .digests
            .iter()
            .find(|digest| digest.starts_with(&name));
        let digest = digest.expect("a digest").clone();
        untag(&format!("{name}:1")).await;
        let sandbox = client.create(&spec().image(&digest)).await?;
        assert_eq!(output(&sandbox, "cat /etc/mark").await?, "pinned\n");
        sandbox.kill().await?;
        // The tag beside a digest says nothing, also where there is no such tag.
        let (_, hash) = digest.split_once('@').expect("a digest");
        let sandbox = client
            .create(&spec().image(format!("{name}:no@{hash}")))
            .await?;
        sandbox.kill().await?;
        let wrong = format!("{name}@sha256:{}", "0".repeat(64));
        let error = client
            .create(&spec().image(wrong))
            .await
            .expect_err("no such digest");
        assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error}");
        // The digest of another repository, which the engine has: nothing else passes for it.
        let wrong = format!("{name}-other@{hash}");
        let never = puller(PullPolicy::Never).create(&spec().image(wrong)).await;
        assert_eq!(never.expect_err("another").kind(), ErrorKind::ImageNotFound);
        untag(&digest).await;
        Ok(())
    })
}

async fn failure(client: &SandboxClient, image: &str) -> sandbox_core::Error {
    let failed = client.create(&spec().image(image)).await;
    let error = failed.expect_err("no image");
    assert!(error.to_string().contains(image), "{error}");
    assert!(error.fix().is_some(), "{error}");
    error
}

fn failures() -> Result<(), Failed> {
    run(async {
        let (open, private) = (Registry::open(), Registry::private());
        let (name, hidden) = (name_in(&open), name_in(&private));
        push(BUSYBOX, &name, "1").await;
        push(BUSYBOX, &hidden, "1").await;
        let client = puller(PullPolicy::Always);
        for (image, kind) in [
            (format!("{name}:2"), ErrorKind::ImageNotFound),
            (format!("{name}-other:1"), ErrorKind::ImageNotFound),
            (format!("{hidden}:1"), ErrorKind::ImageDenied),
        ] {
            let error = failure(&client, &image).await;
            assert_eq!(error.kind(), kind, "{error}");
        }
        Ok(())
    })
}

fn credentials() -> Result<(), Failed> {
    // Credentials are found through the environment: so in a process of their own.
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let registry = Registry::private();
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
        push(BUSYBOX, &name, "1").await;
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
    let (ok, said) = pull(home.path());
    assert!(ok, "{said}");
    assert!(!said.contains("pw") && !said.contains("dTpwdw"), "{said}");
    run(async {
        untag(&format!("{name}:1")).await;
        Ok(())
    })?;
    let (ok, said) = pull(std::path::Path::new("/nonexistent"));
    assert!(!ok && said.contains("image_denied"), "{said}");
    Ok(())
}

/// What a process of [`credentials`] is to pull.
const PULL: &str = "SANDBOX_TEST_PULL";

/// Pulls where this process was started for that; gives its exit code.
pub fn pull_if_asked() -> Option<std::process::ExitCode> {
    let image = std::env::var(PULL).ok()?;
    let pulled = run(async move {
        let client = puller(PullPolicy::Always);
        let pulled = client
            .pull_image(&image, PullPolicy::Always, &mut |_| {})
            .await;
        // Everything that could be shown.
        println!("{:?} {:?}", pulled, Config::default());
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

fn goes_with_the_sandbox() -> Result<(), Failed> {
    run(async {
        let registry = Registry::open();
        let name = name_in(&registry);
        let own = own_image("goes").await;
        push(&own, &name, "1").await;
        untag(&own).await;
        let image = format!("{name}:1");
        let goes = || spec().image(&image).image_retention(ImageRetention::Remove);
        let client = puller(PullPolicy::Missing);
        let (first, second) = (client.create(&goes()).await?, client.create(&goes()).await?);
        first.kill().await?;
        assert!(has(&image).await, "another sandbox uses it");
        second.kill().await?;
        assert!(!has(&image).await, "nobody uses it any more");
        // A handle that is dropped takes it along as well.
        drop(client.create(&goes()).await?);
        for _ in 0..1500 {
            if !has(&image).await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!has(&image).await, "still there after 30 s");
        // That of a detached one with whoever ends it.
        let state = tempfile::tempdir().expect("temporary folder");
        let keeper = || {
            let config = config().pull(PullPolicy::Missing);
            let config = config.state_folder(state.path().join("state"));
            client_of(Backend::new(config), CapabilityPolicy::new())
        };
        let kept = goes().detached(true).lifetime(Duration::from_secs(120));
        drop(keeper().create(&kept).await?);
        assert!(has(&image).await, "its sandbox lives");
        keeper().remove(&kept.name).await?;
        assert!(!has(&image).await, "its sandbox was removed");
        // What was there before stays.
        let silent = &mut |_: &ImageEvent| {};
        puller(PullPolicy::Never)
            .pull_image(&image, PullPolicy::Missing, silent)
            .await?;
        puller(PullPolicy::Missing)
            .create(&goes())
            .await?
            .kill()
            .await?;
        assert!(has(&image).await, "it was there before");
        untag(&image).await;
        Ok(())
    })
}

fn no_registry() -> Result<(), Failed> {
    run(async {
        let image = format!("127.0.0.1:{}/nothing:1", free_port());
        let error = failure(&puller(PullPolicy::Missing), &image).await;
        assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
        Ok(())
    })
}

fn silent_registry() -> Result<(), Failed> {
    run(async {
        // Takes connections, by its queue, and never answers.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("address");
        let config = config()
            .pull(PullPolicy::Missing)
            .image_timeout(Duration::from_secs(2));
        let client = client_of(Backend::new(config), CapabilityPolicy::new());
        let error = failure(&client, &format!("{address}/nothing:1")).await;
        assert_eq!(error.kind(), ErrorKind::ImageTimedOut, "{error}");
        Ok(())
    })
}

fn allowed() -> Result<(), Failed> {
    run(async {
        let policy = |images: &[&str]| {
            let mut policy = CapabilityPolicy::new();
            policy.images = Some(images.iter().map(|&image| image.to_owned()).collect());
            policy
        };
        let client = |images| client_of(Backend::new(config()), policy(images));
        let busybox = client(&["sandbox-test/*:*"]);
        busybox.create(&spec()).await?.kill().await?;
        busybox.create(&spec().image(BUSYBOX)).await?.kill().await?;
        // The image that is used where nobody names one counts, too.
        let error = client(&["python:*"])
            .create(&spec())
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::PolicyExceeded, "{error}");
        assert!(error.to_string().contains("python:*"), "{error}");
        // What is not allowed is not pulled either.
        let asked = spec().image("127.0.0.1:1/x").pull(PullPolicy::Always);
        let error = busybox.create(&asked).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::PolicyExceeded, "{error}");
        Ok(())
    })
}

fn digits() -> Result<(), Failed> {
    run(async {
        let image = api().inspect_image(BUSYBOX).await.expect("image");
        let id = image.id.expect("id");
        let client = client_of(Backend::new(config()), CapabilityPolicy::new());
        client.create(&spec().image(&id)).await?.kill().await?;
        let digits = id.strip_prefix("sha256:").expect("an id");
        client
            .create(&spec().image(&digits[..12]))
            .await?
            .kill()
            .await?;
        // Fewer digits are a name, and the engine would take them for the id.
        let error = client
            .create(&spec().image(&digits[..8]))
            .await
            .expect_err("a name");
        assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error}");
        Ok(())
    })
}
