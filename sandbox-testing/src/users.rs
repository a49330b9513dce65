//! The user of the tests, and runs of a test program as another user.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Set if a run of the tests was started by [`Rerun`].
const RERUN: &str = "SANDBOX_TEST_AGAIN";

/// The effective user ID of this process.
///
/// # Panics
///
/// Without `/proc`.
pub fn current_user() -> u32 {
    std::fs::metadata("/proc/self").expect("procfs").uid()
}

/// Whether the current user is root.
///
/// # Panics
///
/// Without `/proc`.
pub fn is_root() -> bool {
    current_user() == 0
}

/// Why a test that needs root cannot run; `None` if it can.
///
/// # Panics
///
/// Without `/proc`.
pub fn needs_root() -> Option<&'static str> {
    (!is_root()).then_some("needs root")
}

/// A temporary folder that every user may enter.
///
/// # Panics
///
/// If it cannot be created.
pub fn open_folder() -> TempDir {
    let folder = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o755))
        .tempdir();
    folder.expect("a temporary folder")
}

/// Copies a program that will be started.
///
/// A process of its own writes the copy. Otherwise a program that another thread starts could inherit
/// the open file for a moment, and a file that is open for writing cannot be executed.
///
/// # Panics
///
/// If it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--").args([from, to]).status();
    assert!(copied.expect("cp starts").success(), "{}", from.display());
}

/// Another run of the current test program, from a copy that every user may execute.
pub struct Rerun {
    folder: TempDir,
}

impl Rerun {
    /// Copies the test program, and makes a runtime folder that belongs to `user`. `None` is the
    /// current user.
    ///
    /// # Panics
    ///
    /// If a file cannot be made.
    pub fn new(user: Option<u32>) -> Self {
        let folder = open_folder();
        let program = std::env::current_exe().expect("this program");
        copy_program(&program, &folder.path().join("tests"));
        let runtime = folder.path().join("runtime");
        std::fs::create_dir(&runtime).expect("a folder");
        chown(&runtime, user, user).expect("its owner");
        std::fs::set_permissions(&runtime, Permissions::from_mode(0o700)).expect("its mode");
        Self { folder }
    }

    /// Whether this process is such a run.
    pub fn is_current() -> bool {
        std::env::var_os(RERUN).is_some()
    }

    /// The folder with the copy. `runtime` in it is the run's `XDG_RUNTIME_DIR`.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// The command that runs all tests of the copy, still as the current user.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.folder().join("tests"));
        command
            .current_dir("/")
            .env(RERUN, "1")
            .env("XDG_RUNTIME_DIR", self.folder().join("runtime"))
            .env("HOME", "/nonexistent");
        command
    }

    /// Asserts that all tests of a run passed, and at least `min_passed` of them.
    ///
    /// # Panics
    ///
    /// If a test failed or too few passed.
    pub fn assert_passed(output: &Output, min_passed: u32) {
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{errors}");
        // Tests that run in their own process print a result, too.
        let results = text.split("test result: ok. ").skip(1);
        let passed = results
            .filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok())
            .max();
        assert!(passed.is_some_and(|passed| passed >= min_passed), "{text}");
    }
}
