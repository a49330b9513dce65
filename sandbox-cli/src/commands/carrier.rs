//! The background process that carries the connections of a detached sandbox.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::policy::{EgressRules, NetworkPolicy};
use sandbox::{ErrorKind, SandboxHandle};

use super::audit::AuditOption;
use super::detached::TierOption;
use crate::command_error::CommandError;
use crate::print_status;

/// What a carrier writes once it carries.
const READY: &str = "ready";

/// How long a carrier waits for a former one to end.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// How many bytes of a carrier's error are read.
const ERROR_LIMIT: u64 = 16 * 1024;

/// Starts `sandbox egress NAME --foreground` in the background, and returns once it carries.
pub fn start(
    name: &str,
    tier: &str,
    option: &TierOption,
    audit: &AuditOption,
    rules: Option<&EgressRules>,
) -> Result<(), CommandError> {
    let failed = |error: &std::io::Error| CommandError::io("start the carrier", error);
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.args(["egress", name, "--foreground"]);
    command.args(option.arguments(tier));
    if let Some(file) = audit.absolute().map_err(|error| failed(&error))? {
        command.arg("--audit").arg(file);
    }
    match rules {
        Some(rules) if rules.is_empty() => drop(command.arg("--none")),
        Some(rules) => {
            command.arg("--");
            command.args(rules.rules().iter().map(ToString::to_string));
        }
        None => {}
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let carrier = command.spawn().map_err(|error| failed(&error))?;
    wait_until_ready(carrier)
}

fn wait_until_ready(mut carrier: Child) -> Result<(), CommandError> {
    let mut line = String::new();
    if let Some(output) = carrier.stdout.take() {
        // Without a line, it has failed and says why.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    if line.trim_end() == READY {
        return Ok(());
    }
    let mut why = String::new();
    if let Some(errors) = carrier.stderr.take() {
        // What cannot be read is said by the exit status.
        let _ = errors.take(ERROR_LIMIT).read_to_string(&mut why);
    }
    let status = carrier.wait();
    let why = match why.trim().trim_start_matches("sandbox: ") {
        "" => format!("it ended without a word: {status:?}"),
        why => why.to_owned(),
    };
    Err(CommandError::io(
        "start the carrier",
        &std::io::Error::other(why),
    ))
}

/// Becomes the carrier, once the former one has ended.
pub async fn take_over(
    sandbox: &SandboxHandle,
    rules: Option<EgressRules>,
) -> Result<(), CommandError> {
    let deadline = Instant::now() + HANDOVER_TIMEOUT;
    loop {
        match sandbox.carry_egress(rules.clone()).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            carried => return Ok(carried?),
        }
    }
}

/// Tells the command that has started this process that it carries. Leaves the terminal and the
/// working folder, which could not be unmounted otherwise.
pub fn tell_ready() {
    // Fails for the first process of a group, which a shell or a service manager has started.
    let _ = rustix::process::setsid();
    // Only keeps the folder busy if it fails.
    let _ = std::env::set_current_dir("/");
    // Nobody may listen.
    let _ = writeln!(std::io::stdout(), "{READY}");
}

/// Warns if code cannot connect to anything: the sandbox has rules, and no carrier that answers.
pub async fn warn_if_missing(sandbox: &SandboxHandle) {
    if !matches!(sandbox.plan().network, NetworkPolicy::Allow(_)) {
        return;
    }
    match sandbox.egress_rules().await {
        // Rules that are not enforced were accepted when the sandbox was created.
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        Err(error) if error.kind() == ErrorKind::NotCarried => {
            let name = sandbox.name();
            print_status(format_args!(
                "warning: no process carries the connections of {name:?}, so each is refused: start one with `sandbox egress {name} --carry`"
            ));
        }
        Err(error) => print_status(format_args!("warning: {error}")),
        Ok(_) => {}
    }
}
