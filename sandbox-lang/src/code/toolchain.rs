//! Finds the programs of a language in a sandbox.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::{Error, ErrorKind, ExecRequest, Result, SandboxHandle};

use crate::Language;
use crate::language::MinimumVersion;

/// Prints the path of the first of its arguments that is a program.
const FIND: &str = r#"for program do command -v "$program" && exit 0; done; exit 1"#;

/// How long looking for a program, or asking for its version, may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The programs of a language; `None` for a step that the language does not have, or that runs the
/// compiled program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundToolchain {
    pub(super) compile: Option<String>,
    pub(super) run: Option<String>,
}

/// What was found in a sandbox, by the candidates, the version that they need, and the `PATH` of the
/// request. Languages with the same program may need different versions.
#[derive(Debug, Default)]
struct Known(Mutex<HashMap<Search, String>>);

type Search = (Vec<String>, Option<MinimumVersion>, Option<String>);

/// Finds the programs of a language.
///
/// # Errors
///
/// [`ErrorKind::ProgramNotFound`] if one is missing, [`ErrorKind::LanguageNotSupported`] if its
/// version is too old.
pub(super) async fn find(
    sandbox: &SandboxHandle,
    language: &Language,
    env: &BTreeMap<String, String>,
) -> Result<FoundToolchain> {
    let compile = language.compile.as_ref().map(|step| step.candidates());
    let compile = match compile {
        Some(candidates) => program(sandbox, language, candidates, env).await?,
        None => None,
    };
    let run = program(sandbox, language, language.run.candidates(), env).await?;
    Ok(FoundToolchain { compile, run })
}

async fn program(
    sandbox: &SandboxHandle,
    language: &Language,
    candidates: &[String],
    env: &BTreeMap<String, String>,
) -> Result<Option<String>> {
    let [first, ..] = candidates else {
        return Ok(None);
    };
    let known = sandbox.extension::<Known>();
    let is_run = candidates == language.run.candidates();
    let minimum = language.minimum.clone().filter(|_| is_run);
    let search = (candidates.to_vec(), minimum, env.get("PATH").cloned());
    let lock = || known.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = lock().get(&search) {
        return Ok(Some(found.clone()));
    }
    let mut request = ExecRequest::shell(FIND).arg("sh").args(candidates);
    request.env.clone_from(env);
    let found = match sandbox.exec(&request.timeout(LIMIT).log(false)).await {
        Ok(result) if result.success() => result.stdout_text().trim_end_matches('\n').to_owned(),
        Ok(result) if result.exit_code() == Some(1) => return Err(language.missing(candidates)),
        Ok(result) => {
            let context = format!("{}: {}", language.name, result.outcome);
            return Err(Error::new(ErrorKind::Io, "find toolchain", context).on(sandbox.tier()));
        }
        // An image without a shell may have the language.
        Err(error) if error.kind() == ErrorKind::ProgramNotFound => first.clone(),
        Err(error) => return Err(error),
    };
    if is_run {
        check_version(sandbox, language, &found, env).await?;
    }
    lock().insert(search, found.clone());
    Ok(Some(found))
}

async fn check_version(
    sandbox: &SandboxHandle,
    language: &Language,
    program: &str,
    env: &BTreeMap<String, String>,
) -> Result<()> {
    let Some(minimum) = &language.minimum else {
        return Ok(());
    };
    let mut request = ExecRequest::new(program).args(&minimum.arguments);
    request.env.clone_from(env);
    let result = sandbox.exec(&request.timeout(LIMIT).log(false)).await?;
    let output = result.output();
    let (major, minor) = minimum.at_least;
    if version(&output).is_some_and(|version| version >= minimum.at_least) {
        return Ok(());
    }
    let said = output.lines().next().unwrap_or_default();
    let said = said.chars().take(80).collect::<String>();
    let context = format!(
        "{} needs {program} {major}.{minor} or newer, and the sandbox's says {said:?}",
        language.name
    );
    Err(
        Error::new(ErrorKind::LanguageNotSupported, "find toolchain", context)
            .with_fix(&language.fix),
    )
}

/// The first two numbers with a dot between them.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    numbers.find_map(|word| {
        let mut parts = word.split('.');
        let major = parts.next()?.parse().ok()?;
        Some((major, parts.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_first_number_with_a_dot() {
        assert_eq!(version("v22.18.0\n"), Some((22, 18)));
        assert_eq!(version("tool 3 (build 1), version 4.5-rc1"), Some((4, 5)));
        assert_eq!(version("unknown"), None);
        assert_eq!(version(""), None);
    }
}
