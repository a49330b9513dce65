//! The test images and the pod's own, as archives that containerd takes. No registry is asked.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::configuration::PAUSE;
use super::containers::ctr;
use super::layout::Layout;
use super::output;
use crate::failure::{Context, Failure, Result};
use crate::images;

/// An image as an archive.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    references: Vec<String>,
}

/// The archives of all images, made where they are missing.
///
/// # Errors
/// When one cannot be made.
pub fn archives(layout: &Layout) -> Result<Vec<Archive>> {
    let folder = layout.cache.join("images");
    fs::create_dir_all(&folder).context(|| format!("cannot create {}", folder.display()))?;
    let mut archives = vec![pause(layout, &folder)?];
    for image in images::for_clusters()? {
        let references: Vec<_> = image
            .references
            .iter()
            .map(|name| full_name(name))
            .collect();
        let path = folder.join(format!("{}-{}.tar", image.name, image.hash));
        if !path.exists() {
            write(&image.layer, &references, &image.environment, &path)?;
        }
        archives.push(Archive { path, references });
    }
    Ok(archives)
}

/// Brings into containerd what it does not have.
///
/// # Errors
/// When it cannot be asked, or refuses an archive.
pub fn import(layout: &Layout, archives: &[Archive]) -> Result<()> {
    let present = output(ctr(layout).args(["images", "ls", "-q"]))?;
    for archive in archives {
        let has = |name: &String| present.lines().any(|line| line == name);
        if !archive.references.iter().all(has) {
            output(ctr(layout).args(["images", "import"]).arg(&archive.path))?;
        }
    }
    Ok(())
}

/// What containerd calls an image that has no registry's name in front.
fn full_name(reference: &str) -> String {
    match reference.split_once('/') {
        None => format!("docker.io/library/{reference}"),
        Some((first, _)) if first == "localhost" || first.contains(['.', ':']) => {
            reference.to_owned()
        }
        Some(_) => format!("docker.io/{reference}"),
    }
}

fn pause(layout: &Layout, folder: &Path) -> Result<Archive> {
    let path = folder.join("pause.tar");
    let references = vec![PAUSE.to_owned()];
    if !path.exists() {
        let layer = folder.join("pause.layer.tar");
        let program = layout.program("pause");
        let doing = || format!("cannot write {}", layer.display());
        let mut builder = Builder::new(File::create(&layer).context(doing)?);
        builder
            .append_path_with_name(&program, "pause")
            .and_then(|()| builder.finish())
            .context(doing)?;
        write(
            &layer,
            &references,
            &json!({"Entrypoint": ["/pause"], "User": "65535:65535"}),
            &path,
        )?;
        fs::remove_file(&layer).context(|| format!("cannot remove {}", layer.display()))?;
    }
    Ok(Archive { path, references })
}

/// An archive as `docker save` makes them, with one layer.
fn write(layer: &Path, references: &[String], config: &Value, path: &Path) -> Result<()> {
    let digest = digest(layer)?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let description = json!({
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let place = format!("{digest}/layer.tar");
    let manifest = json!([{"Config": "config.json", "RepoTags": references, "Layers": [place]}]);
    let partial = path.with_extension("tar.partial");
    let doing = || format!("cannot write {}", partial.display());
    let save = || -> io::Result<()> {
        let mut builder = Builder::new(BufWriter::new(File::create(&partial)?));
        for (name, value) in [("config.json", &description), ("manifest.json", &manifest)] {
            let bytes = value.to_string().into_bytes();
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(0o644);
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, name, bytes.as_slice())?;
        }
        builder.append_path_with_name(layer, &place)?;
        builder.into_inner()?.into_inner()?.sync_all()?;
        fs::rename(&partial, path)
    };
    save().context(doing)
}

/// The SHA-256 of a file, which is how images name their layers.
fn digest(path: &Path) -> Result<String> {
    let line = output(Command::new("sha256sum").arg(path))?;
    let digest = line.split(' ').next().unwrap_or_default();
    match digest.len() {
        64 => Ok(digest.to_owned()),
        _ => Err(Failure::new(format!(
            "sha256sum says {line:?} of {}",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_engines_complete_them() {
        for (short, full) in [
            ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
            (
                "sandbox-test/busybox:latest",
                "docker.io/sandbox-test/busybox:latest",
            ),
            ("localhost/pause:3.2", "localhost/pause:3.2"),
            ("example.org/a:1", "example.org/a:1"),
        ] {
            assert_eq!(full_name(short), full);
        }
    }

    #[test]
    fn an_archive_names_its_layer_by_its_digest() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let layer = folder.path().join("layer.tar");
        fs::write(&layer, "layer").expect("write");
        let path = folder.path().join("image.tar");
        write(&layer, &["localhost/a:1".to_owned()], &json!({}), &path).expect("written");
        let mut archive = tar::Archive::new(File::open(&path).expect("archive"));
        let names: Vec<_> = archive
            .entries()
            .expect("entries")
            .map(|entry| {
                entry
                    .expect("entry")
                    .path()
                    .expect("path")
                    .display()
                    .to_string()
            })
            .collect();
        // What `printf layer | sha256sum` prints.
        let digest = digest(&layer).expect("digest");
        assert_eq!(
            names,
            [
                "config.json",
                "manifest.json",
                &format!("{digest}/layer.tar")
            ]
        );
    }
}
