//! The options that make the policy of a scan.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use sandbox::scan::{Pattern, Preset, ScanPolicy, Severity};

/// The options of `run` for a scan of its code.
#[derive(Debug, Clone, Args)]
pub struct RunScanOptions {
    /// Scan the code first, and refuse what fails; production if only another --scan option is
    /// given. A scan is advisory and isolates nothing. Only FILE is then copied into the sandbox
    #[arg(long, value_name = "NAME", value_parser = preset(), help_heading = "Scan")]
    scan_preset: Option<Preset>,

    /// Module that the code may not load (repeatable)
    #[arg(long, value_name = "MODULE", help_heading = "Scan")]
    scan_restrict: Vec<String>,

    /// Module that the code may load, and no others (repeatable); an empty name allows none
    #[arg(long, value_name = "MODULE", help_heading = "Scan")]
    scan_allow: Vec<String>,

    /// Regular expression that the code may not match (repeatable)
    #[arg(long, value_name = "REGEX", help_heading = "Scan")]
    scan_pattern: Vec<String>,

    /// Lowest severity that refuses the code [default: the preset's]
    #[arg(long, value_name = "SEVERITY", value_parser = severity(), help_heading = "Scan")]
    scan_threshold: Option<Severity>,
}

/// The options of `scan`.
#[derive(Debug, Clone, Args)]
pub struct ScanOptions {
    /// What to look for
    #[arg(long, value_name = "NAME", value_parser = preset(), default_value = "production")]
    scan_preset: Preset,

    /// Module that the code may not load (repeatable)
    #[arg(long, value_name = "MODULE")]
    restrict: Vec<String>,

    /// Module that the code may load, and no others (repeatable); an empty name allows none
    #[arg(long, value_name = "MODULE")]
    allow: Vec<String>,

    /// Regular expression that the code may not match (repeatable)
    #[arg(long, value_name = "REGEX")]
    pattern: Vec<String>,

    /// Lowest severity that makes the exit code 1 [default: the preset's]
    #[arg(long, value_name = "SEVERITY", value_parser = severity())]
    threshold: Option<Severity>,
}

impl RunScanOptions {
    /// The policy, if a scan is asked for.
    pub fn policy(&self) -> sandbox::Result<Option<ScanPolicy>> {
        let names = [&self.scan_restrict, &self.scan_allow, &self.scan_pattern];
        let has_names = names.iter().any(|names| !names.is_empty());
        if self.scan_preset.is_none() && self.scan_threshold.is_none() && !has_names {
            return Ok(None);
        }
        let preset = self.scan_preset.unwrap_or(Preset::Production);
        policy(preset, names, self.scan_threshold).map(Some)
    }
}

impl ScanOptions {
    /// The policy.
    pub fn policy(&self) -> sandbox::Result<ScanPolicy> {
        let names = [&self.restrict, &self.allow, &self.pattern];
        policy(self.scan_preset, names, self.threshold)
    }
}

fn preset() -> impl clap::builder::TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::as_str)).try_map(|name| name.parse())
}

fn severity() -> impl clap::builder::TypedValueParser<Value = Severity> {
    PossibleValuesParser::new(Severity::ALL.map(Severity::as_str)).try_map(|name| name.parse())
}

fn policy(
    preset: Preset,
    [restrict, allow, patterns]: [&Vec<String>; 3],
    threshold: Option<Severity>,
) -> sandbox::Result<ScanPolicy> {
    let mut policy = preset.policy();
    for module in restrict {
        policy = policy.restrict(module.as_str());
    }
    if !allow.is_empty() {
        policy = policy.allow(allow.iter().filter(|module| !module.is_empty()));
    }
    for (index, regex) in patterns.iter().enumerate() {
        policy.add_pattern(Pattern::new(format!("pattern-{}", index + 1), regex)?);
    }
    Ok(match threshold {
        Some(threshold) => policy.threshold(threshold),
        None => policy,
    })
}
