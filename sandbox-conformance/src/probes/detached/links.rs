//! Paths of the host below a write root, as the handles of attached and detached sandboxes use them.

use std::path::Path;

use sandbox_core::SandboxHandle;

use super::{LIFETIME, in_detached};
use crate::probes::prelude::*;

/// What a link leads to, beside it.
const TARGET: &str = "target";

/// Code could make such a link at any time, so it is never followed. The control is the same copy
/// without a link in its path.
pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::controls(context).await?;
    let folder = context.write_folder()?;
    std::fs::create_dir(folder.join(TARGET))?;
    std::fs::write(folder.join(TARGET).join("file"), "content")?;
    std::os::unix::fs::symlink(TARGET, folder.join("link"))?;
    let inside = context.inside("copied");
    let attached = context
        .with_sandbox(async |sandbox| followed(sandbox.handle(), &folder, &inside).await)
        .await;
    let deviation = match attached {
        Ok(None) => {
            in_detached(context, LIFETIME, async |_, name, client| {
                let handle = client.get(name).await?;
                let followed = followed(&handle, &folder, &inside).await;
                Ok(followed.map(|wrong| format!("detached: {wrong}")))
            })
            .await?
        }
        other => other,
    };
    context.record_attack(behavior("copy through a link", deviation));
    context.no_host_effect("the link leads to its own folder");
    Ok(())
}

async fn followed(sandbox: &SandboxHandle, folder: &Path, inside: &str) -> Option<String> {
    let copies = [TARGET, "link"].map(|name| folder.join(name));
    for (folder, is_allowed) in copies.iter().zip([true, false]) {
        let copied_in = sandbox.copy_in(folder.join("file"), inside).await;
        let copied_out = sandbox.copy_out(inside, folder.join("back")).await;
        if copied_in.is_ok() != is_allowed || copied_out.is_ok() != is_allowed {
            return Some(format!(
                "{}: {copied_in:?}, {copied_out:?}",
                folder.display()
            ));
        }
    }
    None
}
