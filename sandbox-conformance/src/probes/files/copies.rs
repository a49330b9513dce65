//! Copies in and out: where they go, and what they say.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sandbox_core::{Copied, ExecRequest, SandboxHandle, SkipReason};

use crate::probes::prelude::*;

/// A source, a target, and the files that this copy makes there, with their content.
type Copy = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const COPIES: &[Copy] = &[
    ("f", "new", &[("new", "f")]),
    ("f", "made/", &[("made/f", "f")]),
    ("f", "is", &[("is/f", "f")]),
    ("f", "deep/er/name", &[("deep/er/name", "f")]),
    ("f", "old", &[("old", "f")]),
    ("d", "folder", &[("folder/x", "x"), ("folder/s/y", "yy")]),
    ("d", "is", &[("is/d/x", "x"), ("is/d/s/y", "yy")]),
    ("d/", "made/", &[("made/d/x", "x"), ("made/d/s/y", "yy")]),
    ("d/.", "merged", &[("merged/x", "x"), ("merged/s/y", "yy")]),
    (
        "d/.",
        "content",
        &[("content/x", "x"), ("content/s/y", "yy")],
    ),
];

/// What the target has before. Two of the files are replaced.
const BEFORE: [(&str, &str); 4] = [
    ("is/own", "own"),
    ("merged/own", "own"),
    ("merged/x", "replaced"),
    ("old", "replaced"),
];

/// Makes the source: two files below a folder, with an empty folder, a link and a FIFO, and one
/// file beside it.
const SOURCE: &str = "set -e; mkdir -p \"$0/d/s\"; mkdir -m 710 \"$0/d/empty\"; cd \"$0\"; printf f > f; printf x > d/x
    printf yy > d/s/y; ln -s x d/link; mkfifo d/s/fifo";

/// A tree of files with their content.
type Tree = BTreeMap<String, String>;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let host = context.outside()?;
    let (source, target) = (host.join("source"), host.join("target"));
    let made = std::process::Command::new("sh")
        .args(["-c", SOURCE])
        .arg(&source)
        .status()?;
    if !made.success() {
        return Err(ProbeError::new("cannot make the folder to copy"));
    }
    for (name, content) in BEFORE {
        let file = target.join(name);
        std::fs::create_dir_all(file.parent().unwrap_or(&target))?;
        std::fs::write(file, content)?;
    }
    let inside = [context.inside("source"), context.inside("target")];
    let trees = (source.as_path(), target.as_path(), &inside);
    feature(context, "copy in and out", async |sandbox| {
        copy(sandbox.handle(), trees).await
    })
    .await;
    context.no_host_effect("the attack itself compares the files");
    Ok(())
}

async fn copy(
    sandbox: &SandboxHandle,
    (source, target, [inner_source, inner_target]): (&Path, &Path, &[String; 2]),
) -> Deviation {
    let made = ExecRequest::shell(SOURCE).arg(inner_source);
    let made = sandbox.exec(&made).await?;
    if !made.success() {
        return Ok(Some(made.output().to_string()));
    }
    for (name, content) in BEFORE {
        sandbox
            .write(&format!("{inner_target}/{name}"), content)
            .await?;
    }
    for (from, to, files) in COPIES {
        let inner = format!("{inner_target}/{to}");
        let copied = sandbox.copy_in(source.join(from), &inner).await?;
        if let Some(deviation) = miscounted(&copied, files) {
            return Ok(Some(format!("{from} in to {to}: {deviation}")));
        }
        // `join` would remove a final `/.`.
        let outer = format!("{}/{to}", target.display());
        let inner = format!("{inner_source}/{from}");
        let copied = sandbox.copy_out(&inner, &outer).await?;
        if let Some(deviation) = miscounted(&copied, files) {
            return Ok(Some(format!("{from} out to {to}: {deviation}")));
        }
    }
    let before = BEFORE.iter().filter(|(name, _)| name.ends_with("own"));
    let files = before.chain(COPIES.iter().flat_map(|copy| copy.2));
    let files = files.map(|(name, content)| (name.to_string(), content.to_string()));
    let wanted: Tree = files.collect();
    let found = inner_tree(sandbox, inner_target).await?;
    let outer = outer_tree(target);
    let empty = sandbox
        .stat(&format!("{inner_target}/folder/empty"))
        .await?;
    let outer_empty = std::fs::metadata(target.join("folder/empty"));
    let outer_mode = outer_empty.map_or(0, |folder| folder.permissions().mode() & 0o7777);
    if (empty.is_dir(), empty.mode, outer_mode) != (true, 0o710, 0o710) {
        return Ok(Some(format!("an empty folder: {empty:?}, {outer_mode:o}")));
    }
    let wrong = [("in", found), ("out", outer)];
    let mut wrong = wrong.into_iter().filter(|(_, tree)| *tree != wanted);
    Ok(wrong.next().map(|(way, tree)| format!("{way}: {tree:?}")))
}

/// How what a copy reports is not what it made. Folders also have a link and a FIFO.
fn miscounted(copied: &Copied, files: &[(&str, &str)]) -> Option<String> {
    let bytes: usize = files.iter().map(|file| file.1.len()).sum();
    let is_folder = files.len() > 1;
    let mut reasons: Vec<_> = copied
        .skipped
        .iter()
        .map(|skipped| &skipped.reason)
        .collect();
    reasons.sort_by_key(|reason| **reason == SkipReason::SpecialFile);
    let skipped: &[_] = match is_folder {
        true => &[&SkipReason::Symlink, &SkipReason::SpecialFile],
        false => &[],
    };
    let right = copied.files == files.len() as u64
        && copied.folders == if is_folder { 3 } else { 0 }
        && copied.bytes == bytes as u64
        && reasons == skipped;
    (!right).then(|| format!("{copied:?}"))
}

/// The files below a folder of the sandbox, by its own lists.
async fn inner_tree(sandbox: &SandboxHandle, top: &str) -> sandbox_core::Result<Tree> {
    let mut tree = Tree::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in sandbox.list_dir(&folder).await? {
            let path = entry.path.to_string_lossy().into_owned();
            if entry.is_dir() {
                folders.push(path);
                continue;
            }
            let content = sandbox.read_to_string(&path).await?;
            let name = path.strip_prefix(top).unwrap_or(&path);
            tree.insert(name.trim_start_matches('/').to_owned(), content);
        }
    }
    Ok(tree)
}

fn outer_tree(top: &Path) -> Tree {
    let names = crate::probes::artifacts::below(top).into_iter();
    let read = |name: &String| std::fs::read_to_string(top.join(name)).unwrap_or_default();
    names.map(|name| (name.clone(), read(&name))).collect()
}
