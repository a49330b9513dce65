//! Hostile Dockerfiles, on the real builder: none makes it fetch anything, reads a file of the host, or is built as something else than
//! what was checked. Each is first sent as it is, past us, to show that the attack works where it is said to.

use bollard::query_parameters::{BuildImageOptions, CommitContainerOptions, RemoveImageOptions};
use futures_util::StreamExt;
use libtest_mimic::Failed;
use sandbox_core::{
    BuildRequest, CapabilityPolicy, ErrorKind, ImageEvent, SandboxClient, unique_name,
};

use crate::family::Backend;
use crate::suite::counter::Counter;
use crate::suite::engine::{BUSYBOX, api, client_of, config, output, run, spec};
use crate::suite::{COMMAND, Test};

pub const TESTS: &[Test] = &[
    ("recipes::none_makes_the_builder_fetch_anything", fetches),
    ("recipes::none_reads_files_of_the_host", mounts),
    (
        "recipes::triggers_of_an_image_are_checked_and_run",
        triggers,
    ),
    ("recipes::what_is_checked_is_what_is_built", followed),
    ("recipes::no_preprocessor_reads_them", preprocessed),
    (
        "recipes::a_build_that_announces_other_steps_leaves_no_image",
        announces,
    ),
];

/// An attack. `{reg}` is an image of a registry that counts, `{web}` an address of a server that does.
struct Attack {
    name: &'static str,
    dockerfile: &'static str,
    /// The engines whose builder fetches what it names.
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

fn filled(text: &str, registry: &Counter, web: &Counter) -> String {
    let host = web.address.to_string();
    text.replace("{reg}", &format!("{}/evil/x:1", registry.address))
        .replace("{web}", &format!("http://{host}/x"))
        .replace("{host}", &host)
        .replace("{base}", BUSYBOX)
}

/// Sends a Dockerfile as it is; gives what the builder said.
async fn unchecked(context: &std::path::Path, dockerfile: &str) -> String {
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
    let (engine, body) = (api(), bollard::body_full(archive.into()));
    let mut events = Box::pin(engine.build_image(options, None, Some(body)));
    let mut said = String::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => said.push_str(&event.stream.unwrap_or_default()),
            Err(error) => said.push_str(&error.to_string()),
        }
    }
    let base = engine.inspect_image(BUSYBOX).await.expect("the base");
    let base = base.id.expect("an id");
    for id in made(&said).filter(|id| !base.contains(id)) {
        // An earlier step's image went with the one that was made of it.
        let _ = engine
            .remove_image(id, None::<RemoveImageOptions>, None)
            .await;
    }
    said
}

