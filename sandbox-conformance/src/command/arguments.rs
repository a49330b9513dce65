//! The command line.

use std::path::PathBuf;

use clap::Parser;
#[cfg(feature = "mutants")]
use sandbox_conformance::selfcheck::{Extent, Mutants};
use sandbox_core::registry::Settings;

/// Attacks the linked sandbox tiers and reports which attacks fail, and why that can be believed.
#[derive(Debug, Parser)]
#[command(name = "sandbox-conformance", version)]
pub struct Arguments {
    /// Tier to measure; may be repeated or separated by commas. Without any: every linked tier that applies a policy.
    #[arg(long, value_delimiter = ',')]
    pub tier: Vec<String>,
    /// Tier that must be measured: one that cannot run here, or has no committed profile under --check, fails the run.
    #[arg(long, value_delimiter = ',')]
    pub require: Vec<String>,
    /// Only probes whose names hold this text.
    #[arg(long)]
    pub filter: Vec<String>,
    /// Image of the sandboxes, as TIER=IMAGE.
    #[arg(long, value_name = "TIER=IMAGE", value_parser = pair)]
    pub image: Vec<(String, String)>,
    /// Setting of the tiers, as NAME=VALUE: `runtime=runsc` measures Docker's with gVisor's runtime.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
    /// How many probes run at the same time.
    #[arg(long, default_value_t = 4)]
    pub jobs: usize,
    /// How many sandboxes are created while another one renames what they are given, at least.
    #[arg(long, value_name = "N", default_value_t = sandbox_conformance::CREATIONS)]
    pub creations: u32,
    /// Folder of the reports.
    #[arg(long, default_value = "target/conformance")]
    pub reports: PathBuf,
    /// An earlier report.json, with which what is measured is compared.
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// Folder of the committed profiles, and of the known leaks.
    #[arg(long, default_value = "matrix")]
    pub matrix: PathBuf,
    /// Document that holds the rendered matrix.
    #[arg(long, default_value = "README.md")]
    pub document: PathBuf,
    /// Write what was measured into the folder of the committed profiles.
    #[arg(long)]
    pub write_profile: bool,
    /// Compare what was measured with the committed profiles.
    #[arg(long)]
    pub check: bool,
    /// Measure nothing: compare the committed profiles and the document with this suite.
    #[arg(long)]
    pub check_committed: bool,
    /// Measure nothing: write the matrix of the committed profiles into the document.
    #[arg(long, conflicts_with = "check_committed")]
    pub render: bool,
    /// Measure no tier: run the self-checks alone.
    #[arg(long, conflicts_with_all = ["tier", "require", "skip_self_checks"])]
    pub self_checks_only: bool,
    /// Leave the self-checks out.
    #[arg(long)]
    pub skip_self_checks: bool,
    /// Leave the self-checks and the mutants out because they run elsewhere, for this same build: --check accepts that.
    #[arg(long, conflicts_with = "self_checks_only")]
    pub proven_elsewhere: bool,
    /// Run the mutants alone whose names hold this text; without one all of them run, where the self-checks do.
    #[cfg(feature = "mutants")]
    #[arg(long, value_name = "TEXT", conflicts_with = "tier")]
    pub mutant: Option<String>,
    /// Run every probe on every mutant, not only its own and a sample.
    #[cfg(feature = "mutants")]
    #[arg(long)]
    pub every_probe: bool,
    /// List the probes and run none.
    #[arg(long)]
    pub list: bool,
    /// A line for each probe as it ends, on a terminal or not.
    #[arg(long, short)]
    pub verbose: bool,
}

impl Arguments {
    /// Whether sandboxes are made at all.
    pub fn touches_tiers(&self) -> bool {
        !self.list && !self.render && !self.check_committed
    }

    /// Whether only the suite itself is tested.
    pub fn measures_nothing(&self) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant.is_some() {
            return true;
        }
        self.self_checks_only
    }

    /// Whether the suite proves itself in this run.
    pub fn proves_itself(&self) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant.is_some() {
            return false;
        }
        self.filter.is_empty() && !self.skip_self_checks && !self.proven_elsewhere
    }

    /// The mutants to run, beside these tiers.
    #[cfg(feature = "mutants")]
    pub fn mutants<'a>(&'a self, tiers: &'a [String]) -> Option<Mutants<'a>> {
        let extent = if self.every_probe {
            Extent::Everything
        } else {
            Extent::Sample
        };
        let named = self.mutant.as_deref();
        let chosen = Mutants {
            named,
            engines: named.is_none().then_some(tiers),
            images: &self.image,
            extent,
        };
        (named.is_some() || self.proves_itself()).then_some(chosen)
    }

    /// The settings of every tier that is measured.
    pub fn settings(&self) -> Settings {
        self.settings.iter().cloned().collect()
    }

    /// The image that was named for a tier.
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
