//! `cargo xtask matrix`: compares the committed matrix with a measurement, or writes it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use crate::conformance::{PACKAGE, Suite, named, worse};
use crate::engines;
use crate::failure::{Context, Failure};
use crate::test::user::User;

/// What to do with the committed matrix.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("mode").required(true)))]
pub struct MeasureArguments {
    /// Measure, and fail if the committed profiles, docs/matrix.md or README.md differ
    #[arg(long, group = "mode")]
    check: bool,
    /// Like --check, without measuring anything
    #[arg(long, group = "mode")]
    check_committed: bool,
    /// Measure, and write the profiles, docs/matrix.md and README.md
    #[arg(long, group = "mode")]
    write: bool,
    /// More arguments for the suite, such as --tier docker
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
///
/// If the suite cannot be built or started, or a profile cannot be written.
pub fn run(arguments: &MeasureArguments) -> Result<ExitCode, Failure> {
    let suite = Suite::build()?;
    let committed = |mode: &str| suite.run(&[mode.to_owned()]);
    let measured = |mode: &str| {
        let mut words = arguments.suite.clone();
        words.push(mode.to_owned());
        suite.measure(&words)
    };
    if arguments.check_committed {
        return committed("--check-committed");
    }
    if arguments.write {
        let code = measured("--write-profile")?;
        if rustix::process::geteuid().is_root() {
            write_as_others(&suite, &named(&arguments.suite, "--tier"))?;
        }
        return Ok(worse(code, committed("--render")?));
    }
    let offline = committed("--check-committed")?;
    Ok(worse(offline, measured("--check")?))
}

/// Measures the backends whose results depend on the user, as users other than root.
fn write_as_others(suite: &Suite, tiers: &[String]) -> Result<(), Failure> {
    let includes = |name: &str| tiers.is_empty() || tiers.iter().any(|tier| tier == name);
    let (workspace, built) = (&suite.workspace, &suite.built);
    if includes("local") {
        write_as(suite, "local", &User::ordinary(workspace, built)?)?;
    }
    if includes("podman") {
        match engines::rootless_owner() {
            Ok(owner) => {
                let user = User::with_account(owner, workspace, built)?;
                write_as(suite, "podman", &user)?;
            }
            Err(failure) => eprintln!("not measured: {failure}"),
        }
    }
    Ok(())
}

/// Measures a backend as another user, and copies the profile into the workspace.
fn write_as(suite: &Suite, tier: &str, user: &User) -> Result<(), Failure> {
    let profiles = user.temporary().join("matrix");
    let uid = user.account.uid;
    let status = user
        .command(PACKAGE, user.temporary())
        .args(["--tier", tier, "--skip-self-checks", "--write-profile"])
        .arg("--matrix")
        .arg(&profiles)
        .arg("--reports")
        .arg(user.temporary().join("reports"))
        .uid(uid)
        .gid(user.account.gid)
        .status()
        .context(|| format!("cannot start the suite as user {uid}"))?;
    if !status.success() {
        eprintln!("as user {uid} the suite ended with {status}");
    }
    let doing = || format!("no profile as user {uid}");
    for entry in fs::read_dir(&profiles).context(doing)? {
        let entry = entry.context(doing)?;
        // The tiers that are measured as another user have the names of their backends.
        let target = suite.profiles_of(tier).join(entry.file_name());
        let copied = fs::copy(entry.path(), &target);
        copied.context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}
