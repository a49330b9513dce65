//! Hostile Dockerfiles on the engine's builder: none fetches anything, reads a host file, or is
//! built differently than checked. As a control, each is first sent to the engine directly.

use bollard::query_parameters::{BuildImageOptions, CommitContainerOptions, RemoveImageOptions};
use futures_util::StreamExt;
use sandbox_core::spi::unique_name;
use sandbox_core::{BuildRequest, CapabilityPolicy, ErrorKind, ImageEvent, SandboxClient};

use super::counter::ConnectionCounter;
use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, TestResult, output, run};

pub const TESTS: &[EngineTest] = &[
    ("recipes::none_makes_the_builder_fetch_anything", fetches),
    ("recipes::none_reads_files_of_the_host", mounts),
    (
        "recipes::triggers_of_an_image_are_checked_and_run",
        triggers,
    ),
    ("recipes::the_builder_reads_them_as_checked", followed),
    ("recipes::no_preprocessor_changes_them", preprocessed),
    (
        "recipes::a_build_that_announces_other_steps_leaves_no_image",
        announces,
    ),
];

/// An attack. `{reg}` is an image of a registry that counts requests, `{web}` the address of a
/// server that counts them.
struct Attack {
    name: &'static str,
    dockerfile: &'static str,
    /// The engines whose builder fetches it without the backend's checks.
    works: &'static [&'static str],
}

const BOTH: &[&str] = &["docker", "podman"];
const DOCKER: &[&str] = &["docker"];
const PODMAN: &[&str] = &["podman"];

