//! Looks at what npm installed: packages whose install scripts did not run.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};

use sandbox_core::{Error, ErrorKind, Result};
use serde::Deserialize;

/// The file in which npm lists what it installed.
const LIST: &str = ".package-lock.json";

/// The maximum length of the list in bytes.
const MAX_LIST: u64 = 64 * 1024 * 1024;

/// How many packages a note names.
const MAX_NAMED: usize = 5;

/// What npm wrote about one package.
#[derive(Deserialize)]
struct Listed {
    #[serde(default, rename = "hasInstallScript")]
    has_install_script: bool,
}

#[derive(Deserialize)]
struct List {
    /// By path in the project.
    packages: BTreeMap<String, Listed>,
}

/// Refuses a package that its install script would compile, and returns a note about those whose
/// scripts did something else. The list is only believed about what is missing.
pub(super) fn inspect(folder: &Path) -> Result<Option<String>> {
    let list = read(&folder.join(LIST)).map_err(|cause| {
        let context = format!("npm's list of the packages: {cause}");
        Error::new(ErrorKind::InstallFailed, "install packages", context)
            .with_fix("use npm 7 or newer, which writes this list")
    })?;
    let mut skipped = Vec::new();
    for (path, listed) in &list.packages {
        if !listed.has_install_script {
            continue;
        }
        let Some((name, path)) = below(path) else {
            continue;
        };
        let package = folder.join(path);
        let has = |name: &str| package.join(name).symlink_metadata().is_ok();
        if has("binding.gyp") && !has("prebuilds") && !has("build/Release") {
            let context =
                format!("{name} must be compiled, which would run its code with the network");
            return Err(
                Error::new(ErrorKind::PackageNeedsBuild, "install packages", context)
                    .with_fix("name a package or a version with prebuilt binaries"),
            );
        }
        skipped.push(name);
    }
    skipped.sort_unstable();
    skipped.dedup();
    let more = match skipped.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    skipped.truncate(MAX_NAMED);
    Ok((!skipped.is_empty()).then(|| {
        format!(
            "the install scripts of npm packages did not run: {}{more}",
            skipped.join(", ")
        )
    }))
}

/// A regular file of limited length.
fn read(path: &Path) -> std::io::Result<List> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = std::fs::File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_LIST).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The name of a package, and its path below the folder. `None` for a path that leads elsewhere, and
/// for names that no registry has.
fn below(path: &str) -> Option<(&str, &Path)> {
    let path = path.strip_prefix("node_modules/")?;
    let (_, name) = path.rsplit_once("node_modules/").unwrap_or(("", path));
    let is_name = name.len() <= 214
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "@/._-~".contains(c));
    let path = Path::new(path);
    let is_below = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (is_name && is_below).then_some((name, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(packages: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let list = format!("{{\"lockfileVersion\": 3, \"packages\": {packages}}}");
        std::fs::write(folder.path().join(LIST), list).expect("written");
        folder
    }

    #[test]
    fn skipped_scripts_are_named() {
        let quiet = installed(r#"{"node_modules/a": {"version": "1"}}"#);
        assert_eq!(inspect(quiet.path()).expect("usable"), None);
        let loud = installed(
            r#"{"node_modules/b": {"hasInstallScript": true},
                "node_modules/a/node_modules/@s/c": {"hasInstallScript": true},
                "node_modules/../../etc": {"hasInstallScript": true},
                "node_modules/\u001b[31m": {"hasInstallScript": true},
                "/etc": {"hasInstallScript": true}}"#,
        );
        let note = inspect(loud.path()).expect("usable").expect("a note");
        assert!(note.ends_with("did not run: @s/c, b"), "{note}");
    }

    #[test]
    fn package_that_must_be_compiled_is_refused() {
        let folder = installed(r#"{"node_modules/native": {"hasInstallScript": true}}"#);
        let native = folder.path().join("native");
        std::fs::create_dir(&native).expect("made");
        std::fs::write(native.join("binding.gyp"), "{}").expect("written");
        let error = inspect(folder.path()).expect_err("source alone");
        assert_eq!(error.kind(), ErrorKind::PackageNeedsBuild, "{error}");
        std::fs::create_dir(native.join("prebuilds")).expect("made");
        assert!(inspect(folder.path()).expect("usable").is_some());
    }

    #[test]
    fn missing_or_strange_list_is_an_error() {
        let folder = installed("[]");
        inspect(folder.path()).expect_err("no list");
        std::fs::remove_file(folder.path().join(LIST)).expect("removed");
        inspect(folder.path()).expect_err("no file");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join(LIST)).expect("a link");
        inspect(folder.path()).expect_err("a link");
    }
}
