//! Finding and running other programs.

use std::env;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Context, Failure, Result};

/// Searched after `PATH`, because daemons live there and an ordinary user's `PATH` lacks them.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The first executable file called `name` in `PATH` or the system's folders.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(
        name,
        env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from)),
    )
}

fn find_in(name: &str, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// True where this process may install packages and start daemons.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs `command` without input and with all its output on stderr, and waits for it.
///
/// # Errors
/// When it cannot be started or does not exit with 0.
pub fn run_with_progress(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .status()
        .context(|| format!("cannot start {program}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("{program} failed with {status}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_are_found() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("tool");
        std::fs::write(&file, "")?;
        let search = || find_in("tool", [folder.path().to_path_buf()].into_iter());
        assert_eq!(search(), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
        assert_eq!(search(), Some(file));
        Ok(())
    }

    #[test]
    fn a_failing_program_is_an_error() {
        assert_eq!(run_with_progress(&mut Command::new("true")), Ok(()));
        let failure = run_with_progress(&mut Command::new("false"));
        assert_eq!(
            failure.map_err(|e| e.to_string()),
            Err("false failed with exit status: 1".into())
        );
        assert!(run_with_progress(&mut Command::new("/nonexistent/program")).is_err());
    }
}
