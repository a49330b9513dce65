//! The client for programs without an async runtime.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_core::blocking::{BlockingClient, BlockingHandle};
use sandbox_core::{ArtifactLimits, ErrorKind, ExecRequest, OneShot, SandboxSpec, Stdin};

use crate::probes::prelude::*;

/// Files of one size in the folder that is exported.
const COUNT: usize = 3;
const SIZE: u64 = 5000;

/// Where files are in the sandbox and on the host.
struct Places {
    inside: String,
    exported: String,
    host: PathBuf,
}

pub(super) fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let path = format!("{}/**", fixture.export_folder());
    SandboxSetup::with(|policy| policy.artifact_export_paths = vec![path])
//! The client and handles without an async runtime.

use std::path::{Path, PathBuf};

use sandbox_core::blocking::{BlockingClient, BlockingHandle};
use sandbox_core::{
    ArtifactLimits, DenialKind, ErrorKind, ExecRequest, OneShot, SandboxClient, SandboxSpec, Stdin,
};

use crate::probes::prelude::*;

/// Exports from one folder.
pub(super) fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let path = format!("{}/*.blocking", fixture.export_folder());
    SandboxSetup::with(|policy| policy.artifact_export_paths = vec![path])
}

/// Places that the probe uses.
struct Paths {
    /// A folder of the sandbox.
    inside: String,
    /// A file that the policy exports.
    exported: String,
    /// A file and two folders of the host.
    file: PathBuf,
    output: PathBuf,
    none: PathBuf,
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let places = Places {
        inside: context.inside("blocking"),
        exported: context.fixture().export_folder(),
        host: context.output_folder()?,
    };
    let called = match context.client_and_spec().await {
        Err(declined) => Err(declined),
        Ok((client, mut spec)) => {
            spec.name = sandbox_core::spi::unique_name("conformance-blocking");
            // Its runtime must not end in async code.
            let called = tokio::task::spawn_blocking(move || {
                let client = BlockingClient::new(client)?;
                call(&client, &spec, &places)
            });
            Ok(called.await?)
        }
    };
    let deviation = if_offered(context, called);
    context.record_attack(behavior("call each method that blocks", deviation));
    let file = context.outside()?.join("file");
    std::fs::write(&file, "content")?;
    let output = context.output_folder()?;
    let none = output.join("none");
    std::fs::create_dir(&none)?;
    let exported = context.fixture().export_folder();
    let paths = Paths {
        inside: context.inside("blocking"),
        exported: format!("{exported}/{}.blocking", context.token()),
        file,
        output,
        none,
    };
    let deviation = match context.client_and_spec().await {
        Err(declined) => Err(declined),
        Ok((client, spec)) => {
            let used = tokio::task::spawn_blocking(move || used(client, &spec, &paths)).await;
            Ok(used.map_err(|error| ProbeError::new(error.to_string()))?)
        }
    };
    let deviation = if_offered(context, deviation);
    context.record_attack(behavior("use a blocking client", deviation));
    context.no_host_effect("the attack itself compares the files");
    Ok(())
}

fn call(client: &BlockingClient, spec: &SandboxSpec, places: &Places) -> Deviation {
    let sandbox = client.create(spec)?;
    let called = in_sandbox(client, &sandbox, places);
    let removed = client.remove(&spec.name);
    if let Some(wrong) = called? {
        return Ok(Some(wrong));
    }
    removed?;
    let ended = sandbox.shell("true").map(|result| result.outcome);
    let unknown = client.remove(&format!("{}-not", spec.name));
    let listed = client.list_all()?.iter().any(|it| it.name == spec.name);
    let script = format!(
        "for name in a b c; do echo x > {}/$name; done; echo once; exit 3",
        places.exported
    );
    let once = OneShot::new(spec.clone());
    let nowhere = client.run_shell(&script, once.clone());
    let once = once.export_to(places.host.join("once"));
    let mut limits = ArtifactLimits::default();
    limits.count = 2;
    let late = once.clone().timeout(Duration::from_millis(300));
    let late = client.run_shell("sleep 9", late)?;
    let once = client.run_shell(&script, once.artifact_limits(limits))?;
    client.settle();
    Ok(first([
        (
            "an execution after the end",
            kind(&ended) == Some(ErrorKind::SandboxEnded),
        ),
        ("an unknown name", unknown.is_err()),
        ("the list after the end", !listed),
        (
            "run_shell",
            once.outcome == Outcome::Exited { code: 3 } && once.stdout_text() == "once\n",
        ),
        (
            "the artifacts of run_shell",
            (
                once.artifacts.len(),
                once.skipped.len(),
                once.failures.len(),
            ) == (2, 1, 0),
        ),
        (
            "the time limit of run_shell",
            late.outcome == Outcome::TimedOut,
        ),
        (
            "run_shell without a folder for artifacts",
            kind(&nowhere) == Some(ErrorKind::InvalidRequest),
        ),
    ]))
}

