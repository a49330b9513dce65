//! Replaces the configuration in a saved image. A commit cannot remove the container's labels or
//! variables from the image.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use serde_json::{Map, Value, json};

/// The archive's list of images.
const MANIFEST: &str = "manifest.json";

/// Path of the new configuration in the archive.
const CONFIG: &str = "sandbox-commit.json";

/// Other lists of images, which would point to the old configuration.
const OTHER_LISTS: [&str; 3] = ["index.json", "oci-layout", "repositories"];

/// Byte limit of a configuration or list; layers have no limit.
const TEXT_LIMIT: u64 = 4 << 20;

/// The image to write.
#[derive(Debug, Clone)]
pub(super) struct CommittedImage {
    /// Its full name with a tag.
    pub name: String,
    /// The `config` of the sandbox's own image.
    pub config: Value,
}

/// Copies the archive of one image, with the configuration in `target`.
///
/// # Errors
///
/// Errors of reading and writing, and an archive in an unknown format.
pub(super) fn repack(from: impl Read, to: impl Write, target: &CommittedImage) -> io::Result<()> {
    let mut archive = tar::Archive::new(from);
    let mut out = tar::Builder::new(to);
    let mut texts = HashMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let name = path.to_string_lossy().into_owned();
        let mut header = entry.header().clone();
        if header.entry_type().is_symlink() || header.entry_type().is_hard_link() {
            let link = entry
                .link_name()?
                .ok_or_else(|| unknown_format("a link without a target"))?;
            out.append_link(&mut header, &path, link)?;
        } else if name == MANIFEST || OTHER_LISTS.contains(&name.as_str()) {
            texts.insert(name, text(&mut entry)?);
        } else if entry.size() <= TEXT_LIMIT && header.entry_type().is_file() {
            let content = text(&mut entry)?;
            out.append_data(&mut header, &path, content.as_slice())?;
            if content.first() == Some(&b'{') {
                texts.insert(name, content);
            }
        } else {
            out.append_data(&mut header, &path, entry)?;
        }
    }
    let (config, layers) = read(&texts)?;
    append(&mut out, CONFIG, &configured(config, target)?)?;
    let manifest = json!([{ "Config": CONFIG, "RepoTags": [target.name], "Layers": layers }]);
    append(&mut out, MANIFEST, &manifest)?;
    out.into_inner()?.flush()
}

fn text(entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    entry.take(TEXT_LIMIT + 1).read_to_end(&mut content)?;
    match content.len() as u64 > TEXT_LIMIT {
        true => Err(unknown_format("a list that is too long")),
        false => Ok(content),
    }
}

/// The configuration of the archive's only image, and the paths of its layers.
fn read(texts: &HashMap<String, Vec<u8>>) -> io::Result<(Map<String, Value>, Value)> {
    let manifest = texts
        .get(MANIFEST)
        .ok_or_else(|| unknown_format("no manifest.json"))?;
    let mut images: Vec<Value> = serde_json::from_slice(manifest)?;
    let image = match (images.pop(), images.len()) {
        (Some(image), 0) => image,
        _ => return Err(unknown_format("not exactly one image")),
    };
    let name = image["Config"].as_str().unwrap_or_default();
    let config = texts
        .get(name)
        .ok_or_else(|| unknown_format("no configuration"))?;
    Ok((serde_json::from_slice(config)?, image["Layers"].clone()))
}

fn configured(mut config: Map<String, Value>, target: &CommittedImage) -> io::Result<Value> {
    // Docker's notes about the committed container.
    config.remove("container");
    config.remove("container_config");
    config.insert("config".into(), target.config.clone());
    if let Some(history) = config.get_mut("history").and_then(Value::as_array_mut) {
        let last = history
            .last_mut()
            .ok_or_else(|| unknown_format("an empty history"))?;
        *last = json!({ "created": last["created"], "created_by": "sandbox commit" });
    }
    Ok(Value::Object(config))
}

fn append(out: &mut tar::Builder<impl Write>, name: &str, content: &Value) -> io::Result<()> {
    let content = serde_json::to_vec(content)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o444);
    out.append_data(&mut header, name, content.as_slice())
}

fn unknown_format(why: &str) -> io::Error {
    let why = format!("the engine saved an image in a way that is not known: {why}");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> CommittedImage {
        CommittedImage {
            name: "docker.io/library/mine:1".into(),
            config: json!({ "Env": ["PATH=/bin"] }),
        }
    }

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, name, *content)
                .expect("file");
        }
        archive.into_inner().expect("archive")
    }

    fn unpack(bytes: &[u8]) -> HashMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(bytes);
        let mut files = HashMap::new();
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("entry");
            let name = entry.path().expect("path").display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("content");
            files.insert(name, content);
        }
        files
    }

    const CONFIGURATION: &[u8] = br#"{"architecture":"amd64","config":{"Labels":{"sandbox.name":"x"},"Env":["SECRET=1"]},
        "container_config":{"Env":["SECRET=1"]},"container":"c","rootfs":{"diff_ids":["a","b"]},
        "history":[{"created_by":"base"},{"created":"now","created_by":"/.sandbox-agent/agent serve"}]}"#;

    #[test]
    fn layers_stay_and_configuration_is_replaced() {
        let layer = vec![7; 5 << 20];
        let saved = archive(&[
            ("a/layer.tar", &layer),
            ("b/json", br#"{"id":"b"}"#),
            ("c.json", CONFIGURATION),
            (
                "manifest.json",
                br#"[{"Config":"c.json","RepoTags":null,"Layers":["a/layer.tar"]}]"#,
            ),
            ("index.json", b"{}"),
            ("repositories", b"{}"),
        ]);
        let mut out = Vec::new();
        repack(saved.as_slice(), &mut out, &target()).expect("repacked");
        let files = unpack(&out);
        assert!(files["a/layer.tar"] == layer && files.contains_key("b/json"));
        assert!(!files.contains_key("index.json") && !files.contains_key("repositories"));
        let manifest: Value = serde_json::from_slice(&files[MANIFEST]).expect("manifest");
        assert_eq!(
            manifest,
            json!([{"Config": CONFIG, "RepoTags": ["docker.io/library/mine:1"], "Layers": ["a/layer.tar"]}])
        );
        let config = String::from_utf8(files[CONFIG].clone()).expect("text");
        for gone in ["SECRET", "sandbox.name", "container", "sandbox-agent"] {
            assert!(!config.contains(gone), "{gone}: {config}");
        }
        let config: Value = serde_json::from_str(&config).expect("JSON");
        assert_eq!(config["config"], target().config);
        assert_eq!(config["rootfs"]["diff_ids"], json!(["a", "b"]));
        assert_eq!(config["history"][0]["created_by"], "base");
    }

    #[test]
    fn unknown_archive_formats_are_refused() {
        let manifest = br#"[{"Config":"c.json","Layers":[]}]"#;
        for files in [
            vec![],
            vec![
                ("manifest.json", b"[]".as_slice()),
                ("c.json", CONFIGURATION),
            ],
            vec![("manifest.json", manifest.as_slice())],
            vec![("manifest.json", b"nonsense".as_slice())],
            vec![("manifest.json", manifest.as_slice()), ("c.json", b"{")],
        ] {
            let repacked = repack(archive(&files).as_slice(), io::sink(), &target());
            assert!(repacked.is_err(), "{files:?}");
        }
        let cut = &archive(&[("c.json", CONFIGURATION)])[..700];
        assert!(repack(cut, io::sink(), &target()).is_err());
    }
}
