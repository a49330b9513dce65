//! The toolchains of this user that the preset `coding` shows: folders of programs and libraries,
//! never those with credentials or configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox::HostMount;

/// The variables and the home of this user.
pub struct UserEnvironment<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

/// What a sandbox gets of this user's toolchains.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// Their names.
    pub names: Vec<&'static str>,
    /// Their folders and files, read-only and at their own paths.
    pub mounts: Vec<HostMount>,
    /// Folders of programs, for the front of `PATH`.
    pub path: Vec<PathBuf>,
    /// Variables that the programs need.
    pub variables: Vec<(&'static str, OsString)>,
}

/// What Cargo writes, in the sandbox.
const CARGO_HOME: &str = "/tmp/cargo";

impl Toolchains {
    /// The toolchains that this process could run.
    pub fn of_user() -> Self {
        Self::find(&UserEnvironment {
            variable: &|name| std::env::var_os(name),
        })
    }

    fn find(user: &UserEnvironment<'_>) -> Self {
        let mut found = Self::default();
        found.virtual_environment(user);
        found.pyenv(user);
        found.nvm(user);
        found.rust(user);
        found
    }

    /// `pip.conf` of a virtual environment may have a password, so only its parts are shown.
    fn virtual_environment(&mut self, user: &UserEnvironment<'_>) {
        let Some(folder) = user.folder("VIRTUAL_ENV") else {
            return;
        };
        let parts = ["bin", "include", "lib", "lib64", "share", "pyvenv.cfg"];
        if !self.add("venv", &folder, &parts) {
            return;
        }
        self.path.push(folder.join("bin"));
        // Its interpreter may be in a folder of this user, such as that of uv.
        let python = folder.join("bin/python").canonicalize().ok();
        let installation = python.as_deref().and_then(|it| it.parent()?.parent());
        if let Some(installation) = installation.filter(|it| !it.starts_with("/usr")) {
            self.add("python", installation, &["bin", "lib"]);
        }
        self.variables.push(("VIRTUAL_ENV", folder.into()));
    }

    fn pyenv(&mut self, user: &UserEnvironment<'_>) {
        let Some(folder) = user.folder_or("PYENV_ROOT", ".pyenv") else {
            return;
        };
        let parts = ["bin", "libexec", "shims", "versions", "version"];
        if self.add("pyenv", &folder, &parts) {
            self.path.extend([folder.join("shims"), folder.join("bin")]);
            self.variables.push(("PYENV_ROOT", folder.into()));
        }
    }

    /// The version of Node.js that is in use is the one in `PATH`.
    fn nvm(&mut self, user: &UserEnvironment<'_>) {
        let Some(folder) = user.folder_or("NVM_DIR", ".nvm") else {
            return;
        };
        if self.add("nvm", &folder, &["versions"]) {
            let versions = folder.join("versions");
            let path = (user.variable)("PATH").unwrap_or_default();
            let in_use = std::env::split_paths(&path).find(|it| it.starts_with(&versions));
            self.path.extend(in_use);
        }
    }

    /// Cargo's home also has `credentials.toml` and `config.toml`, so only its programs are shown.
    fn rust(&mut self, user: &UserEnvironment<'_>) {
        if let Some(folder) = user.folder_or("RUSTUP_HOME", ".rustup")
            && self.add(
                "rustup",
                &folder,
                &["toolchains", "update-hashes", "settings.toml"],
            )
        {
            self.variables.push(("RUSTUP_HOME", folder.into()));
        }
        if let Some(folder) = user.folder_or("CARGO_HOME", ".cargo")
            && self.add("cargo", &folder, &["bin"])
        {
            self.path.push(folder.join("bin"));
            self.variables.push(("CARGO_HOME", CARGO_HOME.into()));
        }
    }

    /// Adds the existing parts of a folder, unless they are there already. Returns whether one
    /// exists. A link would lead elsewhere, so it is left out.
    fn add(&mut self, name: &'static str, folder: &Path, parts: &[&str]) -> bool {
        let parts = parts.iter().map(|part| folder.join(part));
        let is_there = |path: &PathBuf| {
            let found = path.symlink_metadata();
            found.is_ok_and(|found| found.is_dir() || found.is_file())
        };
        let parts = parts.filter(is_there).collect::<Vec<_>>();
        if parts.is_empty() {
            return false;
        }
        for part in &parts {
            let has = |mount: &HostMount| part.starts_with(&mount.target);
            if !self.mounts.iter().any(has) {
                self.mounts.retain(|it| !it.target.starts_with(part));
                self.mounts.push(HostMount::read_only(part, part));
            }
        }
        self.names.push(name);
        true
    }
}

