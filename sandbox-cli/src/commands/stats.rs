//! `sandbox stats`: what a detached sandbox uses.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use sandbox::{ByteSize, ErrorKind, SandboxHandle, SandboxStats};
use serde::Serialize;

use super::detached::TierOption;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::output::{Format, FormatOption, print, print_json};
use crate::table::table;

/// Time between two measurements with `--follow`.
const INTERVAL: Duration = Duration::from_secs(1);

/// The options of `stats`.
#[derive(Debug, Args)]
pub struct StatsArguments {
    /// Name of the sandbox
    name: String,

    #[command(flatten)]
    tier: TierOption,

    /// Measure again each second until the sandbox ends
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct StatsDocument<'a> {
    name: &'a str,
    tier: &'a str,
    labels: &'a BTreeMap<String, String>,
    /// `null` is what cannot be measured here.
    stats: SandboxStats,
}

/// Runs the subcommand.
pub fn run(arguments: &StatsArguments) -> Outcome {
    if arguments.follow && arguments.format.format == Format::Json {
        return Err(CommandError::argument("--follow supports only text output"));
    }
    super::until_interrupted(&arguments.tier, &arguments.name, async |sandbox| {
        arguments.show(sandbox).await
    })
}

impl StatsArguments {
    async fn show(&self, sandbox: &SandboxHandle) -> Outcome {
        let stats = sandbox.stats().await?;
        match self.format.format {
            Format::Json => print_json(&StatsDocument {
                name: sandbox.name(),
                tier: sandbox.tier(),
                labels: &sandbox.plan().labels,
                stats,
            })?,
            Format::Text => print(&table(&[header(), row(sandbox.name(), &stats)]))?,
        }
        if !self.follow {
            return Ok(Exit::SUCCESS);
        }
        loop {
            tokio::time::sleep(INTERVAL).await;
            match sandbox.stats().await {
                Ok(stats) => print(&table(&[row(sandbox.name(), &stats)]))?,
                Err(error) if error.kind() == ErrorKind::SandboxEnded => return Ok(Exit::SUCCESS),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn header() -> Vec<String> {
    let columns = [
        "NAME",
        "CPU TIME",
        "MEMORY",
        "PEAK",
        "PROCESSES",
        "READ",
        "WRITTEN",
        "SENT",
        "RECEIVED",
    ];
    columns.map(str::to_owned).to_vec()
}

/// Columns of a fixed width: rows that come later are aligned too.
fn row(name: &str, stats: &SandboxStats) -> Vec<String> {
    let processes = stats.processes.map(|number| number.to_string());
    let values = [
        cpu_time(stats),
        size(stats.memory),
        size(stats.memory_peak),
        processes,
        size(stats.read),
        size(stats.written),
        size(stats.egress_sent),
        size(stats.egress_received),
    ];
    let widths = [8, 8, 8, 9, 8, 8, 8, 8];
    let values = values
        .into_iter()
        .zip(widths)
        .map(|(value, width)| format!("{:<width$}", or_dash(value)));
    std::iter::once(name.to_owned()).chain(values).collect()
}

pub(super) fn cpu_time(stats: &SandboxStats) -> Option<String> {
    let time = stats.cpu_time?;
    Some(format!("{:.2}s", time.as_secs_f64()))
}

pub(super) fn size(bytes: Option<u64>) -> Option<String> {
    bytes.map(|bytes| rounded(bytes).to_string())
}

/// What is not known is a dash.
pub(super) fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// A size that is written in at most seven characters: whole units.
fn rounded(bytes: u64) -> ByteSize {
    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * KIB;
    match bytes {
        0..KIB => ByteSize::bytes(bytes),
        KIB..MIB => ByteSize::kib(bytes.div_ceil(KIB)),
        _ => ByteSize::mib(bytes.div_ceil(MIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_dashes() {
        let mut stats = SandboxStats::default();
        stats.cpu_time = Some(Duration::from_millis(1250));
        stats.memory = Some(3 * 1024 * 1024 + 1);
        stats.processes = Some(0);
        stats.egress_sent = Some(1025);
        let text = table(&[header(), row("lab", &stats)]);
        let expected = "\
NAME  CPU TIME  MEMORY    PEAK      PROCESSES  READ      WRITTEN   SENT      RECEIVED
lab   1.25s     4MiB      -         0          -         -         2KiB      -
";
        assert_eq!(text, expected);
    }
}
