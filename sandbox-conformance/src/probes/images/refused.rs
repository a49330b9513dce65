//! Images that no sandbox may have.

use sandbox_core::{ErrorKind, SandboxClient};

use super::{Deviation, Maker};

pub(super) async fn run(maker: &Maker) -> Deviation {
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
    Ok(None)
}
