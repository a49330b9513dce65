//! Another user, who runs copies of the test programs.
//!
//! The checkout and the target folder may be below a folder that only root can enter (`/root` is
//! 0700). So the workspace's files and the programs are copied to a folder that every user may
//! read.

use std::env;
use std::fs::{self, Permissions};
use std::iter;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{Executable, Workspace, programs};
use crate::engines::Account;
use crate::failure::{Context, Failure};

/// Where the folder may be created, in this order. The paths are short because tests put sockets
/// below them, and the path of a socket has at most 107 bytes.
const PARENTS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// The number of the ordinary user. No account has it, so the user owns no files or processes.
const ORDINARY_USER: u32 = 12_345;
/// Environment variables that the user's programs inherit.
const INHERITED: [&str; 4] = ["LANG", "LC_ALL", "TERM", "RUST_BACKTRACE"];

/// A user with its own folder, which is removed when this is dropped.
#[derive(Debug)]
pub struct User {
    /// The user's numbers, and a part of the environment.
    pub account: Account,
    folder: PathBuf,
}

impl User {
    /// A user without an account.
    ///
    /// # Errors
    ///
    /// If the user's number is in use, or the folder cannot be created.
    pub fn ordinary(workspace: &Workspace, built: &[Executable]) -> Result<Self, Failure> {
        let number = ORDINARY_USER.to_string();
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        if passwd.lines().any(|l| l.split(':').nth(2) == Some(&number)) {
            return Err(Failure::new(format!(
                "user {number} has an account; tests need a number without one"
            )));
        }
        let account = Account {
            uid: ORDINARY_USER,
            gid: ORDINARY_USER,
            environment: Vec::new(),
        };
        Self::with_account(account, workspace, built)
    }

    /// A user with an account.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created, or something cannot be copied.
    pub fn with_account(
        account: Account,
        workspace: &Workspace,
        built: &[Executable],
    ) -> Result<Self, Failure> {
        let temporary = env::temp_dir();
        let parent = iter::once(temporary.as_path())
            .chain(PARENTS.map(Path::new))
            .find(|parent| is_open_to_all(parent))
            .ok_or_else(|| Failure::new("no temporary folder that every user may enter"))?;
        let name = format!("sandbox-user-{}-{}", account.uid, std::process::id());
        let user = Self {
            account,
            folder: parent.join(name),
        };
        let folder = &user.folder;
        create_folder(folder)?;
        for name in ["home", "tmp"] {
            let private = folder.join(name);
            fs::DirBuilder::new()
                .mode(0o700)
                .create(&private)
                .and_then(|()| chown(&private, Some(user.account.uid), Some(user.account.gid)))
                .context(|| format!("cannot create {}", private.display()))?;
        }
        copy_folder(&workspace.root, &user.checkout())?;
        for program in programs(built) {
            copy_program(&program.path, &user.program(&program.name))?;
        }
        Ok(user)
    }

    /// The copied workspace, which the user may read.
    pub fn checkout(&self) -> PathBuf {
        self.folder.join("checkout")
    }

    /// The user's folder for temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// The copy of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The copy of a program, with the whole environment of the user's programs.
    pub fn command(&self, program: &str, folder: PathBuf) -> Command {
        let inherited = INHERITED.map(|name| Some((name, env::var_os(name)?)));
        let mut command = Command::new(self.program(program));
        command
            .current_dir(folder)
            .env_clear()
            .envs(inherited.into_iter().flatten())
            .env("USER", "sandbox-test")
            .envs(self.account.environment.iter().cloned())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.join("home"))
            .env("TMPDIR", self.temporary())
            .env("CARGO_TARGET_TMPDIR", self.temporary())
            .env("INSTA_WORKSPACE_ROOT", self.checkout());
        command
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

fn is_open_to_all(folder: &Path) -> bool {
    let may_enter = |folder: &Path| {
        folder
            .metadata()
            .is_ok_and(|data| data.is_dir() && data.permissions().mode() & 1 == 1)
    };
    folder.is_absolute()
        && folder.ancestors().all(may_enter)
        && rustix::fs::statvfs(folder)
            .is_ok_and(|mount| !mount.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// Copies a folder so that every user may read it. Cargo marks target folders as caches, and they
/// and version control data are left out.
fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    create_folder(to)?;
    let script = "tar -C \"$0\" -c --exclude-vcs --exclude-caches-all . | tar -C \"$1\" -x && \
                  chmod -R a+rX \"$1\"";
    let mut copy = Command::new("bash");
    copy.args(["-o", "pipefail", "-c", script]);
    run(copy.args([from, to]))
}

/// Copies a program so that every user may run it.
///
/// # Errors
///
/// If it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) -> Result<(), Failure> {
    // By another program: a job that starts meanwhile would inherit the open file, which then
    // cannot be executed.
    run(Command::new("install").args(["-m", "755"]).args([from, to]))
}

fn run(command: &mut Command) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        ended => Err(Failure::new(format!("cannot copy: {command:?}: {ended:?}"))),
    }
}

fn create_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .context(|| format!("cannot create {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_below_a_private_one_is_not_accessible_to_all() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let inner = folder.path().join("inner");
        create_folder(&inner).expect("folder");
        let close = Permissions::from_mode(0o700);
        fs::set_permissions(folder.path(), close).expect("mode");
        assert!(!is_open_to_all(&inner), "its parent is 0700");
        assert!(is_open_to_all(Path::new("/")));
        assert!(!is_open_to_all(Path::new("/proc/self/exe")));
    }

    #[test]
    fn copy_excludes_build_output_and_is_readable() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let from = folder.path().join("from");
        let tag = "Signature: 8a477f597d28d172789f06886806bc55";
        for file in ["src/lib.rs", "built/CACHEDIR.TAG", "built/y", ".git/HEAD"] {
            let path = from.join(file);
            fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            fs::write(&path, tag).expect("file");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("mode");
        }
        let to = folder.path().join("to");
        copy_folder(&from, &to).expect("copy");
        let entries = fs::read_dir(&to).expect("folder").flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["src"]);
        let copy = to.join("src/lib.rs").metadata().expect("file");
        assert_eq!(copy.permissions().mode() & 0o777, 0o644);
    }
}
