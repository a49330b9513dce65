//! Artifacts whose names are taken in the output folder.

use std::path::Path;

use crate::probes::prelude::*;

/// What the output folder's own files hold.
const OWN: &str = "the host's own";

/// Short names, and names of 255 bytes: the number has to replace a part of them, and not a part of
/// a letter.
fn names() -> [String; 6] {
    [
        "a.txt".into(),
        "no-extension".into(),
        ".hidden".into(),
        "two.dots.tar.gz".into(),
        "x".repeat(251) + ".txt",
        "\u{fc}".repeat(125) + "1.txt",
    ]
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let folder = format!("{}/taken", context.fixture().export_folder());
    let top = context.output_folder()?;
    let output = top.join("taken");
    crate::host_fixture::make_folder(&output)?;
    for name in names() {
        std::fs::write(output.join(name), OWN)?;
    }
    // A number may be taken as well.
    std::fs::write(output.join("a-1.txt"), OWN)?;
    feature(context, "export under taken names", async |sandbox| {
        for name in names() {
            let path = format!("{folder}/{name}");
            sandbox.handle().write(&path, path.as_str()).await?;
        }
        let export = sandbox.handle().export(&top).await?;
        if export.artifacts.len() != names().len() {
            return Ok(Some(format!("{:?}", export.skipped)));
        }
        let mut artifacts = export.artifacts.iter();
        Ok(artifacts.find_map(|artifact| differs(&output, &artifact.source, &artifact.path)))
    })
    .await;
    let names = names().into_iter().chain(["a-1.txt".into()]);
    let mut contents = names.map(|name| std::fs::read_to_string(output.join(name)));
    let unchanged = contents.all(|content| content.is_ok_and(|content| content == OWN));
    context.check_host("files that were in the output folder", unchanged);
    Ok(())
}

/// How an artifact's new name is not the old one with a number.
fn differs(output: &Path, source: &str, exported: &Path) -> Option<String> {
    let wrong = || Some(format!("{source:?} became {exported:?}"));
    let text = |name: Option<&std::ffi::OsStr>| name?.to_str().map(str::to_owned);
    let source_path = Path::new(source);
    let (Some(old), Some(new)) = (text(source_path.file_stem()), text(exported.file_stem())) else {
        return wrong();
    };
    let Some((stem, number)) = new.rsplit_once('-') else {
        return wrong();
    };
    let wanted = if source.ends_with("/a.txt") { "2" } else { "1" };
    // At most the number's own bytes are lost, and the rest of one letter.
    let lost = old.len() - stem.len().min(old.len());
    let right = exported.parent() == Some(output)
        && exported.extension() == source_path.extension()
        && old.starts_with(stem)
        && number == wanted
        && lost <= if old.len() < 100 { 0 } else { 3 }
        && std::fs::read_to_string(exported).is_ok_and(|content| content == source);
    if right { None } else { wrong() }
}
