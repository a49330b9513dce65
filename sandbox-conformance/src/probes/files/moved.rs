//! Removing a folder while code moves a part of it.

use sandbox_core::{Error, ErrorKind, ExecRequest, SandboxHandle, Stdin};

use crate::pool::ProbeSandbox;
use crate::probes::prelude::*;

/// A tree whose inner folder takes long to empty, and another folder with the same names. The names
/// are many, so that a removal takes most of them after the inner folder, whatever their order.
const MAKE: &str = "set -e; mkdir -p \"$0/tree/inner\" \"$0/other\"; cd \"$0/tree/inner\"
    i=0; while [ $i -lt 5000 ]; do : > $i; i=$((i + 1)); done
    i=0; while [ $i -lt 40 ]; do : > ../name$i; : > ../../other/name$i; i=$((i + 1)); done";

const NAMES: usize = 40;

/// How often the folder may be empty before the program has moved it.
const TRIES: usize = 5;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let folder = context.inside("moved");
    feature(context, "remove a folder that changes", async |sandbox| {
        for number in 0..TRIES {
            let folder = format!("{folder}-{number}");
            if let Some(found) = removed(sandbox, &folder).await? {
                return Ok(found);
            }
        }
        let late = format!("the program was late {TRIES} times, so this shows nothing");
        Err(Error::new(ErrorKind::Io, "move a folder", late))
    })
    .await;
    context.no_host_effect("files of the sandbox do not affect the host");
    Ok(())
}

/// Removes one tree. `None` if the program did not move its part in time.
async fn removed(
    sandbox: &ProbeSandbox,
    folder: &str,
) -> sandbox_core::Result<Option<Option<String>>> {
    let handle = sandbox.handle();
    let made = handle.exec(&ExecRequest::shell(MAKE).arg(folder)).await?;
    if !made.success() {
        return Ok(Some(Some(made.output().to_string())));
    }
    let other = format!("{folder}/other");
    let inner = format!("{folder}/tree/inner");
    let call = Call::new(["rename-changed", &inner, &format!("{other}/inner")]);
    let mut mover = handle.start(&sandbox.request(&call), Stdin::Null).await?;
    // It may fail, because the tree changes.
    let end = handle.remove(&format!("{folder}/tree")).await;
    let moved = mover.wait().await?.stdout_text() == "result=ok\n";
    let left = names_in(handle, &other).await?;
    handle.remove(folder).await?;
    Ok(moved.then(|| {
        (left != NAMES).then(|| {
            let end = end.map_or_else(|error| error.to_string(), |()| "success".to_owned());
            format!("{left} of {NAMES} files beside the tree are left, and its removal told: {end}")
        })
    }))
}

async fn names_in(handle: &SandboxHandle, folder: &str) -> sandbox_core::Result<usize> {
    let list = handle.list_dir(folder).await?;
    Ok(list
        .iter()
        .filter(|entry| entry.path.to_string_lossy().contains("/name"))
        .count())
}