fn in_sandbox(client: &BlockingClient, sandbox: &BlockingHandle, places: &Places) -> Deviation {
    let name = sandbox.name();
    let is_it = |info: &sandbox_core::SandboxInfo| info.name == name;
    let found = client.get(name)?.shell("exit 7")?;
    let late = ExecRequest::shell("sleep 9").timeout(Duration::from_millis(300));
    let late = sandbox.exec(&late)?;
    let mut seen = Vec::new();
    let copied = sandbox.exec_with(
        &ExecRequest::shell("cat; exit 4"),
        Stdin::from_bytes("input"),
        |_, bytes| seen.extend_from_slice(bytes),
    )?;
    let missing = sandbox.exec(&ExecRequest::new("/nonexistent/program"));
    let report = sandbox.as_async().enforcement();
    let wrong = first([
        (
            "the list",
            client.list()?.iter().any(is_it) && client.list_all()?.iter().any(is_it),
        ),
        ("shell", found.outcome == Outcome::Exited { code: 7 }),
        ("a time limit", late.outcome == Outcome::TimedOut),
        (
            "exec_with",
            copied.outcome == Outcome::Exited { code: 4 } && seen == b"input",
        ),
        (
            "a missing program",
            kind(&missing) == Some(ErrorKind::ProgramNotFound),
        ),
        ("the report", sandbox.enforcement() == report),
        ("denials", sandbox.denials() == sandbox.as_async().denials()),
    ]);
    if wrong.is_some() {
        return Ok(wrong);
    }
    if let Some(wrong) = files(sandbox, places)? {
        return Ok(Some(wrong));
    }
    exports(sandbox, places)
}

fn files(sandbox: &BlockingHandle, Places { inside, host, .. }: &Places) -> Deviation {
    let [folder, file] = [format!("{inside}/folder"), format!("{inside}/file")];
    sandbox.mkdir(&folder)?;
    sandbox.write(&file, "abcdef")?;
    let limited = |most| sandbox.read_limited(&file, ByteSize::bytes(most));
    let entry = sandbox.stat(&file)?;
    let before = [
        sandbox.exists(&folder)?,
        sandbox.list_dir(inside)?.len() == 2,
    ];
    let out = sandbox.copy_out(&file, host.join("copied"))?;
    let back = sandbox.copy_in(host.join("copied"), &format!("{inside}/back"))?;
    let wrong = first([
        ("read", sandbox.read(&file)? == b"abcdef"),
        ("read_limited", limited(6)? == b"abcdef"),
        ("a lower limit", kind(&limited(5)) == Some(ErrorKind::Path)),
        ("stat", entry.size == 6 && !entry.is_dir()),
        ("mkdir and list_dir", before == [true, true]),
        (
            "copy_out",
            out.files == 1 && content(&host.join("copied")) == b"abcdef",
        ),
        (
            "copy_in",
            back.files == 1 && sandbox.read_to_string(&format!("{inside}/back"))? == "abcdef",
        ),
    ]);
    sandbox.remove(inside)?;
    let is_left = sandbox.exists(inside)?;
    Ok(wrong.or_else(|| first([("remove", !is_left)])))
}

fn exports(sandbox: &BlockingHandle, places: &Places) -> Deviation {
    for number in 0..COUNT {
        let content = vec![b'x'; SIZE as usize];
        sandbox.write(&format!("{}/{number}", places.exported), content)?;
    }
    let with = |change: &dyn Fn(&mut ArtifactLimits)| {
        let mut limits = ArtifactLimits::default();
        change(&mut limits);
        limits
    };
    let limits = [
        (None, COUNT),
        (Some(with(&|limits| limits.count = 1)), 1),
        (
            Some(with(&|limits| limits.file_size = ByteSize::bytes(SIZE - 1))),
            0,
        ),
        (
            Some(with(&|limits| {
                limits.total_size = ByteSize::bytes(2 * SIZE)
            })),
            2,
        ),
    ];
    for (number, (limits, count)) in limits.into_iter().enumerate() {
        let folder = places.host.join(number.to_string());
        let export = match limits {
            None => sandbox.export(&folder)?,
            Some(limits) => sandbox.export_with(&folder, limits)?,
        };
        let written = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        if (export.artifacts.len(), written, export.skipped.len()) != (count, count, COUNT - count)
        {
            return Ok(Some(format!(
                "{written} files with {limits:?}, not {count}"
            )));
        }
    }
    Ok(None)
}

