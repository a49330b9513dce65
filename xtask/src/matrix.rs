//! `cargo xtask matrix`: the committed matrix against what is measured, or the other way round.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::conformance::{Suite, named, worse};
use crate::engines::{self, Owner};
use crate::failure::{Context, Failure, Result};
use crate::process;

/// The user as whom root measures the local backend once more. No account has this number.
const ORDINARY_USER: u32 = 54_320;

/// What to do with the committed matrix.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("mode").required(true)))]
pub struct Arguments {
    /// Measure, and fail where the committed profiles, docs/matrix.md or README.md differ
    #[arg(long, group = "mode")]
    check: bool,
    /// As `--check`, without measuring anything
    #[arg(long, group = "mode")]
    check_committed: bool,
    /// Measure, and write the profiles, docs/matrix.md and README.md
    #[arg(long, group = "mode")]
    write: bool,
    /// More arguments of the suite, such as --tier docker
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    suite: Vec<String>,
}

/// Checks or writes the matrix.
///
/// # Errors
/// When the suite cannot be built or started, or a profile cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let suite = Suite::build()?;
    let committed = |mode: &str| suite.run("conformance", &[mode.to_owned()]);
    let measured = |mode: &str| {
        let mut words = arguments.suite.clone();
        words.push(mode.to_owned());
        let code = suite.run("conformance", &words)?;
        Ok(worse(code, suite.run_other_pods(&words)?))
    };
    if arguments.check_committed {
        return committed("--check-committed");
    }
    if arguments.write {
        let code = measured("--write-profile")?;
        if process::is_root() {
            write_as_others(&suite, &named(&arguments.suite, "--tier"))?;
        }
        let rendered = committed("--render")?;
        return Ok(worse(code, rendered));
    }
    let offline = committed("--check-committed")?;
    Ok(worse(offline, measured("--check")?))
}

/// Measures the backends that differ for other users than root.
fn write_as_others(suite: &Suite, tiers: &[String]) -> Result<()> {
    let includes = |name: &str| tiers.is_empty() || tiers.iter().any(|tier| tier == name);
    if includes("local") {
        let ordinary = Owner {
            user: ORDINARY_USER,
            group: ORDINARY_USER,
            environment: Vec::new(),
        };
        write_as(suite, "local", &ordinary)?;
    }
    if includes("podman") {
        match engines::rootless_owner() {
            Ok(owner) => write_as(suite, "podman", &owner)?,
            Err(failure) => eprintln!("not measured: {failure}"),
        }
    }
    Ok(())
}

/// Measures a backend as another user, and copies the profile into the workspace.
fn write_as(suite: &Suite, tier: &str, owner: &Owner) -> Result<()> {
    let folder = Folder::create(owner)?;
    let program = folder.path.join("suite");
    fs::copy(suite.program(), &program).context(|| "cannot copy the suite".to_owned())?;
    let profiles = folder.path.join("matrix");
    let status = Command::new(&program)
        .args(["--tier", tier, "--skip-self-checks", "--write-profile"])
        .arg("--matrix")
        .arg(&profiles)
        .arg("--reports")
        .arg(folder.path.join("reports"))
        .current_dir(&folder.path)
        .env_clear()
        .envs(owner.environment.iter().map(|(name, value)| (name, value)))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &folder.path)
        .env("TMPDIR", &folder.path)
        .uid(owner.user)
        .gid(owner.group)
        .status()
        .context(|| format!("cannot start the suite as user {}", owner.user))?;
    if !status.success() {
        eprintln!("as user {} the suite ended with {status}", owner.user);
    }
    let entries =
        fs::read_dir(&profiles).context(|| format!("no profile as user {}", owner.user))?;
    for entry in entries {
        let entry = entry.context(|| "cannot read the profiles".to_owned())?;
        // The tiers that are measured as another user have the names of their backends.
        let target = suite.profiles_of(tier).join(entry.file_name());
        fs::copy(entry.path(), &target).context(|| format!("cannot write {}", target.display()))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o644))
            .context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

/// A folder of the ordinary user's, removed in the end.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn create(owner: &Owner) -> Result<Self> {
        let path =
            Path::new("/var/tmp").join(format!("sandbox-xtask-matrix-{}", std::process::id()));
        fs::create_dir(&path).context(|| format!("cannot make {}", path.display()))?;
        let folder = Self { path };
        chown(&folder.path, Some(owner.user), Some(owner.group))
            .map_err(|error| Failure::new(format!("{}: {error}", folder.path.display())))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}
