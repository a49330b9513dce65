//! Images built from Dockerfiles.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bollard::query_parameters::RemoveImageOptions;
use sandbox_core::spi::unique_name;
use sandbox_core::{
    BuildRequest, CapabilityPolicy, Error, ErrorKind, ImageEvent, ImageInfo, ImageRetention,
    SandboxClient,
};

use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, TestResult, output, run};

pub const TESTS: &[EngineTest] = &[
    ("build::a_dockerfile_becomes_an_image", built),
    ("build::a_failed_step_reports_its_last_lines", failed),
    ("build::nothing_reaches_a_network", no_network),
    ("build::base_images_must_be_allowed_by_the_policy", bases),
    ("build::a_name_is_not_taken_from_another_image", names),
    ("build::a_built_image_is_removed_with_its_sandbox", goes),
    ("build::ignored_files_are_not_sent", ignored),
];

pub(super) fn context(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, content).expect("file");
    }
    folder
}

fn client(engine: &'static TestEngine) -> SandboxClient {
    engine.client(CapabilityPolicy::new())
}

pub(super) async fn build(
    engine: &'static TestEngine,
    request: &BuildRequest,
) -> Result<ImageInfo, Error> {
    client(engine).build_image(request, &mut |_| {}).await
}

async fn error_of(engine: &'static TestEngine, dockerfile: &str) -> Error {
    let folder = context(&[("Dockerfile", dockerfile)]);
    let built = build(engine, &BuildRequest::new(folder.path())).await;
    built.expect_err(dockerfile)
}

pub(super) async fn remove(engine: &'static TestEngine, name: &str) {
    let api = engine.api();
    let removed = api.remove_image(name, None::<RemoveImageOptions>, None);
    removed.await.expect("the image");
}

fn built(engine: &'static TestEngine) -> TestResult {
    run(async {
        let folder = context(&[
            (
                "sub/Recipe",
                "ARG BASE\nFROM ${BASE} AS first\nARG MARK\nRUN echo $MARK > /mark\n\
                FROM ${BASE} AS second\nCOPY --from=first /mark /mark\nCOPY ünï/ /data/\nRUN ip -o link | wc -l > /net\n\
                FROM scratch\nCOPY nothing /\n",
            ),
            ("ünï/empty", ""),
            ("ünï/file", "content"),
        ]);
        let tag = format!("sandbox-test/{}:1", unique_name("built"));
        let mark = unique_name("mark");
        let request = BuildRequest::new(folder.path())
            .dockerfile("sub/Recipe")
            .tag(&tag)
            .arg("BASE", BUSYBOX)
            .arg("MARK", &mark)
            .target("second");
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let image = client(engine)
            .build_image(&request, &mut move |event| {
                seen.lock().expect("events").push(event.clone());
            })
            .await?;
        assert!(image.built && image.brought, "{image:?}");
        assert_eq!(image.names, [format!("docker.io/{tag}")]);
        let events = std::mem::take(&mut *events.lock().expect("events"));
        assert_eq!(events.first(), Some(&ImageEvent::Building));
        let reported = events
            .iter()
            .any(|event| matches!(event, ImageEvent::Output { text } if text.contains("echo")));
        assert!(reported, "{events:?}");
        let sandbox = client(engine).create(&engine.spec().image(&tag)).await?;
        assert_eq!(
            output(&sandbox, "cat /mark; cat /net; ls /data").await?,
            format!("{mark}\n1\nempty\nfile\n")
        );
        sandbox.kill().await?;
        let listed = client(engine).images().await?;
        let listed = listed
            .iter()
            .find(|other| other.id == image.id)
            .expect("listed");
        assert!(listed.built && listed.names == image.names, "{listed:?}");
        // The same build again takes the image from the cache.
        let again = build(engine, &request).await?;
        assert_eq!((again.id, again.brought), (image.id, false));
        client(engine).remove_image(&tag).await?;
        let gone = client(engine).remove_image(&tag).await.expect_err("gone");
        assert_eq!(gone.kind(), ErrorKind::ImageNotFound, "{gone}");
        Ok(())
    })
}

fn failed(engine: &'static TestEngine) -> TestResult {
    run(async {
        let error = error_of(
            engine,
            &format!("FROM {BUSYBOX}\nRUN echo before\nRUN echo why; echo more >&2; exit 3\n"),
        )
        .await;
        assert_eq!(error.kind(), ErrorKind::ImageBuildFailed, "{error}");
        let message = error.to_string();
        assert!(
            message.contains("why") && message.contains("more") && message.contains('3'),
            "{message}"
        );
        assert!(!message.contains("before"), "{message}");
        for (dockerfile, kind) in [
            ("FROM", ErrorKind::InvalidRequest),
            ("FROM a b c d", ErrorKind::InvalidRequest),
            (
                "FROM sandbox-test/no-such-image:1",
                ErrorKind::ImageNotFound,
            ),
        ] {
            let error = error_of(engine, dockerfile).await;
            assert_eq!(error.kind(), kind, "{error}");
        }
        let nowhere = build(engine, &BuildRequest::new("/nonexistent"))
            .await
            .expect_err("no folder");
        assert_eq!(nowhere.kind(), ErrorKind::InvalidRequest, "{nowhere}");
        let folder = context(&[("x", "")]);
        for path in ["../Dockerfile", "/etc/passwd"] {
            let request = BuildRequest::new(folder.path()).dockerfile(path);
            let error = build(engine, &request).await.expect_err(path);
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        }
        Ok(())
    })
}