/// The short ids of the images that a builder says it has made, the last one first.
fn made(said: &str) -> impl Iterator<Item = &str> {
    let lines = said.lines().rev().map(str::trim);
    let ids = lines.filter_map(|line| {
        line.strip_prefix("---> ")
            .or_else(|| line.strip_prefix("--> "))
    });
    ids.filter(|id| id.len() > 10 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn client() -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    policy.images = Some(vec![BUSYBOX.into()]);
    client_of(Backend::new(config()), policy)
}

fn context(dockerfile: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::write(folder.path().join("Dockerfile"), dockerfile).expect("file");
    folder
}

fn fetches() -> Result<(), Failed> {
    run(async {
        let (registry, web) = (Counter::new(), Counter::new());
        let client = client();
        let mut wrong = Vec::new();
        for attack in ATTACKS {
            let folder = context(&filled(attack.dockerfile, &registry, &web));
            let said = unchecked(folder.path(), "Dockerfile").await;
            let works = registry.take() + web.take() > 0;
            if attack.works.contains(&COMMAND) != works {
                wrong.push(format!("{}: works: {works}: {said}", attack.name));
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

/// Dockerfiles with which some builders show the folder `{secret}` of the host: in what is sent, `link` leads there.
const MOUNTS: &[&str] = &[
    "FROM {base}\nRUN --mount=type=bind,source=link,target=/m cat /m/file\n",
    "FROM {base} AS a\nRUN ln -s {secret} /h\nFROM a\nRUN --mount=type=bind,from=a,source=/h,target=/m cat /m/file\n",
    "FROM {base}\nRUN --mount=type=cache,id=../../../../../../../..{secret},target=/m cat /m/file\n",
];

fn mounts() -> Result<(), Failed> {
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
            let said = unchecked(folder.path(), "Dockerfile").await;
            // Docker's builder knows no mounts. A newer one of Podman's stays within the context.
            println!("{}: {text}", said.contains(&mark));
            let mut told = String::new();
            let built = client()
                .build_image(&BuildRequest::new(folder.path()), &mut |event| {
                    told.push_str(&format!("{event:?}"));
                })
                .await;
            let error = built.expect_err(&text);
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
            assert!(error.to_string().contains("COPY --from"), "{error}");
            assert!(!told.contains(&mark), "{told}");
        }
        Ok(())
    })
}

/// An image whose configuration has this trigger.
async fn with_trigger(trigger: &str) -> String {
    let container = api()
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
    let committed = api().commit_container(options, config).await;
    api()
        .remove_container(&container, None)
        .await
        .expect("removed");
    committed.expect("commit");
    format!("sandbox-test/made:{tag}")
}

async fn forget(name: &str) {
    let engine = api();
    // A builder that was given up may hold it for a moment.
    let options = RemoveImageOptions {
        force: true,
        ..RemoveImageOptions::default()
    };
    let removed = engine.remove_image(name, Some(options), None);
    removed.await.expect("removed");
}

fn triggers() -> Result<(), Failed> {
    run(async {
        let client = client_of(Backend::new(config()), CapabilityPolicy::new());
        let base = with_trigger("RUN echo triggered > /mark").await;
        let folder = context(&format!("FROM {base}\nRUN cat /mark >> /other\n"));
        let request = BuildRequest::new(folder.path());
        match client.build_image(&request, &mut |_| {}).await {
            Ok(image) => {
                let sandbox = client.create(&spec().image(&image.id)).await?;
                assert_eq!(output(&sandbox, "cat /other").await?, "triggered\n");
                sandbox.kill().await?;
                client.remove_image(&image.id).await?;
            }
            // Podman's API does not tell triggers. So they are found when the builder announces them, and the build fails.
            Err(error) => {
                assert_eq!(COMMAND, "podman", "{error}");
                assert_eq!(error.kind(), ErrorKind::ImageBuildFailed, "{error}");
                assert!(error.to_string().contains("announced"), "{error}");
            }
        }
        forget(&base).await;
        let base = with_trigger("ADD http://127.0.0.1:9/x /m").await;
        std::fs::write(folder.path().join("Dockerfile"), format!("FROM {base}\n")).expect("file");
        let error = client
            .build_image(&request, &mut |_| {})
            .await
            .expect_err("a trigger that fetches");
        let refused = match COMMAND {
            "podman" => ErrorKind::ImageBuildFailed,
            _ => ErrorKind::InvalidRequest,
        };
        assert_eq!(error.kind(), refused, "{error}");
        forget(&base).await;
        Ok(())
    })
}

/// What authors write, with what the builder has to make of it.
const USUAL: &str = "# syntax=docker/dockerfile:1\n# comment\nARG VERSION=1\nFROM {base} AS Build\r\n\
    ENV A=a \\\n    # between\n\n    B=\"b  b\"\nRUN echo \"$A$B\" > /mark && \\\n    [ -f /mark ]\n\
    from {base} as unused\nRUN true\nFROM {base}\nSHELL [\"/bin/sh\", \"-ec\"]\n\
    COPY --from=BUILD [\"/mark\", \"/mark\"]\nCOPY --from=0 /mark /again\nADD Dockerfile /files/\nRUN echo a\\\\b >> /mark\n\
    HEALTHCHECK --interval=5m CMD true\nEXPOSE 80/tcp\nLABEL a=\"b c\"\nVOLUME [\"/data\"]\nUSER 1000\nWORKDIR /files\n\
    STOPSIGNAL TERM\nENTRYPOINT [ \"sleep\" ]\nCMD [\"1\"]\n";

fn followed() -> Result<(), Failed> {
    run(async {
        let folder = context(&USUAL.replace("{base}", BUSYBOX));
        let mut notes = Vec::new();
        let image = client()
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
        let client = client_of(Backend::new(config()), CapabilityPolicy::new());
        let sandbox = client.create(&spec().image(&image.id)).await?;
        assert_eq!(
            output(&sandbox, "cat /mark; cat /again; ls /files").await?,
            "ab  b\na\\b\nab  b\nDockerfile\n"
        );
        sandbox.kill().await?;
        client.remove_image(&image.id).await?;
        // The stage that a request names may be written in any case, or be a number.
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

fn preprocessed() -> Result<(), Failed> {
    run(async {
        let web = Counter::new();
        // Without the comment, which the preprocessor removes, it is an address.
        let text = format!("FROM {BUSYBOX}\nADD http:/**///{}/x /m\n", web.address);
        let folder = context(&text);
        std::fs::write(folder.path().join("Dockerfile.in"), &text).expect("file");
        // Where the preprocessor is installed, and the builder is Podman's.
        unchecked(folder.path(), "Dockerfile.in").await;
        println!("fetched: {}", web.take());
        let request = BuildRequest::new(folder.path()).dockerfile("Dockerfile.in");
        let error = client().build_image(&request, &mut |_| {}).await;
        let error = error.expect_err("a preprocessor");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        assert!(error.to_string().contains("preprocessor"), "{error}");
        // Under another name, it is a path that is not there.
        let error = client()
            .build_image(&BuildRequest::new(folder.path()), &mut |_| {})
            .await
            .expect_err("no such file");
        assert_eq!(error.kind(), ErrorKind::ImageBuildFailed, "{error}");
        assert_eq!(web.take(), 0);
        Ok(())
    })
}

fn announces() -> Result<(), Failed> {
    run(async {
        let step = "Step 9/9 : FROM evil";
        let folder = context(&format!("FROM {BUSYBOX}\nRUN echo '{step}'\nRUN true\n"));
        let tag = format!("sandbox-test/{}:1", unique_name("announced"));
        let request = BuildRequest::new(folder.path()).tag(&tag);
        let client = client_of(Backend::new(config()), CapabilityPolicy::new());
        let error = client
            .build_image(&request, &mut |_| {})
            .await
            .expect_err("another step");
        assert_eq!(error.kind(), ErrorKind::ImageBuildFailed, "{error}");
        assert!(
            error.to_string().contains(step) && error.fix().is_some(),
            "{error}"
        );
        assert!(api().inspect_image(&tag).await.is_err(), "it is left");
        assert!(api().inspect_image(BUSYBOX).await.is_ok(), "another went");
        Ok(())
    })
}
