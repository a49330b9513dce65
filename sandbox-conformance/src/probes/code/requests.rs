//! The parts of a request for code.

use std::time::Duration;

use sandbox_core::{ErrorKind, ExecRequest, ExecResult, SandboxHandle, Stdin};
use sandbox_lang::{
    CodeRequest, CodeResult, Compilation, Language, Preparation, RunCode as _, Step,
};

use super::keeps_programs;
use crate::probes::prelude::*;

/// The time limits of a program and of its compiler, and one that is reached.
const PROGRAM: Duration = Duration::from_secs(7);
const COMPILER: Duration = Duration::from_secs(9);
const REACHED: Duration = Duration::from_secs(1);

pub(super) async fn run(sandbox: &SandboxHandle, folder: &str) -> Deviation {
    let found = parts(sandbox, folder).await?;
    let found = found.or(prepared(sandbox, folder).await?);
    let found = found.or(limits(sandbox).await?);
    let found = found.or(compiled_again(sandbox).await?);
    Ok(found.or(refused(sandbox).await?))
}

/// Files, arguments, a variable, a folder and input arrive, and the code's own folder is removed.
async fn parts(sandbox: &SandboxHandle, folder: &str) -> Deviation {
    let file = format!("{folder}/beside/file");
    let code = format!(
        "ls -A \"${{0%/*}}\"; . \"${{0%/*}}/part.sh\"; printf '%s|' \"$@\" \"$GIVEN\" \"$PWD\"\n\
         cat {file} -; exit 4"
    );
    let request = CodeRequest::new("sh", code)
        .args(["one  argument", "", "*"])
        .env("GIVEN", "given")
        .workdir("/")
        .folder(format!("{folder}/own"))
        .file(&file, "file ")
        .module("part.sh", "echo part\n")
        .stdin(Stdin::from_bytes("input"));
    let ran = sandbox.run_code(request).await?;
    let wanted = "part.sh\nrun-code.sh\npart\none  argument||*|given|/|file input";
    let is_right = ran
        .ran()
        .is_some_and(|ran| ran.stdout_text() == wanted && ran.exit_code() == Some(4));
    let left = own_folder(sandbox, folder).await?;
    Ok((!is_right || !left.is_empty()).then(|| format!("{ran:?}, left: {left}")))
}

/// Code that its caller runs, with an input of its own, is there until the caller removes it.
async fn prepared(sandbox: &SandboxHandle, folder: &str) -> Deviation {
    let request = CodeRequest::new("sh", "cat; ls \"$0\"").folder(format!("{folder}/own"));
    let Preparation::Ready(ready) = sandbox.prepare_code(&request).await? else {
        return Ok(Some("a script was compiled".to_owned()));
    };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut running = sandbox
            .start(&ready.command, Stdin::from_bytes("input "))
            .await?;
        runs.push(running.wait().await?);
    }
    ready.clean_up(sandbox).await;
    let left = own_folder(sandbox, folder).await?;
    let is_right = |run: &ExecResult| {
        let text = run.stdout_text();
        text.starts_with(&format!("input {folder}/own/")) && text.ends_with("/run-code.sh\n")
    };
    let is_right = runs.iter().all(is_right) && left.is_empty();
    Ok((!is_right).then(|| format!("prepared code: {runs:?}, left: {left}")))
}

/// What is in the folder of code.
async fn own_folder(sandbox: &SandboxHandle, folder: &str) -> sandbox_core::Result<String> {
    let list = ExecRequest::shell(format!("ls -A {folder}/own"));
    Ok(sandbox.exec(&list).await?.check()?.stdout_text())
}

/// A language whose compiler copies the code, after what is given as `{options}`.
fn language() -> Language {
    let copy = "eval \"$3\"; { echo '#!/bin/sh'; echo \"echo $GIVEN\"; cat \"$2\"; } > \"$1\"\n\
                chmod 755 \"$1\"; echo compiled";
    let compile = Step::new(["sh"]).args(["-c", copy, "sh", "{program}", "{file}", "{options}"]);
    Language::new("copied", "copied", Step::compiled()).compile(compile)
}