fn content(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

fn kind<T>(result: &sandbox_core::Result<T>) -> Option<ErrorKind> {
    result.as_ref().err().map(sandbox_core::Error::kind)
}

/// The first that is not right.
fn first<const N: usize>(checked: [(&str, bool); N]) -> Option<String> {
    let mut wrong = checked.iter().filter(|(_, is_right)| !is_right);
    wrong.next().map(|(what, _)| format!("{what} differs"))
fn used(client: SandboxClient, spec: &SandboxSpec, paths: &Paths) -> Deviation {
    let client = BlockingClient::new(client)?;
    let sandbox = client.create(spec)?;
    let wrong = of_sandbox(&sandbox, paths).and_then(|wrong| match wrong {
        None => of_client(&client, &sandbox, spec, paths),
        wrong => Ok(wrong),
    });
    sandbox.stop()?;
    let ended = sandbox.shell("exit 0").err().map(|error| error.kind());
    client.settle();
    Ok(wrong?.or_else(|| {
        let is_told = ended == Some(ErrorKind::SandboxEnded);
        (!is_told).then(|| format!("after its stop: {ended:?}"))
    }))
}

/// The first of these that is not so.
fn first_wrong(checks: &[(&str, bool)]) -> Option<String> {
    let wrong = checks.iter().find(|(_, is_right)| !is_right);
    wrong.map(|(what, _)| format!("{what} differs"))
}

fn of_sandbox(sandbox: &BlockingHandle, paths: &Paths) -> Deviation {
    let Paths {
        inside,
        exported,
        file,
        output,
        none,
    } = paths;
    let exit = sandbox.exec(&ExecRequest::shell("exit 7"))?;
    let mut live = Vec::new();
    let echoed = sandbox.exec_with(
        &ExecRequest::new("cat"),
        Stdin::from_bytes(*b"input"),
        |_, bytes| live.extend_from_slice(bytes),
    )?;
    let shell = sandbox.shell("echo text")?;
    let path = format!("{inside}/folder/written");
    let copied = format!("{inside}/copied");
    sandbox.mkdir(&format!("{inside}/folder"))?;
    sandbox.write(&path, "content")?;
    let read = sandbox.read(&path)?;
    let text = sandbox.read_to_string(&path)?;
    let limited = sandbox.read_limited(&path, ByteSize::bytes(6));
    let listed = sandbox.list_dir(&format!("{inside}/folder"))?;
    let size = sandbox.stat(&path)?.size;
    let into = sandbox.copy_in(file, &copied)?;
    let out_of = sandbox.copy_out(&copied, output)?;
    let content = std::fs::read(output.join("copied")).unwrap_or_default();
    sandbox.remove(&path)?;
    let exists = [sandbox.exists(&path)?, sandbox.exists(&copied)?];
    let make = "mkdir -p $(dirname $0) && echo exported > $0 && ln -s /nonexistent $1";
    let link = exported.replace(".blocking", "-link.blocking");
    sandbox
        .exec(&ExecRequest::shell(make).args([exported, &link]))?
        .check()?;
    let nothing = ArtifactLimits {
        count: 0,
        ..ArtifactLimits::default()
    };
    let limited_export = sandbox.export_with(none, nothing)?;
    let export = sandbox.export(output)?;
    let denials = sandbox.denials();
    let forward = sandbox.forward(18_005);
    let is_open = match &forward {
        Ok(forward) => std::net::TcpStream::connect(forward.address()).is_ok(),
        Err(error) => error.kind() == ErrorKind::Unsupported,
    };
    Ok(first_wrong(&[
        ("exec", exit.exit_code() == Some(7)),
        (
            "exec_with",
            echoed.stdout.bytes == b"input" && live == b"input",
        ),
        ("shell", shell.stdout_text() == "text\n"),
        ("read", read == b"content" && text == "content"),
        ("read_limited", limited.is_err()),
        ("list_dir", listed.len() == 1 && size == 7),
        ("copy_in", into.files == 1),
        ("copy_out", out_of.files == 1 && content == b"content"),
        ("exists", exists == [false, true]),
        (
            "export_with",
            limited_export.artifacts.is_empty() && is_empty(none),
        ),
        ("export", export.artifacts.len() == 1),
        (
            "denials",
            denials
                .iter()
                .any(|denial| denial.kind == DenialKind::Artifact),
        ),
        (
            "enforcement",
            sandbox.enforcement() == sandbox.as_async().enforcement(),
        ),
        ("forward", is_open),
    ]))
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

fn of_client(
    client: &BlockingClient,
    sandbox: &BlockingHandle,
    spec: &SandboxSpec,
    paths: &Paths,
) -> Deviation {
    let is_it = |info: &sandbox_core::SandboxInfo| info.name == spec.name;
    let listed = client.list()?.iter().any(is_it);
    let listed_of_all = client.list_all()?.iter().any(is_it);
    let found = client.get(&spec.name)?;
    let name = found.name() == spec.name && sandbox.name() == spec.name;
    drop(found);
    let lives = sandbox.wait(sandbox.as_async().shell("exit 3"))?;
    let options = || OneShot::new(spec.clone()).export_to(&paths.output);
    let shell = client.run_shell("echo one-shot", options())?;
    let python = client.run_python("print(6 * 7)", options())?;
    let mut second = spec.clone();
    second.name += "-second";
    let other = client.create(&second)?;
    client.remove(&second.name)?;
    let removed = other.shell("exit 0").is_err();
    other.kill()?;
    Ok(first_wrong(&[
        ("list", listed && listed_of_all),
        ("get", name && lives.exit_code() == Some(3)),
        ("run_shell", shell.stdout_text() == "one-shot\n"),
        ("run_python", python.stdout_text() == "42\n"),
        ("remove", removed),
        (
            "as_async",
            client.as_async().tier() == sandbox.as_async().tier(),
        ),
    ]))
}
