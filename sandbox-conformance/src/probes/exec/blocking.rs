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
    let limits = ArtifactLimits {
        count: 2,
        ..ArtifactLimits::default()
    };
    let late = once.clone().timeout(Duration::from_millis(300));
    let late = client.run_shell("sleep 9", late)?;
    let python = client.run_python("print(6 * 7)", once.clone())?;
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
        ("run_python", python.stdout_text() == "42\n"),
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
    let forward = sandbox.forward(18_005);
    let is_open = match &forward {
        Ok(forward) => std::net::TcpStream::connect(forward.address()).is_ok(),
        Err(error) => error.kind() == ErrorKind::Unsupported,
    };
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
        ("forward", is_open),
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
}
