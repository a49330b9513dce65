//! gVisor's `runsc` as one more runtime of a Docker engine that runs.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{CONFIGURATION_FOLDER, ENGINE, find};
use crate::engines::service;
use crate::failure::{Context, Failure, Result};
use crate::http::Client;
use crate::programs;

/// The runtime's name, which is that of its program and of Debian's package too.
const NAME: &str = "runsc";
/// Without hardware support, which virtual machines seldom have, and without a network, which
/// sandboxes never have.
const ARGUMENTS: [&str; 2] = ["--platform=ptrace", "--network=none"];
/// Most time for the engine to read its configuration again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Installs the runtime where it is missing, writes it into the engine's configuration, and lets the
/// engine read that again; containers that run are not disturbed. Says in a line what was done.
///
/// # Errors
/// When the engine has not this runtime in the end.
pub fn register() -> Result<String> {
    let client = find()?;
    if is_known(&client)? {
        return Ok(format!("has the runtime {NAME} already"));
    }
    let fix =
        format!("as root, on the engine's host: cargo xtask engines up {ENGINE} --with-{NAME}");
    if !programs::is_root() {
        return Err(Failure::new(format!("{ENGINE}: no runtime {NAME}")).with_fix(fix));
    }
    service::install(&[(NAME, NAME)])?;
    let program = programs::find(NAME).ok_or_else(|| {
        Failure::new(format!("{NAME} is installed, but there is no such program"))
    })?;
    let file = Path::new(CONFIGURATION_FOLDER).join("daemon.json");
    add(&file, &program)?;
    reload(&file)?;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if is_known(&client)? {
            return Ok(format!("has the runtime {NAME} now"));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(Failure::new(format!(
        "{ENGINE}: {} names the runtime {NAME}, but the engine does not know it after {} s",
        file.display(),
        PATIENCE.as_secs()
    ))
    .with_fix("look at the engine's log; it may read another file"))
}

fn is_known(client: &Client) -> Result<bool> {
    let doing = || format!("cannot ask {} for its runtimes", client.socket().display());
    let answer = client.get("/info").context(doing)?;
    if !answer.is_success() {
        let message = answer.error_message();
        return Err(Failure::new(format!("{}: {message}", doing())));
    }
    let information: Value = serde_json::from_slice(&answer.body).context(doing)?;
    Ok(information["Runtimes"].get(NAME).is_some())
}

/// Adds the runtime to the configuration in `file` and leaves everything else in it as it is.
fn add(file: &Path, program: &Path) -> Result<()> {
    let doing = || format!("cannot add a runtime to {}", file.display());
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(error).context(doing),
    };
    let Some(changed) = with_runtime(&text, program).context(doing)? else {
        return Ok(());
    };
    eprintln!("{ENGINE}: adding the runtime {NAME} to {}", file.display());
    let partial = file.with_extension("json.partial");
    fs::write(&partial, changed)
        .and_then(|()| fs::rename(&partial, file))
        .context(doing)
}

/// The configuration with the runtime in it, or `None` where it has one of that name already.
fn with_runtime(text: &str, program: &Path) -> std::result::Result<Option<String>, String> {
    let mut configuration: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let runtimes = configuration
        .entry("runtimes")
        .or_insert_with(|| Value::Object(Map::new()))
        .as_object_mut()
        .ok_or("its runtimes are no object")?;
    if runtimes.contains_key(NAME) {
        return Ok(None);
    }
    let runtime = json!({ "path": program, "runtimeArgs": ARGUMENTS });
    runtimes.insert(NAME.to_owned(), runtime);
    let text = serde_json::to_string_pretty(&configuration).map_err(|error| error.to_string())?;
    Ok(Some(text + "\n"))
}

/// Runtimes are among what dockerd takes over without a restart.
fn reload(file: &Path) -> Result<()> {
    let process = match service::record(ENGINE)?.read()? {
        Some(record) => record
            .process
            .open()
            .context(|| format!("cannot look at process {}", record.process.pid))?,
        None => None,
    };
    match process {
        Some(process) => process
            .reload()
            .context(|| format!("cannot let {ENGINE} read its configuration")),
        None => Err(Failure::new(format!(
            "{ENGINE}: {} names the runtime {NAME}, but the engine was not started by us",
            file.display()
        ))
        .with_fix("systemctl reload docker, or send SIGHUP to dockerd")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_added_once_and_the_rest_stays() {
        let program = Path::new("/usr/bin/runsc");
        let before = r#"{"storage-driver": "overlay2", "runtimes": {"other": {"path": "x"}}}"#;
        let text = with_runtime(before, program).expect("JSON").expect("added");
        let after: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(after["storage-driver"], "overlay2");
        assert_eq!(after["runtimes"]["other"]["path"], "x");
        assert_eq!(after["runtimes"][NAME]["path"], "/usr/bin/runsc");
        assert_eq!(after["runtimes"][NAME]["runtimeArgs"][0], ARGUMENTS[0]);
        assert_eq!(with_runtime(&text, program), Ok(None), "not twice");
        assert!(with_runtime("{}", program).expect("JSON").is_some());
    }

    #[test]
    fn what_is_no_configuration_is_left_alone() {
        let program = Path::new("/usr/bin/runsc");
        for text in ["", "[]", "{", r#"{"runtimes": 1}"#] {
            assert!(with_runtime(text, program).is_err(), "{text}");
        }
    }
}
