//! The owner of files that code creates in folders of the host.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandbox_core::{ExecRequest, MountSource};

use crate::pool::{MOUNTED, ProbeSandbox};
use crate::probes::prelude::*;
use crate::probes::swap::WORKSPACE;

/// A user and a group of no other folder. They differ from each other.
const OWNER: (u32, u32) = (1234, 5678);

/// New files belong to the owner of their folder, even if all users may write to it.
pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let parent = context.outside()?;
    let folders = ["root", "workspace", "mount"].map(|name| parent.join(format!("shared-{name}")));
    for folder in &folders {
        std::fs::create_dir(folder)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))?;
        // Only root can give it away.
        if std::fs::metadata(folder)?.uid() == 0 {
            std::os::unix::fs::chown(folder, Some(OWNER.0), Some(OWNER.1))?;
        }
    }
    let [root, workspace, mount] = &folders;
    let setup = SandboxSetup::with(|policy| {
        policy.filesystem_write_roots = Some(vec![root.clone()]);
        policy.mount_sources = Some(vec![MountSource::read_write(mount)]);
    });
    let deviation = match context.once(&setup.workspace(workspace)).await {
        Err(error) => Err(context.record_create_error(error)),
        Ok(sandbox) => {
            let places = [root.clone(), WORKSPACE.into(), MOUNTED.into()];
            let made = make_files(&sandbox, &places).await;
            sandbox.handle().kill().await?;
            match made? {
                Some(wrong) => Ok(Some(wrong)),
                None => {
                    let mut folders = folders.iter();
                    let wrong = folders.find_map(|folder| other_owner(folder).transpose());
                    Ok(wrong.transpose()?)
                }
            }
        }
    };
    context.record_attack(behavior("write in another user's folder", deviation));
    context.no_host_effect("the attack itself compares the owners");
    Ok(())
}

/// What an execution makes in each folder.
const BY_CODE: [&str; 3] = ["file", "folder", "link"];

/// Makes files by an execution and by an operation of the host. Those of user 0 inside are
/// optional.
async fn make_files(sandbox: &ProbeSandbox, places: &[PathBuf]) -> Deviation {
    let handle = sandbox.handle();
    for place in places {
        let script = format!(
            "cd {} && echo > file && mkdir folder && echo > folder/below && ln -s file link",
            place.display()
        );
        let made = handle.exec(&ExecRequest::shell(script)).await?;
        if !made.success() {
            return Ok(Some(format!("{}: {}", place.display(), made.output())));
        }
        let written = place.join("written");
        handle
            .write(&written.to_string_lossy(), *b"content")
            .await?;
        let script = format!("echo > {}/of-root", place.display());
        // Where there is no such user, or it may do less, there is no such file.
        let _ = handle.exec(&ExecRequest::shell(script).user("root")).await;
    }
    Ok(None)
}

/// Returns the first entry that is missing or has another owner than expected.
fn other_owner(folder: &Path) -> std::io::Result<Option<String>> {
    let owner = |path: &Path| {
        let found = std::fs::symlink_metadata(path)?;
        Ok::<_, std::io::Error>((found.uid(), found.gid()))
    };
    let wanted = owner(folder)?;
    let mut paths = BY_CODE.map(|name| folder.join(name)).to_vec();
    paths.extend([folder.join("folder/below"), folder.join("written")]);
    let of_root = folder.join("of-root");
    if of_root.exists() {
        paths.push(of_root);
    }
    for path in paths {
        let found = owner(&path)?;
        if found != wanted {
            let path = path.display();
            return Ok(Some(format!(
                "{path} belongs to {found:?} and not to {wanted:?}"
            )));
        }
    }
    Ok(None)
}
