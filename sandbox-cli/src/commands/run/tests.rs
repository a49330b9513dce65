use std::sync::Arc;

use clap::Parser as _;
use sandbox::fake::{FakeAnswer, FakeBackend};
use sandbox::{Enforcement, EnforcementReport, Error, ErrorKind, ExecRequest, Outcome as Ending};

use super::*;
use crate::arguments::{CliArguments, Command};
use crate::exit::Exit;
use crate::output::Format;

fn parse(line: &[&str]) -> Box<RunArguments> {
    let line = ["sandbox", "run", "--quiet", "--no-stdin"]
        .iter()
        .chain(line);
    match CliArguments::try_parse_from(line).unwrap().command {
        Command::Run(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

fn run_on(backend: FakeBackend, line: &[&str], output: Option<OutputFolder>) -> Outcome {
    let arguments = parse(line);
    let mut request = arguments.request(false)?;
    if output.is_some() {
        request.policy.artifact_export_paths = vec!["/output/**".into()];
    }
    let client = SandboxClient::with_backend(Arc::new(backend), request.policy.clone())?;
    let program = arguments.program(&request.mounts)?;
    let run = Run {
        arguments: &arguments,
        request,
        program,
        secrets: crate::options::Secrets::default(),
        output,
        page: std::cell::Cell::default(),
        has_default_artifacts: false,
        backend: "fake",
        is_isolated: true,
    };
    crate::commands::block_on(run.in_sandbox(&client))?
}

fn ends_with(outcome: Ending) -> FakeBackend {
    FakeBackend::new(move |_| {
        Ok(FakeAnswer {
            outcome: outcome.clone(),
            ..FakeAnswer::stdout("")
        })
    })
}

#[test]
fn only_a_stated_time_limit_applies_to_a_terminal() {
    use std::time::Duration;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, line: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("version = 1\n{line}\n")).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let stated = file("stated.toml", "timeout = \"7s\"");
    let extended = file("extended.toml", "extends = \"strict\"");
    let open = file("open.toml", "memory = \"64MiB\"");
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (options, timeout) in [
        (&["-t"][..], Some(terminal::TIMEOUT)),
        (&["-t", "--preset", "strict"], Some(terminal::TIMEOUT)),
        (&["-t", "--policy", &open], Some(terminal::TIMEOUT)),
        (&["-t", "--policy", &stated], seconds(7)),
        (&["-t", "--policy", &extended], seconds(30)),
        (&["-t", "--timeout", "5s"], seconds(5)),
        (&["--preset", "strict"], seconds(30)),
        (&[], None),
    ] {
        let request = parse(&[options, &["--", "x"]].concat())
            .request(false)
            .unwrap();
        assert_eq!(request.policy.timeout, timeout, "{options:?}");
        let accepts = request.policy.allow_partial.contains(&Capability::Timeout);
        let lifted = timeout == Some(terminal::TIMEOUT) && !request.policy.require_all;
        assert_eq!(accepts, lifted, "{options:?}");
    }
}

#[test]
fn exit_code_is_that_of_the_program() {
    for code in [0, 1, 7, 255] {
        let exit = run_on(ends_with(Ending::Exited { code }), &["--", "x"], None).unwrap();
        assert_eq!(i32::from(exit.code()), code);
    }
    assert_eq!(
        run_on(ends_with(Ending::TimedOut), &["-c", "x"], None).unwrap(),
        Exit::TIMED_OUT
    );
    let unknown = Ending::Unknown {
        reason: "lost".into(),
    };
    assert_eq!(
        run_on(ends_with(unknown), &["-c", "x"], None).unwrap(),
        Exit::FAILED
    );
}

#[test]
fn python_is_the_fallback_for_python3() {
    let missing = |program: &[u8]| {
        let name = String::from_utf8_lossy(program).into_owned();
        Error::new(ErrorKind::ProgramNotFound, "execute", name)
    };
    let only = move |there: &'static [u8]| {
        FakeBackend::new(
            move |request: &ExecRequest| match request.argv[0].as_slice() {
                program if program == there => Ok(FakeAnswer::stdout("")),
                program => Err(missing(program)),
            },
        )
    };
    let backend = only(b"python");
    let seen = backend.seen();
    assert_eq!(run_on(backend, &["-c", "x"], None).unwrap(), Exit::SUCCESS);
    assert_eq!(seen.lock().unwrap().len(), 2);
    let error = run_on(only(b"perl"), &["-c", "x"], None).unwrap_err();
    assert_eq!(error.report(Format::Text), Exit::NOT_FOUND);
    assert!(error.to_string().contains("python3"), "{error}");
}

#[test]
fn unenforced_required_demand_is_refused() {
    let mut report = EnforcementReport::new();
    for capability in Capability::ALL {
        report.set(*capability, Enforcement::enforced("fake"));
    }
    report.set(
        Capability::Memory,
        Enforcement::partial("sampler", "sampled"),
    );
    let backend = || ends_with(Ending::Exited { code: 0 }).enforcing(report.clone());
    assert!(run_on(backend(), &["-c", "x"], None).is_ok());
    let error = run_on(backend(), &["-c", "x", "--memory", "64MiB"], None).unwrap_err();
    assert_eq!(error.kind(), "not_enforceable");
    assert_eq!(error.report(Format::Text), Exit::FAILED);
    let accepted = ["-c", "x", "--memory", "64MiB", "--allow-partial", "memory"];
    assert!(run_on(backend(), &accepted, None).is_ok());
}

#[test]
fn lost_artifacts_fail_only_successful_runs() {
    let folder = tempfile::tempdir().unwrap();
    let run = |code| {
        let output = OutputFolder::prepare(Some(&folder.path().join("out")), &[], false).unwrap();
        run_on(
            ends_with(Ending::Exited { code }),
            &["-c", "x"],
            Some(output),
        )
        .unwrap()
    };
    // The fake cannot export.
    assert_eq!(run(0), Exit::FAILED);
    assert_eq!(run(3).code(), 3);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn ambiguous_command_lines_are_refused() {
    let bad = [
        &["file.py", "-c", "x"][..],
        &["python3", "file.py"],
        &["--language", "python", "--", "x"],
        &[],
    ];
    for line in bad {
        let full = ["sandbox", "run"].iter().chain(line);
        let refused = match CliArguments::try_parse_from(full.clone()) {
            Err(error) => {
                let line = full.clone().map(OsString::from).collect::<Vec<_>>();
                CommandError::usage(&error, &line)
            }
            Ok(_) => run_on(ends_with(Ending::Exited { code: 0 }), line, None).unwrap_err(),
        };
        assert_eq!(refused.kind(), "usage", "{line:?}: {refused}");
        assert!(!refused.to_string().contains('\n'));
    }
}
