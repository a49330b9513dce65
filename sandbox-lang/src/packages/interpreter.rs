//! The programs of sandboxes that install packages, or that packages are for.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_core::policy::Installer;

use super::recipe::recipe;

/// A program that installs packages and that sandboxes see: the host's or an image's. For pip it is
/// the Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    program: PathBuf,
    identity: String,
    home: Home,
}

/// The origin of an interpreter. It determines how to fix what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// The host's.
    Host,
    /// An image's.
    Image,
}

impl Home {
    /// What to do if Python has no pip.
    pub(super) fn provide_pip(self) -> &'static str {
        match self {
            Self::Host => "install it (Debian: apt-get install python3-pip)",
            Self::Image => "use an image that has pip, or build one",
        }
    }

    /// What to do if the package index is unreachable.
    pub(super) fn reach_registry(self) -> &'static str {
        match self {
            Self::Host => "look whether the host's own installer reaches it",
            Self::Image => {
                "look whether a container of the engine, or a pod, reaches it: a registry or a proxy on the host's own loopback it \
                 does not, unless the configuration of an engine names the network \"host\""
            }
        }
    }
}

impl Interpreter {
    /// The first program of the installer in the folders of `path` (as in `PATH`): for pip
    /// `python3`, else `python`. With links followed, it must be in one of the folders `visible`:
    /// sandboxes see no others.
    #[must_use]
    pub fn find(installer: Installer, path: &str, visible: &[PathBuf]) -> Option<Self> {
        let folders = path.split(':').map(Path::new);
        let names = recipe(installer).programs().iter();
        let mut programs = names.flat_map(|name| folders.clone().map(move |at| at.join(name)));
        programs.find_map(|program| Self::at(program, visible))
    }

    fn at(program: PathBuf, visible: &[PathBuf]) -> Option<Self> {
        let real = program.canonicalize().ok()?;
        if !visible.iter().any(|folder| real.starts_with(folder)) {
            return None;
        }
        let found = real.metadata().ok()?;
        let is_program = found.is_file() && found.mode() & 0o111 != 0;
        // An update changes these, and therefore the folder of its packages.
        let identity = format!(
            "{} {} {}.{:09}",
            real.display(),
            found.len(),
            found.mtime(),
            found.mtime_nsec()
        );
        is_program.then_some(Self {
            program,
            identity,
            home: Home::Host,
        })
    }

    /// The installer's program in the `PATH` of an image's sandboxes. The image is identified by its
    /// id, which changes with any of its files.
    #[must_use]
    pub fn of_image(installer: Installer, id: &str) -> Self {
        Self {
            program: recipe(installer).programs()[0].into(),
            identity: format!("image {id}"),
            home: Home::Image,
        }
    }

    /// Its origin.
    pub(super) fn home(&self) -> Home {
        self.home
    }

    /// Its path, or a name to look up in the `PATH` of sandboxes.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Differs for other interpreters and after an update of this one.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn invisible_interpreter_is_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        for name in ["seen", "hidden", "bin"] {
            std::fs::create_dir(base.join(name)).expect("made");
        }
        for name in ["seen/python", "hidden/python3"] {
            std::fs::write(base.join(name), "").expect("written");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(base.join(name), mode).expect("set");
        }
        symlink(base.join("hidden/python3"), base.join("bin/python3")).expect("a link");
        symlink(base.join("seen/python"), base.join("bin/python")).expect("a link");
        let path = format!("/no/such/folder:{}", base.join("bin").display());
        let found =
            Interpreter::find(Installer::Pip, &path, &[base.join("seen")]).expect("one is seen");
        assert_eq!(found.program(), base.join("bin/python"));

        std::fs::write(base.join("seen/python"), "updated").expect("written");
        let updated =
            Interpreter::find(Installer::Pip, &path, &[base.join("seen")]).expect("still there");
        assert_ne!(found.identity(), updated.identity());
        assert_eq!(Interpreter::find(Installer::Pip, &path, &[]), None);
    }
}