fn no_network(engine: &'static TestEngine) -> TestResult {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("address");
        for line in [
            format!("ADD http://{address}/x /"),
            format!("ARG URL=http://{address}/x\nADD $URL /"),
            "RUN --network=host true".to_owned(),
        ] {
            let error = error_of(engine, &format!("FROM {BUSYBOX}\n{line}\n")).await;
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
            assert!(error.to_string().contains("network"), "{error}");
        }
        assert!(listener.accept().is_err(), "a connection was made");
        Ok(())
    })
}

fn bases(engine: &'static TestEngine) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.images = Some(vec!["sandbox-test/busybox".into()]);
        let client = engine.client(policy);
        for (dockerfile, allowed) in [
            ("FROM sandbox-test/busybox\n".to_owned(), true),
            ("FROM sandbox-test/python\n".to_owned(), false),
            (
                format!("FROM {BUSYBOX}\nCOPY --from=sandbox-test/python /etc/passwd /x\n"),
                false,
            ),
        ] {
            let folder = context(&[("Dockerfile", &dockerfile)]);
            let built = client
                .build_image(&BuildRequest::new(folder.path()), &mut |_| {})
                .await;
            match (built, allowed) {
                (Ok(image), true) => client.remove_image(&image.id).await?,
                (Err(error), false) => {
                    assert_eq!(error.kind(), ErrorKind::PolicyExceeded, "{error}");
                    assert!(error.to_string().contains("python"), "{error}");
                }
                (built, _) => panic!("{dockerfile}: {built:?}"),
            }
        }
        Ok(())
    })
}

fn names(engine: &'static TestEngine) -> TestResult {
    run(async {
        let folder = context(&[("Dockerfile", "FROM scratch\nCOPY Dockerfile /\n")]);
        let request = BuildRequest::new(folder.path());
        let taken = build(engine, &request.clone().tag(BUSYBOX))
            .await
            .expect_err("taken");
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "{taken}");
        let tag = format!("sandbox-test/{}:1", unique_name("names"));
        let first = build(engine, &request.clone().tag(&tag)).await?;
        // An image that the backend has built may be replaced.
        std::fs::write(
            folder.path().join("Dockerfile"),
            "FROM scratch\nCOPY Dockerfile /again\n",
        )
        .expect("file");
        let second = build(engine, &request.tag(&tag)).await?;
        assert_ne!(first.id, second.id);
        remove(engine, &tag).await;
        client(engine).remove_image(&first.id).await
    })
}

fn goes(engine: &'static TestEngine) -> TestResult {
    run(async {
        let folder = context(&[(
            "Dockerfile",
            &format!("FROM {BUSYBOX}\nRUN echo {} > /x\n", unique_name("goes")),
        )]);
        let client = client(engine);
        let image = client
            .build_image(&BuildRequest::new(folder.path()), &mut |_| {})
            .await?;
        let asked = engine
            .spec()
            .image(&image.id)
            .image_retention(ImageRetention::Remove);
        client.create(&asked).await?.kill().await?;
        assert!(engine.image(&image.id).await.is_none(), "still there");
        Ok(())
    })
}

fn ignored(engine: &'static TestEngine) -> TestResult {
    run(async {
        let folder = context(&[
            ("Dockerfile", &format!("FROM {BUSYBOX}\nCOPY . /context/\n")),
            (".dockerignore", "secrets\n*.log\n!keep.log\n"),
            ("secrets/key", "x"),
            ("a.log", "x"),
            ("keep.log", "x"),
            ("deep/b", "x"),
        ]);
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).expect("link");
        set_mode(&folder.path().join("deep/b"), 0o750);
        let image = build(engine, &BuildRequest::new(folder.path())).await?;
        let sandbox = client(engine)
            .create(&engine.spec().image(&image.id).user("0"))
            .await?;
        let script =
            "cd /context; find . -type f -o -type l | sort; readlink link; stat -c '%a %u' deep/b";
        assert_eq!(
            output(&sandbox, script).await?,
            "./.dockerignore\n./Dockerfile\n./deep/b\n./keep.log\n./link\n/etc/passwd\n750 0\n"
        );
        sandbox.kill().await?;
        client(engine).remove_image(&image.id).await?;
        // A file that cannot be sent is an error.
        let socket = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("socket");
        let error = build(engine, &BuildRequest::new(folder.path()))
            .await
            .expect_err("a socket");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        assert!(error.to_string().contains("socket"), "{error}");
        Ok(())
    })
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode");
}