const ATTACKS: &[Attack] = &[
    Attack {
        name: "an image",
        dockerfile: "FROM {reg}\n",
        works: BOTH,
    },
    Attack {
        name: "an address",
        dockerfile: "FROM {base}\nADD {web} /m\n",
        works: BOTH,
    },
    Attack {
        name: "an address from an argument",
        dockerfile: "FROM {base}\nARG URL={web}\nADD $URL /m\n",
        works: BOTH,
    },
    Attack {
        name: "an address with backslashes",
        dockerfile: "FROM {base}\nADD ht\\tp:\\/\\/{host}/x /m\n",
        works: BOTH,
    },
    Attack {
        name: "an address with quotes",
        dockerfile: "FROM {base}\nADD htt\"p:/\"/{host}/x /m\n",
        works: BOTH,
    },
    Attack {
        name: "an address in a list",
        dockerfile: "FROM {base}\nADD [\"\\u0068ttp:\\u002f\\u002f{host}/x\", \"/m\"]\n",
        works: BOTH,
    },
    Attack {
        name: "an address in a list that something follows",
        dockerfile: "FROM {base}\nADD [\"\\u0068ttp:\\u002f\\u002f{host}/x\", \"/m\"] /m\n",
        works: BOTH,
    },
    Attack {
        name: "an image of COPY in a list",
        dockerfile: "FROM {base}\nCOPY --from={reg} [\"/x\", \"/m\"]\n",
        works: BOTH,
    },
    Attack {
        name: "ONBUILD with an address on an own stage",
        dockerfile: "FROM {base} AS a\nONBUILD ADD {web} /m\nFROM a\n",
        works: BOTH,
    },
    Attack {
        name: "ONBUILD with an image on an own stage",
        dockerfile: "FROM {base} AS a\nONBUILD COPY --from={reg} /x /m\nFROM a\n",
        works: BOTH,
    },
    Attack {
        name: "a heredoc that hides FROM",
        dockerfile: "FROM {base}\nRUN <<CMD\nFROM {reg}\nCMD\n",
        works: BOTH,
    },
    Attack {
        name: "a heredoc that hides ADD",
        dockerfile: "FROM {base}\nRUN <<ENTRYPOINT\nADD {web} /m\nENTRYPOINT\n",
        works: BOTH,
    },
    Attack {
        name: "a heredoc of COPY",
        dockerfile: "FROM {base}\nCOPY <<CMD /m\nFROM {reg}\nCMD\n",
        works: PODMAN,
    },
    Attack {
        name: "a backtick behind an unknown directive",
        dockerfile: "# foo=bar\n# escape=`\nFROM {base}\nRUN echo \\\nFROM {reg}\n",
        works: &[],
    },
    Attack {
        name: "a backtick behind a syntax",
        dockerfile: "# syntax=x\n# escape=`\nFROM {base}\nRUN echo `\nFROM {reg}\n",
        works: PODMAN,
    },
    Attack {
        name: "a backtick, which the parser knows as well",
        dockerfile: "# escape=`\nFROM {base}\nRUN echo \\\nFROM {reg}\n",
        works: BOTH,
    },
    Attack {
        name: "two backslashes at the end of a line",
        dockerfile: "FROM {base}\nRUN echo \\\\\nFROM {reg}\n",
        works: DOCKER,
    },
    Attack {
        name: "white space that is none behind a backslash",
        dockerfile: "FROM {base}\nRUN echo \\\u{a0}\nFROM {reg}\n",
        works: BOTH,
    },
    Attack {
        name: "a byte order mark before a directive",
        dockerfile: "\u{feff}# escape=`\nFROM {base}\nRUN echo \\\nFROM {reg}\n",
        works: BOTH,
    },
    Attack {
        name: "a carriage return behind a backslash",
        dockerfile: "FROM {base}\nRUN echo \\\r\r\nFROM {reg}\n",
        works: BOTH,
    },
    Attack {
        name: "form feeds around a keyword",
        dockerfile: "FROM {base}\nRUN true \\\u{c}\n\u{b}FROM\u{c}{reg}\n",
        works: BOTH,
    },
    Attack {
        name: "a mount's key in quotes",
        dockerfile: "FROM {base}\nRUN --mount=type=bind,\"from={reg}\",target=/m true\n",
        works: PODMAN,
    },
    Attack {
        name: "a mount's key in capitals",
        dockerfile: "FROM {base}\nRUN --mount=type=bind,FROM={reg},target=/m true\n",
        works: &[],
    },
    Attack {
        name: "a mount's key from a variable",
        dockerfile: "FROM {base}\nARG F=/m,from={reg}\nRUN --mount=type=bind,target=$F true\n",
        works: PODMAN,
    },
    Attack {
        name: "COPY from a variable",
        dockerfile: "FROM {base}\nARG F={reg}\nCOPY --from=$F /x /m\n",
        works: PODMAN,
    },
    Attack {
        name: "COPY with a quoted option",
        dockerfile: "FROM {base}\nCOPY --fr\\om={reg} /x /m\n",
        works: BOTH,
    },
    Attack {
        name: "a letter whose second byte is a space for some",
        dockerfile: "FROM {base}\nCOPY --chown=\u{e0}--from={reg} /x /m\n",
        works: BOTH,
    },
];

fn filled(text: &str, registry: &ConnectionCounter, web: &ConnectionCounter) -> String {
    let host = web.address.to_string();
    text.replace("{reg}", &format!("{}/evil/x:1", registry.address))
        .replace("{web}", &format!("http://{host}/x"))
        .replace("{host}", &host)
        .replace("{base}", BUSYBOX)
}

/// Sends a Dockerfile to the engine directly, and returns the builder's output.
async fn unchecked(
    engine: &'static TestEngine,
    context: &std::path::Path,
    dockerfile: &str,
) -> String {
    let mut archive = tar::Builder::new(Vec::new());
    archive.follow_symlinks(false);
    archive.append_dir_all(".", context).expect("archive");
    let archive = archive.into_inner().expect("archive");
    let options = BuildImageOptions {
        dockerfile: dockerfile.to_owned(),
        nocache: true,
        rm: true,
        forcerm: true,
        ..BuildImageOptions::default()
    };
    let (api, body) = (engine.api(), bollard::body_full(archive.into()));
    let mut events = Box::pin(api.build_image(options, None, Some(body)));
    let mut printed = String::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => printed.push_str(&event.stream.unwrap_or_default()),
            Err(error) => printed.push_str(&error.to_string()),
        }
    }
    let base = engine.image(BUSYBOX).await.expect("the base");
    let base = base.id.expect("an id");
    for id in made(&printed).filter(|id| !base.contains(id)) {
        // The image of an earlier step may have been removed with the one that was made from it.
        let _ = api.remove_image(id, None::<RemoveImageOptions>, None).await;
    }
    printed
}

