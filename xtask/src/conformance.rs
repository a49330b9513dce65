//! `cargo xtask conformance`: attacks the backends, and reports which attacks are denied.
//!
//! The suite is a separate program, so that this one links no backend and compiles fast.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use crate::cargo::{Executable, PROGRAMS, Workspace, program};
use crate::engines::{self, ScriptArguments};
use crate::failure::Failure;
use crate::interrupt;

/// The package of the suite, and its program.
pub const PACKAGE: &str = "sandbox-conformance";
/// The folders of the committed profiles below the workspace's root, in the form of the suite's
/// `--matrix`.
pub const PROFILES: &str = "sandbox-{backend}/matrix";
/// How long an interrupted suite may take to remove its sandboxes. Its own limit is shorter.
const CLEAN_UP: Duration = Duration::from_secs(45);
/// The backend of a cluster's pods.
const CLUSTER: &str = "k8s";
/// The variable that chooses the pod profile, and the profile that is not the default.
const OTHER_PODS: (&str, &str) = ("SANDBOX_K8S_PROFILE", "restricted");
/// Options of the suite with which no backend is measured.
const MEASURES_NOTHING: [&str; 5] = ["--list", "--mutant", "--self-checks-only", "--help", "-h"];
/// The option that measures the suite itself: ci/mutation-score.py.
const MUTATION_SCORE: &str = "--mutation-score";

/// Runs the suite with its own arguments. Reports go to `conformance` in the target folder.
///
/// # Errors
///
/// If the suite cannot be built or started.
pub fn run(arguments: &ScriptArguments) -> Result<ExitCode, Failure> {
    if arguments.arguments.contains(&MUTATION_SCORE.to_owned()) {
        return engines::run("mutation-score.py", arguments);
    }
    let suite = Suite::build()?;
    let measures_nothing =
        |word: &String| MEASURES_NOTHING.contains(&word.split('=').next().unwrap_or(word));
    match arguments.arguments.iter().any(measures_nothing) {
        true => suite.run(&arguments.arguments),
        false => suite.measure(&arguments.arguments),
    }
}

/// The exit code of two runs: the first failure.
pub fn worse(first: ExitCode, second: ExitCode) -> ExitCode {
    match first == ExitCode::SUCCESS {
        true => second,
        false => first,
    }
}

/// The backends that arguments of the suite name with `option`.
pub fn named(arguments: &[String], option: &str) -> Vec<String> {
    let with_equals = format!("{option}=");
    let after = arguments.windows(2).filter(|pair| pair[0] == option);
    let joined = arguments
        .iter()
        .filter_map(|word| word.strip_prefix(&with_equals));
    after
        .map(|pair| pair[1].as_str())
        .chain(joined)
        .flat_map(|list| list.split(',').map(str::to_owned))
        .collect()
}

/// The suite's program, built.
#[derive(Debug)]
pub struct Suite {
    /// The workspace.
    pub workspace: Workspace,
    /// All programs of the workspace.
    pub built: Vec<Executable>,
}

impl Suite {
    /// Builds it.
    ///
    /// # Errors
    ///
    /// If cargo fails.
    pub fn build() -> Result<Self, Failure> {
        let workspace = Workspace::find()?;
        let built = workspace.build(PROGRAMS)?;
        Ok(Self { workspace, built })
    }

    /// The folder of the committed profiles of a backend.
    pub fn profiles_of(&self, backend: &str) -> PathBuf {
        let folder = PROFILES.replace("{backend}", backend);
        self.workspace.root.join(folder)
    }

    /// Runs the suite on this workspace's profiles and documents, and passes its exit code on.
    /// Interrupted, it waits until the suite has cleaned up.
    ///
    /// # Errors
    ///
    /// If the suite cannot be started.
    pub fn run(&self, arguments: &[String]) -> Result<ExitCode, Failure> {
        interrupt::run(self.command("conformance", arguments)?, CLEAN_UP)
    }

    /// Runs the suite, and then on the pod profile that is not the default, if the arguments
    /// include the backend and a cluster answers.
    ///
    /// # Errors
    ///
    /// If the suite cannot be started.
    pub fn measure(&self, arguments: &[String]) -> Result<ExitCode, Failure> {
        let code = self.run(arguments)?;
        let (variable, profile) = OTHER_PODS;
        let tiers = named(arguments, "--tier");
        let is_measured = tiers.is_empty() || tiers.iter().any(|tier| tier == CLUSTER);
        if !is_measured || std::env::var_os(variable).is_some() || !engines::has_cluster() {
            return Ok(code);
        }
        let reports = format!("conformance/{CLUSTER}-{profile}");
        let mut command = self.command(&reports, &only_cluster(arguments))?;
        command.env(variable, profile);
        Ok(worse(code, interrupt::run(command, CLEAN_UP)?))
    }

    /// The suite with its reports in a folder below the target folder.
    fn command(&self, reports: &str, arguments: &[String]) -> Result<Command, Failure> {
        let mut command = command(program(&self.built, PACKAGE)?, &self.workspace.root);
        command
            .arg("--reports")
            .arg(self.workspace.target.join(reports))
            .args(arguments)
            .stdin(Stdio::null());
        // The cluster of `KUBECONFIG` is used only where the caller asks for a cluster.
        let mut asked = named(arguments, "--tier");
        asked.extend(named(arguments, "--require"));
        let kubeconfig = match asked.iter().any(|tier| tier == CLUSTER) {
            true => engines::kubeconfig()?,
            false => engines::own_kubeconfig()?,
        };
        command.env("KUBECONFIG", kubeconfig);
        Ok(command)
    }
}

/// The suite with the profiles and documents of the workspace at `root`.
pub fn command(program: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg("--matrix")
        .arg(root.join(PROFILES))
        .arg("--document")
        .arg(root.join("docs/matrix.md"))
        .arg("--summary")
        .arg(root.join("README.md"));
    command
}

/// The arguments for a run on the cluster only, without the self-checks, which another run has.
fn only_cluster(arguments: &[String]) -> Vec<String> {
    let mut only = vec!["--tier".to_owned(), CLUSTER.to_owned()];
    if named(arguments, "--require").contains(&only[1]) {
        only.extend(["--require".to_owned(), CLUSTER.to_owned()]);
    }
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--tier" | "--require" => drop(rest.next()),
            "--skip-self-checks" | "--proven-elsewhere" => {}
            word if word.starts_with("--tier=") || word.starts_with("--require=") => {}
            _ => only.push(word.clone()),
        }
    }
    only.push("--proven-elsewhere".to_owned());
    only
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn backends_are_named_with_a_space_or_an_equals_sign() {
        let arguments = words("--tier local,docker --check --tier=k8s");
        assert_eq!(named(&arguments, "--tier"), ["local", "docker", "k8s"]);
        assert_eq!(named(&arguments, "--require"), Vec::<String>::new());
    }

    #[test]
    fn run_on_the_cluster_only_keeps_other_arguments() {
        let arguments = words("--tier local,k8s --jobs 2 --require k8s --check");
        let expected = "--tier k8s --require k8s --jobs 2 --check --proven-elsewhere";
        assert_eq!(only_cluster(&arguments), words(expected));
    }
}
