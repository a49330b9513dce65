//! Images that no sandbox may have.

use std::path::Path;

use sandbox_core::{BuildRequest, ErrorKind, SandboxClient};

use super::dockerfiles::write;
use super::{Deviation, Maker, REPOSITORY};

pub(super) async fn run(maker: &Maker, context: &Path) -> Deviation {
    let missing = format!("sandbox-conformance/{}:none", maker.token);
    let elsewhere = format!("sandbox-conformance-other/{}:none", maker.token);
    let attempts: [(&SandboxClient, &str, ErrorKind); 4] = [
        (&maker.client, &missing, ErrorKind::ImageNotFound),
        (&maker.limited, &missing, ErrorKind::ImageNotFound),
        (&maker.limited, &elsewhere, ErrorKind::PolicyExceeded),
        (&maker.client, "no name", ErrorKind::InvalidSpec),
    ];
    for (client, image, kind) in attempts {
        let created = client.create(&maker.spec().image(image)).await;
        let told = created.map(|sandbox| sandbox.name().to_owned());
        if !told.as_ref().is_err_and(|error| error.kind() == kind) {
            return Ok(Some(format!("{image:?}: {told:?}")));
        }
    }
    built(maker, context).await
}

/// Each image that a Dockerfile names must be allowed.
async fn built(maker: &Maker, context: &Path) -> Deviation {
    let (allowed, other) = (format!("{REPOSITORY}/none:1"), "elsewhere.test/other:1");
    for lines in [
        format!("FROM {other}\n"),
        format!("FROM {allowed} AS first\nFROM {other}\n"),
        format!("FROM {allowed}\nCOPY --from={other} /etc/passwd /passwd\n"),
    ] {
        write(&context.join("Dockerfile"), &lines)?;
        let request = BuildRequest::new(context).tag(&maker.built);
        let built = maker.limited.build_image(&request, &mut |_| ()).await;
        match built {
            Err(error) if error.kind() == ErrorKind::PolicyExceeded => {}
            Err(error) if error.kind() == ErrorKind::Unsupported => break,
            built => return Ok(Some(format!("{lines:?}: {built:?}"))),
        }
    }
    Ok(None)
}
