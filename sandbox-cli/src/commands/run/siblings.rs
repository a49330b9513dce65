//! The modules beside a program.

use std::path::{Path, PathBuf};

use sandbox::Language;

use super::language::of_path;

/// At most this many entries of a folder are looked at.
const ENTRIES: usize = 10_000;

/// The folder of a program, if it has modules that the program may import. `None` for a folder that
/// holds much more than a program: a home, one above it, or one that everybody may write to.
pub fn folder(file: &Path, language: Option<&Language>) -> Option<PathBuf> {
    let file = std::path::absolute(file).ok()?;
    let language = language.cloned().or_else(|| of_path(&file))?;
    let folder = file.parent()?;
    let real = folder.canonicalize().ok()?;
    if is_broad(&real) || !has_modules(&real, file.file_name()?, &language) {
        return None;
    }
    Some(folder.to_owned())
}

/// Whether a folder is likely to hold what a program should not read.
pub fn is_broad(folder: &Path) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.and_then(|home| home.canonicalize().ok());
    let is_above_home = home.is_some_and(|home| home.starts_with(folder));
    // Only /, /tmp, /home and the like have one part or none.
    is_above_home || folder.components().count() <= 2 || is_shared(folder)
}

/// Whether everybody may write to a folder, like `/var/tmp`.
fn is_shared(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    folder
        .metadata()
        .map_or(true, |metadata| metadata.mode() & 0o002 != 0)
}

fn has_modules(folder: &Path, program: &std::ffi::OsStr, language: &Language) -> bool {
    let Ok(entries) = folder.read_dir() else {
        return false;
    };
    entries.take(ENTRIES).flatten().any(|entry| {
        if entry.file_name() == program {
            return false;
        }
        let path = entry.path();
        match language.name.as_str() {
            "python" => {
                of_path(&path).is_some_and(|found| found.name == language.name)
                    || path.join("__init__.py").is_file()
            }
            "javascript" => {
                let imports = ["node_modules", "package.json"];
                of_path(&path).is_some_and(|found| found.name == language.name)
                    || imports.iter().any(|name| entry.file_name() == *name)
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_of(files: &[&str]) -> Option<PathBuf> {
        let place = tempfile::tempdir().unwrap();
        for name in files {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = folder(&place.path().join(files[0]), None);
        assert!(found.as_ref().is_none_or(|found| found == place.path()));
        found
    }

    #[test]
    fn folder_with_modules_is_found() {
        assert!(folder_of(&["main.py", "util.py"]).is_some());
        assert!(folder_of(&["main.py", "package/__init__.py"]).is_some());
        assert!(folder_of(&["main.js", "util.mjs"]).is_some());
    }

    #[test]
    fn program_alone_does_not_open_its_folder() {
        assert_eq!(folder_of(&["main.py"]), None);
        assert_eq!(folder_of(&["main.py", "secret.env", "data/x.csv"]), None);
        assert_eq!(folder_of(&["main.sh", "other.sh"]), None);
    }

    #[test]
    fn broad_folders_are_never_opened() {
        for broad in ["/", "/tmp", "/home", "/var/tmp"] {
            assert!(is_broad(Path::new(broad)), "{broad}");
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        if let Some(home) = home.and_then(|home| home.canonicalize().ok()) {
            assert!(is_broad(&home));
        }
        assert!(!is_broad(Path::new("/usr/share/doc")));
    }
}
