//! `python` in sandboxes of a host that has only `python3`: a link in a folder of the sandbox's own,
//! which is the last of the search path. So it hides no program.

use std::path::{Path, PathBuf};

use sandbox_core::Plan;
use sandbox_host::{PATH, Sandbox};

use crate::host::{Host, Isolation};

/// The folder of the link, in sandboxes with their own root.
pub(crate) const FOLDER: &str = "/.sandbox/bin";

/// The first `python3` in the folders of `path`, if none of them has a `python`.
pub(crate) fn lone_python3(path: &str) -> Option<PathBuf> {
    let find = |name: &str| {
        let programs = path.split(':').map(|folder| Path::new(folder).join(name));
        programs.into_iter().find(|program| program.exists())
    };
    match find("python") {
        Some(_) => None,
        None => find("python3"),
    }
}

/// The default `PATH` of a sandbox.
pub(crate) fn search_path(host: &Host, isolation: Isolation) -> String {
    match host.lone_python3 {
        Some(_) if isolation != Isolation::Landlock => format!("{PATH}:{FOLDER}"),
        _ => PATH.to_owned(),
    }
}

/// A sandbox with its own root, in which `python` is found.
pub(crate) fn with_search_path(
    mut sandbox: Sandbox,
    plan: &Plan,
    host: &Host,
    isolation: Isolation,
) -> Sandbox {
    if !plan.env.contains_key("PATH") {
        let path = search_path(host, isolation);
        sandbox.env.insert("PATH".into(), path);
    }
    sandbox
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python3_is_alone_only_if_no_folder_has_python() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str| {
            let program = folder.path().join(name);
            std::fs::create_dir_all(program.parent().unwrap()).unwrap();
            std::fs::write(&program, "").unwrap();
            program
        };
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name).display().to_string());
        let path = format!("{a}:{b}");
        assert_eq!(lone_python3(&path), None);
        let python3 = program("b/python3");
        assert_eq!(lone_python3(&path), Some(python3));
        program("a/python");
        assert_eq!(lone_python3(&path), None);
    }
}
