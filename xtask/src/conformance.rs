//! `cargo xtask conformance`: attacks the backends, and says which attacks fail.
//!
//! The suite is a program of its own, so that this one links no backend and compiles fast.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use crate::cargo::{Profile, Workspace};
use crate::engines;
use crate::failure::{Context, Result};
use crate::interrupt;

const PACKAGE: &str = "sandbox-conformance";
/// The folders of the committed profiles below the workspace's root, as the suite's `--matrix` takes them.
pub const PROFILES: &str = "sandbox-{backend}/matrix";
/// What `cargo xtask test` demands of the tasks that it runs, separated by commas.
const REQUIRE_VARIABLE: &str = "SANDBOX_REQUIRE";
/// The requirements in [`REQUIRE_VARIABLE`] that name no tier of root's.
const OTHERS: [&str; 3] = ["root", "podman-rootless", "browser"];

/// Most time for an interrupted suite to remove what it has made; its own bound is shorter.
const CLEAN_UP: Duration = Duration::from_secs(45);
/// Which cluster clients use.
const KUBECONFIG: &str = "KUBECONFIG";
/// The tier of a cluster's pods.
const CLUSTER: &str = "k8s";
/// The variable that chooses the profile of pods, and the profile that is not the default one.
const OTHER_PODS: (&str, &str) = ("SANDBOX_K8S_PROFILE", "restricted");

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Only probes whose names hold this text
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// How many sandboxes are created while another one renames what they are given, at least
    #[arg(long, value_name = "N")]
    creations: Option<u32>,
    /// Compare what was measured with the committed profiles, too
    #[arg(long)]
    check: bool,
    /// Leave out the checks by which the suite proves itself
    #[arg(long)]
    skip_self_checks: bool,
    /// Run the mutants alone whose names hold this text
    #[arg(long, value_name = "TEXT")]
    mutant: Option<String>,
    /// Run every probe on every mutant, not only its own and a sample
    #[arg(long)]
    every_probe: bool,
    /// An earlier report.json, with which what is measured is compared
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// List the probes and run none
    #[arg(long)]
    list: bool,
}

/// The tiers of a run, the same for every task that measures.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// Tiers to measure, separated by commas; without any, all that apply a policy
    #[arg(long, value_delimiter = ',', value_name = "TIER")]
    tier: Vec<String>,
    /// Fail where one of these tiers cannot be measured
    #[arg(long, value_delimiter = ',', value_name = "TIER")]
    require: Vec<String>,
    /// Image of the sandboxes of a tier
    #[arg(long, value_name = "TIER=IMAGE")]
    image: Vec<String>,
    /// How many probes run at the same time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Runs the suite. Reports go to `conformance` in the target folder.
///
/// # Errors
/// When the suite cannot be built or started.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let suite = Suite::build()?;
    let mut command = suite.command();
    arguments.selection.tell(&mut command);
    arguments.tell(&mut command);
    if let Some(earlier) = &arguments.compare {
        // The suite runs in the workspace's folder.
        let earlier = std::path::absolute(earlier)
            .context(|| format!("cannot find {}", earlier.display()))?;
        command.arg("--compare").arg(earlier);
    }
    if arguments.skip_self_checks {
        command.arg("--skip-self-checks");
    }
    if arguments.list {
        command.arg("--list");
    }
    if let Some(mutant) = &arguments.mutant {
        command.args(["--mutant", mutant]);
    }
    if arguments.every_probe {
        command.arg("--every-probe");
    }
    let code = suite.run(&mut command)?;
    if arguments.list || arguments.mutant.is_some() {
        return Ok(code);
    }
    let other = suite.run_other_pods(&arguments.selection, |command| arguments.tell(command))?;
    Ok(worse(code, other))
}

/// The exit code of two runs: the first failure.
pub fn worse(first: ExitCode, second: ExitCode) -> ExitCode {
    if first == ExitCode::SUCCESS {
        second
    } else {
        first
    }
}

impl Arguments {
    /// Tells a run of the suite what is measured of each tier.
    fn tell(&self, command: &mut Command) {
        for filter in &self.filter {
            command.args(["--filter", filter]);
        }
        if let Some(creations) = self.creations {
            command.args(["--creations", &creations.to_string()]);
        }
        if self.check {
            command.arg("--check");
        }
    }
}

impl Selection {
    /// Whether the tier is measured.
    pub fn includes(&self, tier: &str) -> bool {
        self.tier.is_empty() || self.tier.iter().any(|named| named == tier)
    }

    /// Whether the tier must be measured.
    fn requires(&self, tier: &str) -> bool {
        let required = std::env::var(REQUIRE_VARIABLE).unwrap_or_default();
        let mut inherited = required.split(',');
        self.require.iter().any(|named| named == tier) || inherited.any(|named| named == tier)
    }

