//! The command line.

use std::path::PathBuf;

use clap::Parser;
#[cfg(feature = "mutants")]
use sandbox_conformance::selfcheck::{Mutants, ProbeSelection};
use sandbox_core::registry::Settings;

/// Attacks the linked sandbox tiers, and reports which attacks are denied and why.
#[derive(Debug, Parser)]
#[command(name = "sandbox-conformance", version)]
pub struct CommandLine {
    /// Tier to measure; may be repeated or separated by commas. Default: every linked tier that
    /// applies a policy.
    #[arg(long, value_delimiter = ',')]
    pub tier: Vec<String>,
    /// Tier that must be measured. The run fails if it cannot run here, or if it has no committed
    /// profile under --check.
    #[arg(long, value_delimiter = ',')]
    pub require: Vec<String>,
    /// Run only probes whose ids contain this text.
    #[arg(long)]
    pub filter: Vec<String>,
    /// Image of the sandboxes, as TIER=IMAGE.
    #[arg(long, value_name = "TIER=IMAGE", value_parser = pair)]
    pub image: Vec<(String, String)>,
    /// Setting of the tiers, as NAME=VALUE. `runtime=runsc` measures Docker with gVisor's runtime.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
    /// Number of probes that run at the same time.
    #[arg(long, default_value_t = 4)]
    pub jobs: usize,
    /// Minimum number of sandboxes created while another sandbox renames their folders; a slow
    /// tier may make fewer than the default.
    #[arg(long, value_name = "N", default_value_t = sandbox_conformance::CREATIONS)]
    pub creations: u32,
    /// Folder of the reports.
    #[arg(long, default_value = "target/conformance")]
    pub reports: PathBuf,
    /// Earlier report.json to compare with.
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// Folder of the committed profiles and the known leaks. `{backend}` in it stands for the name
    /// of the tier's backend.
    #[arg(long, value_name = "DIR", default_value = "sandbox-{backend}/matrix")]
    pub matrix: PathBuf,
    /// Document that contains the whole rendered matrix.
    #[arg(long, value_name = "FILE", default_value = "docs/matrix.md")]
    pub document: PathBuf,
    /// Document that contains the short rendered matrix.
    #[arg(long, value_name = "FILE", default_value = "README.md")]
    pub summary: PathBuf,
    /// Write the measured profiles into the folder of the committed profiles.
    #[arg(long)]
    pub write_profile: bool,
    /// Compare the measured profiles with the committed ones.
    #[arg(long)]
    pub check: bool,
    /// Measure nothing: compare the committed profiles and both documents with this suite.
    #[arg(long)]
    pub check_committed: bool,
    /// Measure nothing: write the matrix of the committed profiles into both documents.
    #[arg(long, conflicts_with = "check_committed")]
    pub render: bool,
    /// Measure no tier: run only the self-checks.
    #[arg(long, conflicts_with_all = ["tier", "require", "skip_self_checks"])]
    pub self_checks_only: bool,
    /// Skip the self-checks.
    #[arg(long)]
    pub skip_self_checks: bool,
    /// Skip the self-checks and mutants because they run elsewhere for this build. --check accepts
    /// that.
    #[arg(long, conflicts_with = "self_checks_only")]
    pub proven_elsewhere: bool,
    /// Run only the mutants whose names contain this text. Without it, all mutants run with the
    /// self-checks.
    #[cfg(feature = "mutants")]
    #[arg(long, value_name = "TEXT", conflicts_with = "tier")]
    pub mutant: Option<String>,
    /// Run every probe on every mutant.
    #[cfg(feature = "mutants")]
    #[arg(long)]
    pub every_probe: bool,
    /// Run on each mutant only the probes that must notice it.
    #[cfg(feature = "mutants")]
    #[arg(long, conflicts_with = "every_probe")]
    pub own_probes: bool,
    /// List the probes and run none.
    #[arg(long)]
    pub list: bool,
    /// Print a line for each probe as it ends, on a terminal or not.
    #[arg(long, short)]
    pub verbose: bool,
}

impl CommandLine {
    /// Whether the run creates sandboxes.
    pub fn touches_tiers(&self) -> bool {
        !self.list && !self.render && !self.check_committed
    }

    /// Whether the run tests only the suite itself.
    pub fn measures_nothing(&self) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant.is_some() {
            return true;
        }
        self.self_checks_only
    }

    /// Whether the run includes the self-checks.
    pub fn proves_itself(&self) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant.is_some() {
            return false;
        }
        self.filter.is_empty() && !self.skip_self_checks && !self.proven_elsewhere
    }

    /// The mutants to run with these tiers.
    #[cfg(feature = "mutants")]
    pub fn mutants<'a>(&'a self, tiers: &'a [String]) -> Option<Mutants<'a>> {
        let selection = match (self.every_probe, self.own_probes) {
            (true, _) => ProbeSelection::Everything,
            (false, true) => ProbeSelection::Own,
            (false, false) => ProbeSelection::Sample,
        };
        let named = self.mutant.as_deref();
        let chosen = Mutants {
            named,
            engines: named.is_none().then_some(tiers),
            images: &self.image,
            selection,
        };
        (named.is_some() || self.proves_itself()).then_some(chosen)
    }

    /// The settings of every tier that is measured.
    pub fn settings(&self) -> Settings {
        self.settings.iter().cloned().collect()
    }

    /// The image for a tier.
    pub fn image_of(&self, tier: &str) -> Option<String> {
        self.image
            .iter()
            .find(|(name, _)| name == tier)
            .map(|(_, image)| image.clone())
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    split(text).ok_or_else(|| "write it as TIER=IMAGE".into())
}

fn setting(text: &str) -> Result<(String, String), String> {
    split(text).ok_or_else(|| "write it as NAME=VALUE".into())
}

fn split(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let whole = !name.is_empty() && !value.is_empty();
    whole.then(|| (name.to_owned(), value.to_owned()))
}