/// The short IDs of the images in a builder's output, the last one first.
fn made(printed: &str) -> impl Iterator<Item = &str> {
    let lines = printed.lines().rev().map(str::trim);
    let ids = lines.filter_map(|line| {
        line.strip_prefix("---> ")
            .or_else(|| line.strip_prefix("--> "))
    });
    ids.filter(|id| id.len() > 10 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn client(engine: &'static TestEngine) -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    policy.images = Some(vec![BUSYBOX.into()]);
    engine.client(policy)
}

fn context(dockerfile: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::write(folder.path().join("Dockerfile"), dockerfile).expect("file");
    folder
}

fn fetches(engine: &'static TestEngine) -> TestResult {
    run(async {
        let (registry, web) = (ConnectionCounter::new(), ConnectionCounter::new());
        let client = client(engine);
        let mut wrong = Vec::new();
        for attack in ATTACKS {
            let folder = context(&filled(attack.dockerfile, &registry, &web));
            let printed = unchecked(engine, folder.path(), "Dockerfile").await;
            let works = registry.take() + web.take() > 0;
            if attack.works.contains(&engine.family.command) != works {
                wrong.push(format!("{}: works: {works}: {printed}", attack.name));
            }
            let built = client
                .build_image(&BuildRequest::new(folder.path()), &mut |_| {})
                .await;
            let count = registry.take() + web.take();
            match built {
                Ok(image) => {
                    wrong.push(format!("{}: was built", attack.name));
                    client.remove_image(&image.id).await?;
                }
                Err(error) if count > 0 => {
                    wrong.push(format!("{}: {count} requests: {error}", attack.name));
                }
                Err(error) => {
                    let refused = [ErrorKind::InvalidRequest, ErrorKind::PolicyExceeded];
                    assert!(refused.contains(&error.kind()), "{}: {error}", attack.name);
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
}

/// Dockerfiles with which some builders expose the host folder `{secret}`. The link `link` in the
/// context leads there.
const MOUNTS: &[&str] = &[
    "FROM {base}\nRUN --mount=type=bind,source=link,target=/m cat /m/file\n",
    "FROM {base} AS a\nRUN ln -s {secret} /h\nFROM a\nRUN --mount=type=bind,from=a,source=/h,target=/m cat /m/file\n",
    "FROM {base}\nRUN --mount=type=cache,id=../../../../../../../..{secret},target=/m cat /m/file\n",
];

fn mounts(engine: &'static TestEngine) -> TestResult {
    run(async {
        let secret = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .expect("folder");
        let mark = unique_name("secret");
        std::fs::write(secret.path().join("file"), &mark).expect("file");
        for text in MOUNTS {
            let text = text.replace("{base}", BUSYBOX);
            let text = text.replace("{secret}", &secret.path().to_string_lossy());
            let folder = context(&text);
            std::os::unix::fs::symlink(secret.path(), folder.path().join("link")).expect("link");
            let printed = unchecked(engine, folder.path(), "Dockerfile").await;
            // Docker's classic builder has no mounts. Newer versions of Podman stay within the
            // context.
            println!("{}: {text}", printed.contains(&mark));
            let mut events = String::new();
            let built = client(engine)
                .build_image(&BuildRequest::new(folder.path()), &mut |event| {
                    events.push_str(&format!("{event:?}"));
                })
                .await;
            let error = built.expect_err(&text);
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
            assert!(error.to_string().contains("COPY --from"), "{error}");
            assert!(!events.contains(&mark), "{events}");
        }
        Ok(())
    })
}

/// Commits an image with this `ONBUILD` trigger.
async fn with_trigger(engine: &'static TestEngine, trigger: &str) -> String {
    let container = engine
        .api()
        .create_container(
            None::<bollard::query_parameters::CreateContainerOptions>,
            bollard::models::ContainerCreateBody {
                image: Some(BUSYBOX.to_owned()),
                ..Default::default()
            },
        )
        .await
        .expect("a container")
        .id;
    let tag = unique_name("trigger");
    let options = CommitContainerOptions {
        container: Some(container.clone()),
        repo: Some("sandbox-test/made".into()),
        tag: Some(tag.clone()),
        changes: Some(format!("ONBUILD {trigger}")),
        ..CommitContainerOptions::default()
    };
    let config = bollard::models::ContainerConfig::default();
    let committed = engine.api().commit_container(options, config).await;
    engine
        .api()
        .remove_container(&container, None)
        .await
        .expect("removed");
    committed.expect("commit");
    format!("sandbox-test/made:{tag}")
}

async fn forget(engine: &'static TestEngine, name: &str) {
    let api = engine.api();
    // A canceled builder may use it for a moment.
    let options = RemoveImageOptions {
        force: true,
        ..RemoveImageOptions::default()
    };
    let removed = api.remove_image(name, Some(options), None);
    removed.await.expect("removed");
}

fn triggers(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = engine.client(CapabilityPolicy::new());
        let base = with_trigger(engine, "RUN echo triggered > /mark").await;
        let folder = context(&format!("FROM {base}\nRUN cat /mark >> /other\n"));
        let request = BuildRequest::new(folder.path());
        match client.build_image(&request, &mut |_| {}).await {
            Ok(image) => {
                let sandbox = client.create(&engine.spec().image(&image.id)).await?;
                assert_eq!(output(&sandbox, "cat /other").await?, "triggered\n");
                sandbox.kill().await?;
                client.remove_image(&image.id).await?;
            }
            // Podman's API does not report triggers. The backend finds them in the builder's
            // output, and fails the build.
            Err(error) => {
                assert_eq!(engine.family.command, "podman", "{error}");
                assert_eq!(error.kind(), ErrorKind::ImageBuildFailed, "{error}");
                assert!(error.to_string().contains("announced"), "{error}");
            }
        }
        forget(engine, &base).await;
        let base = with_trigger(engine, "ADD http://127.0.0.1:9/x /m").await;
        std::fs::write(folder.path().join("Dockerfile"), format!("FROM {base}\n")).expect("file");
        let error = client
            .build_image(&request, &mut |_| {})
            .await
            .expect_err("a trigger that fetches");
        let refused = match engine.family.command {
            "podman" => ErrorKind::ImageBuildFailed,
            _ => ErrorKind::InvalidRequest,
        };
        assert_eq!(error.kind(), refused, "{error}");
        forget(engine, &base).await;
        Ok(())
    })
}

/// Ordinary Dockerfiles, with the expected output.
const USUAL: &str = "# syntax=docker/dockerfile:1\n# comment\nARG VERSION=1\nFROM {base} AS Build\r\n\
    ENV A=a \\\n    # between\n\n    B=\"b  b\"\nRUN echo \"$A$B\" > /mark && \\\n    [ -f /mark ]\n\
    from {base} as unused\nRUN true\nFROM {base}\nSHELL [\"/bin/sh\", \"-ec\"]\n\
    COPY --from=BUILD [\"/mark\", \"/mark\"]\nCOPY --from=0 /mark /again\nADD Dockerfile /files/\nRUN echo a\\\\b >> /mark\n\
    HEALTHCHECK --interval=5m CMD true\nEXPOSE 80/tcp\nLABEL a=\"b c\"\nVOLUME [\"/data\"]\nUSER 1000\nWORKDIR /files\n\
    STOPSIGNAL TERM\nENTRYPOINT [ \"sleep\" ]\nCMD [\"1\"]\n";

fn followed(engine: &'static TestEngine) -> TestResult {
    run(async {
        let folder = context(&USUAL.replace("{base}", BUSYBOX));
        let mut notes = Vec::new();
        let image = client(engine)
            .build_image(&BuildRequest::new(folder.path()), &mut |event| {
                if let ImageEvent::Note { text } = event {
                    notes.push(text.clone());
                }
            })
            .await?;
        assert!(
            notes.len() == 1 && notes[0].contains("Dockerfile: line 1: \"# syntax="),
            "{notes:?}"
        );
        let client = engine.client(CapabilityPolicy::new());
        let sandbox = client.create(&engine.spec().image(&image.id)).await?;
        assert_eq!(
            output(&sandbox, "cat /mark; cat /again; ls /files").await?,
            "ab  b\na\\b\nab  b\nDockerfile\n"
        );
        sandbox.kill().await?;
        client.remove_image(&image.id).await?;
        // The request's target stage may be in any case, or a number.
        for (target, why) in [("Build", None), ("1", None), ("none", Some("no stage"))] {
            let request = BuildRequest::new(folder.path()).target(target);
            match (client.build_image(&request, &mut |_| {}).await, why) {
                (Ok(image), None) => client.remove_image(&image.id).await?,
                (Err(error), Some(why)) if error.to_string().contains(why) => {}
                (built, _) => panic!("{target}: {built:?}"),
            }
        }
        Ok(())
    })
}

fn preprocessed(engine: &'static TestEngine) -> TestResult {
    run(async {
        let web = ConnectionCounter::new();
        // The preprocessor removes the comment, which makes it an address.
        let text = format!("FROM {BUSYBOX}\nADD http:/**///{}/x /m\n", web.address);
        let folder = context(&text);
        std::fs::write(folder.path().join("Dockerfile.in"), &text).expect("file");
        // Only Podman's builder uses the preprocessor, if it is installed.
        unchecked(engine, folder.path(), "Dockerfile.in").await;
        println!("fetched: {}", web.take());
        let request = BuildRequest::new(folder.path()).dockerfile("Dockerfile.in");
        let error = client(engine).build_image(&request, &mut |_| {}).await;
        let error = error.expect_err("a preprocessor");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        assert!(error.to_string().contains("preprocessor"), "{error}");
        // Under another name, it is a path that does not exist.
        let error = client(engine)
            .build_image(&BuildRequest::new(folder.path()), &mut |_| {})
            .await
            .expect_err("no such file");
        assert_eq!(error.kind(), ErrorKind::ImageBuildFailed, "{error}");
        assert_eq!(web.take(), 0);
        Ok(())
    })
}

fn announces(engine: &'static TestEngine) -> TestResult {
    run(async {
        let step = "Step 9/9 : FROM evil";
        // A step that the builder takes from its cache writes nothing. The end of an earlier build
        // may have been too late to keep its step out of the cache.
        let name = unique_name("announced");
        let folder = context(&format!(
            "FROM {BUSYBOX}\nRUN echo '{step}' # {name}\nRUN true\n"
        ));
        let tag = format!("sandbox-test/{name}:1");
        let request = BuildRequest::new(folder.path()).tag(&tag);
        let client = engine.client(CapabilityPolicy::new());
        let error = client
            .build_image(&request, &mut |_| {})
            .await
            .expect_err("another step");
        assert_eq!(error.kind(), ErrorKind::ImageBuildFailed, "{error}");
        assert!(
            error.to_string().contains(step) && error.fix().is_some(),
            "{error}"
        );
        assert!(engine.image(&tag).await.is_none(), "it is left");
        assert!(engine.image(BUSYBOX).await.is_some(), "another went");
        Ok(())
    })
}
