//! Code of a language: what is checked before it runs, and when it is compiled again.

use sandbox_core::{Error, ErrorKind, SandboxHandle, registry};
use sandbox_lang::{CodeCheck, CodeRequest, CodeResult, Compilation, Language, RunCode as _, Step};

use crate::probes::prelude::*;

mod languages;
mod once;
mod requests;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "code::checked",
        EXEC,
        "has code, a module and a further file checked, each with a word that is refused",
        |context| Box::pin(plain_feature(context, "run refused code", checked)),
    ),
    Probe::behavior(
        "code::compiled",
        EXEC,
        "compiles code again after a change of the code or of a file beside it, and not without one",
        |context| Box::pin(plain_feature(context, "compile code", compiled)),
    )
    .version(2),
    Probe::behavior(
        "code::languages",
        EXEC,
        "runs code with an argument and standard input in each language that the sandbox has",
        |context| Box::pin(plain_feature(context, "run code", languages::run)),
    ),
    Probe::behavior(
        "code::once",
        EXEC,
        "runs code in sandboxes of its own with two time limits, beyond one, and with an error",
        |context| Box::pin(once::run(context)),
    )
    .setup(once::exporting),
    Probe::behavior(
        "code::requests",
        EXEC,
        "runs code with each part of a request, and with parts that there are not",
        |context| {
            let folder = context.inside("code");
            let act = async move |sandbox: &SandboxHandle| requests::run(sandbox, &folder).await;
            Box::pin(plain_feature(context, "request code", act))
        },
    ),
];

const REFUSED: &[u8] = b"echo refused";
const ALLOWED: &[u8] = b"echo allowed";

/// Refuses one text.
#[derive(Debug)]
struct Check;

impl CodeCheck for Check {
    fn check(&self, file: &str, _: &Language, code: &[u8]) -> sandbox_core::Result<()> {
        match code == REFUSED {
            true => Err(Error::new(ErrorKind::CodeRefused, "check code", file)),
            false => Ok(()),
        }
    }
}

async fn checked(sandbox: &SandboxHandle) -> Deviation {
    let allowed = || CodeRequest::new("sh", ALLOWED).check(Check);
    let requests = [
        ("the code", CodeRequest::new("sh", REFUSED).check(Check)),
        ("a module", allowed().module("other.sh", REFUSED)),
        ("a file", allowed().file("/tmp/other.py", REFUSED)),
    ];
    for (what, request) in requests {
        match sandbox.run_code(request).await {
            Err(error) if error.kind() == ErrorKind::CodeRefused => {}
            other => return Ok(Some(format!("{what}: {other:?}"))),
        }
    }
    let ran = sandbox.run_code(allowed().file("/tmp/x", REFUSED)).await?;
    let is_right = ran
        .ran()
        .is_some_and(|ran| ran.stdout_text() == "allowed\n");
    Ok((!is_right).then(|| format!("allowed code: {ran:?}")))
}

/// A language whose compiler puts a file beside the code behind it.
fn language() -> Language {
    let join = "cat \"$1\" \"$(dirname \"$1\")/part.inc\" > \"$0\" && chmod 755 \"$0\"";
    let compile = Step::new(["sh"]).args(["-c", join, "{program}", "{sources}"]);
    Language::new("joined", "joined", Step::compiled()).compile(compile)
}

/// Whether programs are kept. Without isolation, other users could replace them.
fn keeps_programs(sandbox: &SandboxHandle) -> bool {
    registry::tier(sandbox.tier()).map_or(true, |tier| tier.applies_policy)
}

async fn compiled(sandbox: &SandboxHandle) -> Deviation {
    let steps = [
        ("one", "echo part", "one\npart\n", false),
        ("one", "echo part", "one\npart\n", true),
        ("one", "echo other", "one\nother\n", false),
        ("two", "echo other", "two\nother\n", false),
    ];
    for (word, part, wanted, is_cached) in steps {
        let code = format!("#!/bin/sh\necho {word}\n");
        let request = CodeRequest::new(language(), code).module("part.inc", part);
        let ran = sandbox.run_code(request.keep_program(true)).await?;
        let is_right = match &ran {
            CodeResult::Ran {
                result,
                compilation,
            } => {
                let cached = matches!(compilation, Compilation::Cached);
                result.stdout_text() == wanted && cached == (is_cached && keeps_programs(sandbox))
            }
            _ => false,
        };
        if !is_right {
            return Ok(Some(format!("{word}, {part}: {ran:?}")));
        }
    }
    Ok(None)
}