    /// Tells the suite.
    pub fn tell(&self, command: &mut Command) {
        let required = std::env::var(REQUIRE_VARIABLE).unwrap_or_default();
        let inherited = required
            .split(',')
            .filter(|name| !name.is_empty() && !OTHERS.contains(name));
        for tier in &self.tier {
            command.args(["--tier", tier]);
        }
        for tier in self.require.iter().map(String::as_str).chain(inherited) {
            command.args(["--require", tier]);
        }
        self.tell_images(command);
    }

    /// Tells the suite what does not depend on the tier.
    fn tell_images(&self, command: &mut Command) {
        for image in &self.image {
            command.args(["--image", image]);
        }
        if let Some(jobs) = self.jobs {
            command.args(["--jobs", &jobs.to_string()]);
        }
    }
}

/// The configuration of the cluster that is measured: the user's only where it was asked for.
fn cluster(asked_for: bool) -> Result<String> {
    match asked_for {
        true => engines::kubeconfig(),
        false => engines::own_kubeconfig(),
    }
}

/// The suite's program, built.
#[derive(Debug)]
pub struct Suite {
    workspace: Workspace,
    program: PathBuf,
}

impl Suite {
    /// Builds it.
    ///
    /// # Errors
    /// When cargo fails.
    pub fn build() -> Result<Self> {
        let workspace = Workspace::find()?;
        let programs = workspace.build_programs(Profile::Dev)?;
        let program = programs.file(PACKAGE)?.to_owned();
        Ok(Self { workspace, program })
    }

    /// The program's file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The folder of the committed profiles of a backend.
    pub fn profiles_of(&self, backend: &str) -> PathBuf {
        let folder = PROFILES.replace("{backend}", backend);
        self.workspace.root.join(folder)
    }

    /// The program on this workspace's profiles, documents and reports.
    pub fn command(&self) -> Command {
        self.command_with("conformance")
    }

    /// The same, with reports in this folder below the target folder.
    fn command_with(&self, reports: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--matrix")
            .arg(self.workspace.root.join(PROFILES))
            .arg("--document")
            .arg(self.workspace.root.join("docs/matrix.md"))
            .arg("--summary")
            .arg(self.workspace.root.join("README.md"))
            .arg("--reports")
            .arg(self.workspace.target.join(reports))
            .current_dir(&self.workspace.root);
        command
    }

    /// Measures the pods that the tier does not make by default, where it is measured and a cluster answers. Reports go to a
    /// folder of their own. `tell` says what is done with what was measured.
    ///
    /// # Errors
    /// When the suite cannot be started.
    pub fn run_other_pods(
        &self,
        selection: &Selection,
        tell: impl FnOnce(&mut Command),
    ) -> Result<ExitCode> {
        let (variable, profile) = OTHER_PODS;
        let chosen = std::env::var_os(variable).is_some();
        if chosen || !selection.includes(CLUSTER) || !engines::has_cluster() {
            return Ok(ExitCode::SUCCESS);
        }
        let mut command = self.command_with(&format!("conformance/{CLUSTER}-{profile}"));
        command.env(variable, profile);
        let asked_for =
            selection.requires(CLUSTER) || selection.tier.iter().any(|tier| tier == CLUSTER);
        command.env(KUBECONFIG, cluster(asked_for)?);
        command.args(["--tier", CLUSTER, "--proven-elsewhere"]);
        if selection.requires(CLUSTER) {
            command.args(["--require", CLUSTER]);
        }
        selection.tell_images(&mut command);
        tell(&mut command);
        self.run(&mut command)
    }

    /// Runs a command of the suite and passes its exit code on. Interrupted, it waits until the suite has cleaned up.
    ///
    /// # Errors
    /// When it cannot be started, or there is no place for a cluster of ours.
    pub fn run(&self, command: &mut Command) -> Result<ExitCode> {
        // As in every task: the cluster of `KUBECONFIG` is used only where somebody asks for the tier.
        let is_set = command.get_envs().any(|(name, _)| name == KUBECONFIG);
        if !is_set {
            let names = |argument: &std::ffi::OsStr| {
                argument
                    .to_string_lossy()
                    .split(',')
                    .any(|tier| tier == CLUSTER)
            };
            let asked_for = command.get_args().any(names);
            command.env(KUBECONFIG, cluster(asked_for)?);
        }
        interrupt::run(command.stdin(Stdio::null()), CLEAN_UP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_reaches_the_suite() {
        let selection = Selection {
            tier: vec!["local".into()],
            require: vec!["docker".into()],
            image: vec!["docker=x".into()],
            jobs: Some(2),
        };
        let mut command = Command::new("suite");
        selection.tell(&mut command);
        let told: Vec<_> = command
            .get_args()
            .map(|text| text.to_string_lossy())
            .collect();
        assert_eq!(told[..4], ["--tier", "local", "--require", "docker"]);
        assert!(told.ends_with(&[
            "--image".into(),
            "docker=x".into(),
            "--jobs".into(),
            "2".into()
        ]));
    }
}