impl UserEnvironment<'_> {
    /// The folder that a variable names, without links, so that it can be mounted there.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        let folder = PathBuf::from((self.variable)(name)?);
        let folder = folder.is_absolute().then_some(folder)?;
        folder.canonicalize().ok()
    }

    /// The folder that a variable names, else one in the home.
    fn folder_or(&self, name: &str, in_home: &str) -> Option<PathBuf> {
        match (self.variable)(name) {
            Some(_) => self.folder(name),
            None => self.folder("HOME")?.join(in_home).canonicalize().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn make(base: &Path, files: &[&str]) {
        for file in files {
            let path = base.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
    }

    fn find(variables: &[(&str, &Path)]) -> Toolchains {
        let variables = variables.iter().copied().collect::<BTreeMap<_, _>>();
        Toolchains::find(&UserEnvironment {
            variable: &|name| variables.get(name).map(|path| path.as_os_str().to_owned()),
        })
    }

    #[test]
    fn toolchains_are_shown_without_credentials_and_configuration() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        make(
            &home,
            &[
                ".cargo/bin/cargo",
                ".cargo/credentials.toml",
                ".cargo/config.toml",
                ".cargo/registry/index/x",
                ".rustup/toolchains/stable/bin/rustc",
                ".rustup/settings.toml",
                ".rustup/downloads/x",
                ".pyenv/versions/3.12/bin/python",
                ".pyenv/shims/python",
                ".nvm/versions/node/v22/bin/node",
                ".nvm/alias/default",
                "venv/bin/activate",
                "venv/lib/python3/site.py",
                "venv/pyvenv.cfg",
                "venv/pip.conf",
                ".npmrc",
                ".netrc",
            ],
        );
        let found = find(&[
            ("HOME", &home),
            ("VIRTUAL_ENV", &home.join("venv")),
            ("PATH", &home.join(".nvm/versions/node/v22/bin")),
        ]);
        assert_eq!(found.names, ["venv", "pyenv", "nvm", "rustup", "cargo"]);
        assert!(found.mounts.iter().all(|mount| mount.read_only));
        let shown = found.mounts.iter().map(|mount| {
            assert_eq!(mount.source, mount.target);
            mount.source.strip_prefix(&home).unwrap().to_str().unwrap()
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "venv/bin",
                "venv/lib",
                "venv/pyvenv.cfg",
                ".pyenv/shims",
                ".pyenv/versions",
                ".nvm/versions",
                ".rustup/toolchains",
                ".rustup/settings.toml",
                ".cargo/bin",
            ]
        );
        let path = found.path.iter().map(|it| it.strip_prefix(&home).unwrap());
        let path = path.map(|it| it.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(
            path,
            [
                "venv/bin",
                ".pyenv/shims",
                ".pyenv/bin",
                ".nvm/versions/node/v22/bin",
                ".cargo/bin"
            ]
        );
        assert!(found.variables.contains(&("CARGO_HOME", CARGO_HOME.into())));
    }

    #[test]
    fn interpreter_of_a_virtual_environment_is_shown_once() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        make(
            &home,
            &["uv/python/bin/python3", "uv/python/lib/x", "venv/bin/pip"],
        );
        let python = home.join("venv/bin/python");
        std::os::unix::fs::symlink(home.join("uv/python/bin/python3"), python).unwrap();
        let found = find(&[("VIRTUAL_ENV", &home.join("venv"))]);
        let shown = found.mounts.iter().map(|it| it.source.clone());
        let expected = ["venv/bin", "uv/python/bin", "uv/python/lib"];
        assert_eq!(
            shown.collect::<Vec<_>>(),
            expected.map(|path| home.join(path))
        );
    }

    #[test]
    fn nothing_is_shown_of_a_user_without_toolchains() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(find(&[("HOME", home.path())]), Toolchains::default());
        assert_eq!(find(&[]), Toolchains::default());
    }
}
