//! Everything that programs of an ordinary user find: files, environment, and nobody beside them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::user_folder::UserFolder;
use super::{Run, descendants, supervise};
use crate::cargo::Executable;
use crate::engines::Owner;
use crate::failure::{Failure, Result};

/// The first user number to try; one that nobody has.
const FIRST_USER: u32 = 12_345;
/// Where tests find our command, when the place where cargo built it cannot be read.
const COMMAND_VARIABLE: &str = "SANDBOX_TEST_BIN";
const COMMAND: &str = "sandbox";
/// What the user's environment holds besides what is set below.
const PASSED_ON: [&str; 4] = ["LANG", "LC_ALL", "TERM", "RUST_BACKTRACE"];
/// Most time for killed processes to disappear.
const PATIENCE: Duration = Duration::from_secs(5);

/// A user, with a copy of the workspace and of its programs.
#[derive(Debug)]
pub struct UserStage {
    folder: UserFolder,
    user: u32,
    group: u32,
    /// What the user finds in the environment besides what every user does.
    environment: Vec<(String, String)>,
    /// Whether nobody but this stage is this user.
    alone: bool,
    checkout: PathBuf,
    programs: BTreeMap<String, PathBuf>,
}

impl UserStage {
    /// Copies the workspace and those of `built` that are no tests, for a user that nobody is.
    ///
    /// # Errors
    /// When no user is free, or something cannot be copied.
    pub fn set(run: &Run<'_>, built: &[Executable]) -> Result<Self> {
        let user = free_user()?;
        let nobody = Owner {
            user,
            group: user,
            environment: Vec::new(),
        };
        Ok(Self {
            alone: true,
            ..Self::set_for(run, built, nobody)?
        })
    }

    /// The same for a user who has other programs, too, which are left alone.
    ///
    /// # Errors
    /// When something cannot be copied.
    pub fn set_for(run: &Run<'_>, built: &[Executable], owner: Owner) -> Result<Self> {
        let Owner {
            user,
            group,
            environment,
        } = owner;
        let folder = UserFolder::create(user)?;
        let checkout = folder.copy_workspace(run.workspace)?;
        let mut programs = BTreeMap::new();
        for program in built.iter().filter(|built| !built.test) {
            let copy = folder.copy_program(&program.path, Path::new(&program.name))?;
            programs.insert(program.name.clone(), copy);
        }
        Ok(Self {
            folder,
            user,
            group,
            environment,
            alone: false,
            checkout,
            programs,
        })
    }

    /// The user's number.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// The copied workspace, which the user may read.
    pub fn checkout(&self) -> &Path {
        &self.checkout
    }

    /// The user's folder for temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.folder.path.join("tmp")
    }

    /// The copy of one of the workspace's programs.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn program(&self, name: &str) -> Result<&Path> {
        let found = self.programs.get(name).map(PathBuf::as_path);
        found.ok_or_else(|| Failure::new(format!("cargo has built no program {name}")))
    }

    /// Copies one more program to `below`, which is relative.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn copy_program(&self, from: &Path, below: &Path) -> Result<PathBuf> {
        self.folder.copy_program(from, below)
    }

    /// The user's call of `program`, in the copied folder of `package` as cargo would call a test.
    pub fn command(&self, program: &Path, package: &str) -> Command {
        let manifest = self.checkout.join(package);
        let mut command = Command::new(program);
        command
            .current_dir(&manifest)
            // As root, the standard library drops the supplementary groups with the user.
            .uid(self.user)
            .gid(self.group)
            .env_clear()
            .envs(
                PASSED_ON
                    .iter()
                    .filter_map(|name| Some((name, env::var_os(name)?))),
            )
            .env("USER", "sandbox-test")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path.join("home"))
            .env("TMPDIR", self.temporary())
            .env("CARGO_MANIFEST_DIR", &manifest)
            .env("CARGO_TARGET_TMPDIR", self.temporary())
            .env("INSTA_WORKSPACE_ROOT", &self.checkout)
            .env("INSTA_UPDATE", "no");
        for (name, path) in &self.programs {
            command.env(format!("CARGO_BIN_EXE_{name}"), path);
        }
        if let Some(program) = self.programs.get(COMMAND) {
            command.env(COMMAND_VARIABLE, program);
        }
        command
    }

    /// Ends whatever still runs and says what it was, where nobody but this stage is this user.
    ///
    /// # Errors
    /// When something cannot be ended.
    pub fn end_processes(&self, name: &str) -> Result<Option<String>> {
        if !self.alone {
            return Ok(None);
        }
        let begin = Instant::now();
        let mut list = Vec::new();
        loop {
            let left: Vec<_> = descendants::of_user(self.user)
                .into_iter()
                .filter(|process| !process.zombie)
                .collect();
            if left.is_empty() {
                let said = format!("{name} left running: {} (ended now)", list.join(", "));
                return Ok((!list.is_empty()).then_some(said));
            }
            if begin.elapsed() > PATIENCE {
                return Err(Failure::new(format!(
                    "{name}: cannot end {}",
                    list.join(", ")
                )));
            }
            for process in left {
                let text = descendants::describe(&process);
                if !list.contains(&text) {
                    list.push(text);
                }
                supervise::kill(&process)?;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A number that no account, no group and no process has.
fn free_user() -> Result<u32> {
    let mut taken = Vec::new();
    for file in ["/etc/passwd", "/etc/group"] {
        // A machine without one of the files has no entries in it.
        let text = fs::read_to_string(file).unwrap_or_default();
        taken.extend(
            text.lines()
                .filter_map(|line| line.split(':').nth(2)?.parse::<u32>().ok()),
        );
    }
    (FIRST_USER..FIRST_USER + 1000)
        .find(|user| !taken.contains(user) && descendants::of_user(*user).is_empty())
        .ok_or_else(|| Failure::new("found no user number that is free"))
}
