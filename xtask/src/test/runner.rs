//! Runs one job.

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::job::{Job, Lane, OutputKind};
use super::results::{self, Counts};
use super::{name_of, user};
use crate::failure::{Context, Failure};

/// How a job ended.
#[derive(Debug)]
pub struct JobReport {
    /// The lane.
    pub lane: Lane,
    /// The name within the lane.
    pub name: String,
    /// How long it took.
    pub took: Duration,
    /// How long processors worked on it, without the work of engines.
    pub cpu_time: Option<Duration>,
    /// The counts of its tests, if it counts any. They include failures.
    pub counts: Counts,
    /// The lines that explain the failure, if it failed.
    pub failure: Option<String>,
    /// The tests that were ignored, with their reasons.
    pub ignored: Vec<String>,
}

/// Runs a job with its output in a file below `logs`.
pub fn run(job: &Job, logs: &Path) -> JobReport {
    let start = Instant::now();
    let name = job.name.replace([' ', '/', ','], "-");
    let log = logs.join(format!("{}-{name}.log", name_of(&job.lane)));
    let status = start_and_wait(job, logs, &log);
    let output = fs::read(&log).unwrap_or_default();
    let mut output = String::from_utf8_lossy(&output).into_owned();
    let cpu_time = results::take_cpu_time(&mut output);
    let (counts, failure) = judge(status, &output, job.output, &log);
    JobReport {
        lane: job.lane,
        name: job.name.clone(),
        took: start.elapsed(),
        cpu_time,
        counts,
        failure,
        ignored: results::ignored(&output).collect(),
    }
}

fn start_and_wait(job: &Job, logs: &Path, log: &Path) -> Result<ExitStatus, Failure> {
    fs::create_dir_all(logs).context(|| format!("cannot create {}", logs.display()))?;
    let doing = || format!("cannot write {}", log.display());
    let file = File::create(log).context(doing)?;
    let errors = file.try_clone().context(doing)?;
    if let Some((from, to)) = &job.copy {
        user::copy_program(from, to)?;
    }
    let status = supervised(job)?
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .status()
        .context(|| "cannot start the supervisor");
    if let Some((_, copy)) = &job.copy {
        // Debug binaries are large.
        fs::remove_file(copy).context(|| format!("cannot remove {}", copy.display()))?;
    }
    status
}

/// The job's command below a supervisor, with the same folder and environment.
fn supervised(job: &Job) -> Result<Command, Failure> {
    let program = env::current_exe().context(|| "cannot find this program")?;
    let mut command = Command::new(program);
    command.arg("supervise");
    command.args(["--limit", &job.limit.as_secs().to_string()]);
    if let Some((uid, gid)) = job.user {
        command.args(["--user", &uid.to_string()]);
        command.args(["--group", &gid.to_string()]);
        command.env_clear();
    }
    for (name, value) in job.command.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(folder) = job.command.get_current_dir() {
        command.current_dir(folder);
    }
    command.arg("--");
    // Probes measure time, so the suite comes first, and compilers come last.
    let niceness = match (job.lane, job.output) {
        (Lane::Checks, OutputKind::Plain | OutputKind::ManyTests) => Some("19"),
        (_, OutputKind::Plain) => None,
        _ => Some("5"),
    };
    if let Some(niceness) = niceness {
        command.args(["nice", "-n", niceness]);
    }
    command.arg(job.command.get_program());
    command.args(job.command.get_args());
    Ok(command)
}

/// The counts of a job, and why it has failed.
fn judge(
    status: Result<ExitStatus, Failure>,
    output: &str,
    kind: OutputKind,
    log: &Path,
) -> (Counts, Option<String>) {
    let counts = match kind {
        OutputKind::Plain => Some(Counts::default()),
        OutputKind::Tests => results::last_counts(output),
        OutputKind::ManyTests => results::all_counts(output),
    };
    let problem = match (status, counts) {
        (Err(failure), _) => failure.to_string(),
        (Ok(status), _) if !status.success() => format!("see {}", log.display()),
        (Ok(_), None) => "succeeded without a test result".to_owned(),
        (Ok(_), Some(counts)) if counts.failed > 0 => format!("succeeded with {counts}"),
        (Ok(_), Some(counts)) => return (counts, None),
    };
    let mut counts = counts.unwrap_or_default();
    // A failure outside of the tests must not be reported as "0 failed".
    counts.failed = counts.failed.max(1);
    let mut lines = vec![&*problem];
    lines.extend(results::explanation(output));
    (counts, Some(lines.join("\n    ")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const OK: &str = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out;";

    fn judged(code: i32, output: &str, kind: OutputKind) -> (Counts, Option<String>) {
        let status = ExitStatus::from_raw(code << 8);
        judge(Ok(status), output, kind, Path::new("/log"))
    }

    #[test]
    fn run_without_a_result_or_with_a_bad_status_has_failed() {
        assert_eq!(judged(0, OK, OutputKind::Tests).1, None);
        assert_eq!(judged(0, "", OutputKind::Plain).1, None);
        for (counts, failure) in [
            judged(0, "running 3 tests\n", OutputKind::Tests),
            judged(1, OK, OutputKind::Tests),
            judged(1, "", OutputKind::Plain),
            judge(Err(Failure::new("x")), "", OutputKind::Plain, Path::new("")),
        ] {
            assert_eq!(counts.failed, 1, "{failure:?}");
            assert!(failure.is_some());
        }
    }
}
