//! Dockerfiles that are refused before anything is built.

use std::os::unix::fs::symlink;
use std::path::Path;

use sandbox_core::{BuildRequest, Error, ErrorKind, Result};
use sandbox_host::DEFAULT_IMAGE;

use super::{Deviation, Maker};

/// What follows the first line of a Dockerfile, and the line that is refused.
const REFUSED: &[(&str, u32)] = &[
    ("RUN <<EOF\nFROM other:1\nEOF", 2),
    ("COPY <<EOF /file\nEOF", 2),
    ("ONBUILD RUN true", 2),
    ("USER 0\nRUN echo \\\\\nFROM other:1", 3),
    ("RUN echo \\", 2),
    ("RUN a\u{b}b", 2),
    ("COPY --from=\"first\" /a /a", 2),
    ("COPY --from=one:1 --from=two:1 /a /a", 2),
    ("RUN --device=x true", 2),
    ("RUN --mount=type=bind,from=other:1,target=/in true", 2),
    ("RUN --mount=type=cache,target=/in true", 2),
    ("RUN --security=insecure true", 2),
    ("RUN --network=host true", 2),
    ("COPY --from=$FIRST /a /a", 2),
    ("COPY --from=0 /a /a", 2),
    ("COPY --from=7 /a /a", 2),
    ("RUN [\"true\"] more", 2),
    ("ADD https://127.0.0.1:9/file /", 2),
    ("ADD $ADDRESS /", 2),
    ("ADD \"htt\"p://127.0.0.1:9/file /", 2),
    ("ADD git@127.0.0.1:team/tool /", 2),
];

/// Whole Dockerfiles, of which the first line is refused. `BASE` is an image.
const REFUSED_AT_ONCE: &[&str] = &[
    "# escape=`\nFROM BASE\n",
    "# check=skip=all\nFROM BASE\n",
    "# syntax=other/frontend\nFROM BASE\n",
    "# name=value\nFROM BASE\n",
];

pub(super) async fn run(maker: &Maker, folder: &Path) -> Deviation {
    let base = maker.spec.image.as_deref().unwrap_or(DEFAULT_IMAGE);
    let mut cases: Vec<_> = REFUSED
        .iter()
        .map(|(rest, line)| (format!("FROM {base}\n{rest}\n"), *line))
        .collect();
    let at_once = REFUSED_AT_ONCE.iter();
    cases.extend(at_once.map(|text| (text.replace("BASE", base), 1)));
    let long = "x".repeat(65_001);
    cases.push((format!("FROM {base}\nRUN true {long}\n"), 2));
    cases.push((format!("FROM {base} AS one\nFROM {base} AS ONE\n"), 2));
    let file = folder.join("Dockerfile");
    for (text, line) in &cases {
        write(&file, text)?;
        let told = build(maker, folder).await;
        if let Err(error) = &told
            && error.kind() == ErrorKind::Unsupported
        {
            return told.map(|()| None);
        }
        let is_right = told.as_ref().is_err_and(|error| {
            error.kind() == ErrorKind::InvalidRequest
                && error.to_string().contains(&format!("line {line}"))
        });
        if !is_right {
            let start: String = text.chars().take(200).collect();
            return Ok(Some(format!("{start:?}: {told:?}")));
        }
    }
    // A link, on the way to which something could be replaced.
    let good = format!("FROM {base}\nUSER 0\n");
    let other = folder.join("other");
    write(&other, &good)?;
    std::fs::remove_file(&file).map_err(|error| failed(&error))?;
    symlink(&other, &file).map_err(|error| failed(&error))?;
    let linked = build(maker, folder).await;
    std::fs::remove_file(&file).map_err(|error| failed(&error))?;
    if linked.is_ok() || maker.id(&maker.built).await?.is_some() {
        return Ok(Some(format!("a link: {linked:?}")));
    }
    // This line changes nothing.
    write(&file, &format!("# syntax=docker/dockerfile:1\n{good}"))?;
    build(maker, folder).await?;
    let is_built = maker.id(&maker.built).await?.is_some();
    Ok((!is_built).then(|| "nothing was built".to_owned()))
}

async fn build(maker: &Maker, folder: &Path) -> Result<()> {
    let request = BuildRequest::new(folder).tag(&maker.built);
    maker
        .client
        .build_image(&request, &mut |_| ())
        .await
        .map(drop)
}

/// Writes a file of the host.
pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).map_err(|error| failed(&error))
}

fn failed(error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::SetupFailed,
        "write a Dockerfile",
        error.to_string(),
    )
}