/// The program and the compiler have a limit each. The policy's wins over a longer one.
async fn limits(sandbox: &SandboxHandle) -> Deviation {
    let most = sandbox.plan().timeout;
    for (program, compiler, wanted) in [
        (Some(PROGRAM), Some(COMPILER), [PROGRAM, COMPILER]),
        (Some(most * 2), None, [most; 2]),
    ] {
        let mut request = CodeRequest::new(language(), "echo ran").keep_program(false);
        (request.timeout, request.compile_timeout) = (program, compiler);
        let ran = sandbox.run_code(request).await?;
        let is_right = match &ran {
            CodeResult::Ran {
                result,
                compilation: Compilation::Compiled(compiler),
            } => [result.timeout, compiler.timeout] == wanted,
            _ => false,
        };
        if !is_right {
            return Ok(Some(format!("{wanted:?}: {ran:?}")));
        }
    }
    let request = CodeRequest::new(language(), "echo ran");
    let request = request.compiler_args(["sleep 30"]).compile_timeout(REACHED);
    let ran = sandbox.run_code(request).await?;
    let is_right = matches!(
        &ran,
        CodeResult::CompileFailed { compiler } if compiler.outcome == Outcome::TimedOut
    );
    Ok((!is_right).then(|| format!("a slow compiler: {ran:?}")))
}

/// Each part that the compiler sees counts, and a program that is not kept is compiled again.
async fn compiled_again(sandbox: &SandboxHandle) -> Deviation {
    let code = |given: &str| CodeRequest::new(language(), "echo ran").env("GIVEN", given);
    for (what, request, output, wanted) in [
        ("not kept", code("a").keep_program(false), "a\nran\n", false),
        ("kept", code("a"), "a\nran\n", false),
        ("the same", code("a"), "a\nran\n", true),
        ("another variable", code("b"), "b\nran\n", false),
        (
            "another argument",
            code("b").compiler_args(["GIVEN=c"]),
            "c\nran\n",
            false,
        ),
        ("the first", code("a"), "a\nran\n", true),
    ] {
        let ran = sandbox.run_code(request).await?;
        let is_right = match &ran {
            CodeResult::Ran {
                result,
                compilation,
            } => {
                // What the compiler writes is no output of the program.
                result.stdout_text() == output
                    && matches!(compilation, Compilation::Cached)
                        == (wanted && keeps_programs(sandbox))
            }
            _ => false,
        };
        if !is_right {
            return Ok(Some(format!("{what}: {ran:?}")));
        }
    }
    Ok(None)
}

async fn refused(sandbox: &SandboxHandle) -> Deviation {
    let shell = || CodeRequest::new("sh", "true");
    let absent = Language::new("absent", "absent", Step::new(["/no/such/program"]));
    let invalid = ErrorKind::InvalidRequest;
    let mut requests = vec![
        (
            "a compiler's argument",
            shell().compiler_args(["-O2"]),
            invalid,
        ),
        (
            "a library",
            shell().library("demo"),
            ErrorKind::LibrariesNotSupported,
        ),
        (
            "a library of Python",
            CodeRequest::new("python", "").library("demo"),
            ErrorKind::Unsupported,
        ),
        (
            "no language",
            CodeRequest::new("none", ""),
            ErrorKind::LanguageNotSupported,
        ),
        (
            "a missing program",
            CodeRequest::new(absent, ""),
            ErrorKind::ProgramNotFound,
        ),
    ];
    for name in ["/tmp/x", "../x", "a/../x", "-o", ".x", "", "run-code.sh"] {
        requests.push((name, shell().module(name, ""), invalid));
    }
    for (what, request, kind) in requests {
        match sandbox.run_code(request).await {
            Err(error) if error.kind() == kind => {}
            other => return Ok(Some(format!("{what}: {other:?}"))),
        }
    }
    Ok(None)
}
