//! Links as read roots, in a folder that no code can write.

use std::os::unix::fs::symlink;
use std::path::Path;

use sandbox_core::{ErrorKind, ExecRequest};

use crate::host_fixture::make_folder;
use crate::probes::prelude::*;

/// A link, what it leads to, and whether it needs `follow_links`. `@` stands for the folder.
const LINKS: [(&str, &str, bool); 4] = [
    ("current", "releases/7", false),
    ("inner", "@/releases/7", false),
    ("data", "../elsewhere", true),
    ("far", "@/../elsewhere", true),
];

/// How a root that cannot be is refused. The tiers differ.
const REFUSED: [ErrorKind; 2] = [ErrorKind::InvalidPolicy, ErrorKind::InvalidSpec];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let parent = context.outside()?;
    let folder = parent.join("links");
    for place in [folder.join("releases/7"), parent.join("elsewhere")] {
        make_folder(&place)?;
        std::fs::write(place.join("file"), context.token())?;
    }
    let mut deviation = Ok(None);
    for (name, target, leaves) in LINKS {
        let target = target.replace('@', &folder.to_string_lossy());
        let link = folder.join(name);
        symlink(target, &link)?;
        for follow in [false, true] {
            // Each other combination is the same as one of these.
            if follow && !leaves {
                continue;
            }
            deviation = rooted(context, &link, follow, follow || !leaves).await?;
            if deviation != Ok(None) {
                break;
            }
        }
        if deviation != Ok(None) {
            break;
        }
    }
    context.record_attack(behavior("read by each link", deviation));
    context.no_host_effect("the folders are only read");
    Ok(())
}

/// What is wrong with a sandbox with this read root.
async fn rooted(
    context: &mut ProbeContext,
    link: &Path,
    follow: bool,
    allowed: bool,
) -> Result<Result<Option<String>, Attempt>, ProbeError> {
    let setup = SandboxSetup::with(|policy| {
        policy.filesystem_read_roots = Some(vec![link.to_owned()]);
        policy.follow_links = Some(follow);
    });
    let what = format!("{}, followed: {follow}", link.display());
    let sandbox = match context.once(&setup).await {
        Ok(sandbox) => sandbox,
        Err(error) if !allowed && REFUSED.contains(&error.kind()) => return Ok(Ok(None)),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return Ok(Err(context.record_create_error(error)));
        }
        Err(error) => return Ok(Ok(Some(format!("{what}: {error}")))),
    };
    let list = ExecRequest::new("ls").arg(link.join("."));
    let listed = sandbox.handle().exec(&list).await;
    sandbox.handle().kill().await?;
    let is_right = allowed && listed?.success();
    Ok(Ok((!is_right).then(|| format!("{what}: it is created"))))
}
