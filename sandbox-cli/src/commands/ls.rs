//! `sandbox ls`: the detached sandboxes, and with `--all` the attached ones.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use clap::Args;
use futures_util::StreamExt as _;
use sandbox::registry::Registration;
use sandbox::{
    CapabilityPolicy, Error, ErrorKind, SandboxClient, SandboxInfo, SandboxOwner, SandboxState,
    SandboxStats,
};
use serde::Serialize;

use super::detached::{ANSWER_TIMEOUT, detached_tiers, unanswered};
use super::stats::{cpu_time, or_dash, size};
use crate::command_error::{CommandError, ErrorObject, Outcome};
use crate::exit::Exit;
use crate::output::{Format, FormatOption, print, print_json};
use crate::table::table;
use sandbox::spi::escape;

/// How many sandboxes of a tier are measured at the same time.
const AT_ONCE: usize = 8;

/// The options of `ls`.
#[derive(Debug, Args)]
pub struct LsArguments {
    /// Only sandboxes of this tier
    #[arg(short, long, value_name = "TIER")]
    backend: Option<String>,

    /// Also list sandboxes that are attached to the process that created them
    #[arg(short, long)]
    all: bool,

    /// Also show the processor time and memory of running sandboxes
    #[arg(short, long)]
    stats: bool,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct ListDocument {
    sandboxes: Vec<SandboxRow>,
    /// Errors of tiers that did not answer.
    errors: Vec<ErrorObject>,
}

#[derive(Serialize)]
struct SandboxRow {
    name: String,
    tier: String,
    state: SandboxState,
    created: String,
    expires: Option<String>,
    labels: BTreeMap<String, String>,
    /// The owner of an attached sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<SandboxOwner>,
    /// With `--stats`, what a running sandbox has used.
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<SandboxStats>,
}

/// A sandbox, and what it has used if that was asked for.
struct Listed {
    info: SandboxInfo,
    stats: Option<SandboxStats>,
}

/// Runs the subcommand.
pub fn run(arguments: &LsArguments) -> Outcome {
    let tiers = detached_tiers(arguments.backend.as_deref())?;
    let (sandboxes, failures) = super::block_on(list_all(tiers, arguments))?;
    // An unavailable engine is a failure only if `--backend` names it.
    let absent = |failure: &CommandError| {
        arguments.backend.is_none() && failure.kind() == ErrorKind::SandboxUnavailable.as_str()
    };
    let exit = if failures.iter().all(absent) {
        Exit::SUCCESS
    } else {
        Exit::FAILED
    };
    match arguments.format.format {
        Format::Json => print_json(&ListDocument {
            sandboxes: sandboxes.iter().map(row).collect(),
            errors: failures
                .into_iter()
                .map(CommandError::into_object)
                .collect(),
        })?,
        Format::Text => {
            for failure in failures {
                failure.report(Format::Text);
            }
            print(&text(&sandboxes, arguments, SystemTime::now()))?;
        }
    }
    Ok(exit)
}

/// Lists the sandboxes of all tiers at the same time, in the order of the tiers. Returns the errors
/// of the tiers too. A tier that does not answer in time is an error, unless `--backend` names it.
async fn list_all(
    tiers: Vec<&'static Registration>,
    arguments: &LsArguments,
) -> (Vec<Listed>, Vec<CommandError>) {
    let LsArguments { all, stats, .. } = *arguments;
    let named = arguments.backend.is_some();
    let mut lists = Vec::new();
    for tier in tiers {
        lists.push(tokio::spawn(async move {
            let client = SandboxClient::open(tier.tier, CapabilityPolicy::new())?;
            let listed = list(&client, all);
            let listed = match named {
                true => Ok(listed.await),
                false => tokio::time::timeout(ANSWER_TIMEOUT, listed).await,
            };
            match listed {
                Ok(Ok(listed)) if stats => Ok(measured(&client, listed).await),
                Ok(Ok(listed)) => Ok((listed.into_iter().map(Listed::from).collect(), Vec::new())),
                Ok(Err(error)) if named => Err(error.into()),
                Ok(Err(error)) => match unanswered(&client, error) {
                    Some(error) => Err(CommandError::from(error)),
                    None => Ok(Default::default()),
                },
                Err(_) => Err(did_not_answer(tier.tier)),
            }
        }));
    }
    let (mut sandboxes, mut failures) = (Vec::new(), Vec::new());
    for list in lists {
        match list.await {
            Ok(Ok((listed, unmeasured))) => {
                sandboxes.extend(listed);
                failures.extend(unmeasured);
            }
            Ok(Err(failure)) => failures.push(failure),
            Err(stopped) => failures.push(CommandError::io("list sandboxes", &stopped.into())),
        }
    }
    (sandboxes, failures)
}

fn did_not_answer(tier: &str) -> CommandError {
    let why = format!(
        "{tier} did not answer within {} s",
        ANSWER_TIMEOUT.as_secs()
    );
    Error::unavailable(tier, why, format!("`sandbox ls -b {tier}` waits for it")).into()
}

async fn list(client: &SandboxClient, all: bool) -> sandbox::Result<Vec<SandboxInfo>> {
    let list = match all {
        true => client.list_all().await,
        false => client.list().await,
    };
    list.map_err(|error| match error.kind() {
        ErrorKind::Unsupported => error.with_fix("`sandbox ls` lists those of all tiers"),
        _ => error,
    })
}

impl From<SandboxInfo> for Listed {
    fn from(info: SandboxInfo) -> Self {
        Self { info, stats: None }
    }
}

/// Measures the sandboxes that run and that this process may use, [`AT_ONCE`] at a time, so that
/// one that does not answer delays few. Returns the errors too.
async fn measured(
    client: &SandboxClient,
    sandboxes: Vec<SandboxInfo>,
) -> (Vec<Listed>, Vec<CommandError>) {
    let measures = sandboxes.into_iter().map(|info| measure(client, info));
    let all: Vec<_> = futures_util::stream::iter(measures)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let (all, failures): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    (all, failures.into_iter().flatten().collect())
}

async fn measure(client: &SandboxClient, info: SandboxInfo) -> (Listed, Option<CommandError>) {
    let mut listed = Listed::from(info);
    let info = &listed.info;
    if info.state != SandboxState::Running || info.owner.is_some() {
        return (listed, None);
    }
    let stats = async { client.get(&info.name).await?.stats().await };
    let failure = match tokio::time::timeout(ANSWER_TIMEOUT, stats).await {
        Ok(Ok(stats)) => {
            listed.stats = Some(stats);
            None
        }
        // It has ended meanwhile.
        Ok(Err(error))
            if matches!(
                error.kind(),
                ErrorKind::SandboxEnded | ErrorKind::SandboxNotFound
            ) =>
        {
            None
        }
        Ok(Err(error)) => Some(error.into()),
        Err(_) => Some(did_not_answer(&info.tier)),
    };
    (listed, failure)
}

fn row(Listed { info, stats }: &Listed) -> SandboxRow {
    SandboxRow {
        stats: *stats,
        name: info.name.clone(),
        tier: info.tier.clone(),
        state: info.state,
        created: time(info.created),
        expires: info.expires.map(time),
        labels: info.labels.clone(),
        owner: info.owner.clone(),
    }
}

/// A time as `2026-01-31T12:00:00Z`.
pub fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

fn text(sandboxes: &[Listed], arguments: &LsArguments, now: SystemTime) -> String {
    if sandboxes.is_empty() {
        return String::new();
    }
    let mut heading = vec!["NAME", "TIER", "STATE", "AGE", "ENDS IN"];
    if arguments.stats {
        heading.extend(["CPU TIME", "MEMORY"]);
    }
    if arguments.all {
        heading.push("OWNER");
    }
    heading.push("LABELS");
    let mut lines = vec![heading.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for Listed { info, stats } in sandboxes {
        let age = now.duration_since(info.created).unwrap_or_default();
        let time_left = match (info.state, info.expires) {
            (SandboxState::Running, Some(expires)) => {
                brief(expires.duration_since(now).unwrap_or_default())
            }
            _ => "-".to_owned(),
        };
        let labels = info
            .labels
            .iter()
            .map(|(name, value)| escape(&format!("{name}={value}")))
            .collect::<Vec<_>>();
        let mut line = vec![
            info.name.clone(),
            info.tier.clone(),
            info.state.as_str().to_owned(),
            brief(age),
            time_left,
        ];
        if arguments.stats {
            let stats = stats.unwrap_or_default();
            line.extend([cpu_time(&stats), size(stats.memory)].map(or_dash));
        }
        if arguments.all {
            let owner = info.owner.as_ref().map(ToString::to_string);
            line.push(owner.unwrap_or_else(|| "detached".to_owned()));
        }
        line.push(labels.join(","));
        lines.push(line);
    }
    table(&lines)
}

/// The two largest units.
pub fn brief(duration: Duration) -> String {
    let units = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    units.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_shows_name_state_and_age() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let ago = |seconds| now - Duration::from_secs(seconds);
        let mut running = SandboxInfo::new("lab", "local", SandboxState::Running, ago(61));
        running.expires = Some(now + Duration::from_secs(3599));
        running.labels.insert("team".into(), "a\n".into());
        let ended = SandboxInfo::new("old", "local", SandboxState::Ended, ago(90_061));
        let mut arguments = LsArguments {
            backend: None,
            all: false,
            stats: false,
            format: FormatOption {
                format: Format::Text,
            },
        };
        assert_eq!(
            text(&[running.clone().into(), ended.into()], &arguments, now),
            "NAME  TIER   STATE    AGE     ENDS IN  LABELS\n\
             lab   local  running  1m 1s   59m 59s  team=a\\n\n\
             old   local  ended    1day 1h  -\n"
                .replace("AGE     ENDS", "AGE      ENDS")
                .replace("1m 1s   59m", "1m 1s    59m")
        );
        assert_eq!(text(&[], &arguments, now), "");
        let mut attached = SandboxInfo::new("mine", "local", SandboxState::Running, ago(2));
        attached.owner = Some(SandboxOwner::process(42));
        running.labels.clear();
        (arguments.all, arguments.stats) = (true, true);
        let mut measured = Listed::from(running);
        let mut stats = SandboxStats::default();
        stats.cpu_time = Some(Duration::from_millis(1250));
        measured.stats = Some(stats);
        let lines = text(&[measured, attached.into()], &arguments, now);
        let cells = |line: &str| {
            let cells = line.split("  ").map(str::trim);
            cells
                .filter(|cell| !cell.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let lines = lines.lines().map(cells).collect::<Vec<_>>();
        assert_eq!(
            lines[0],
            [
                "NAME", "TIER", "STATE", "AGE", "ENDS IN", "CPU TIME", "MEMORY", "OWNER", "LABELS"
            ]
        );
        assert_eq!(
            lines[1],
            [
                "lab", "local", "running", "1m 1s", "59m 59s", "1.25s", "-", "detached"
            ]
        );
        assert_eq!(
            lines[2],
            [
                "mine",
                "local",
                "running",
                "2s",
                "-",
                "-",
                "-",
                "process 42"
            ]
        );
    }
}
