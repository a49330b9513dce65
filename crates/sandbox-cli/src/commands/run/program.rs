//! What is run: a file, a piece of code or a command.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sandbox::{ByteSize, Error, ErrorKind, ExecRequest};

use super::language::Language;
use crate::failure::Failure;
use crate::options::{Mounts, existing};

/// The largest file that is copied into a sandbox.
const MAX_FILE: ByteSize = ByteSize::mib(256);

/// Where a file that is copied in is put: a folder of its own, so that nothing beside it is imported by accident.
const FOLDER: &str = "/tmp/sandbox-run";

/// What is run.
#[derive(Debug, PartialEq)]
pub struct Program {
    /// The command.
    pub command: ExecRequest,
    /// Other commands in case its program does not exist.
    pub alternatives: Vec<ExecRequest>,
    /// A file that is put into the sandbox first: path, permission bits, content.
    pub file: Option<(String, u32, Vec<u8>)>,
}

impl Program {
    fn new(command: ExecRequest) -> Self {
        Self {
            command,
            alternatives: Vec::new(),
            file: None,
        }
    }

    /// The same command for each interpreter of a language.
    fn interpreted(language: Language, command: impl Fn(ExecRequest) -> ExecRequest) -> Self {
        let [first, others @ ..] = language.interpreters();
        Self {
            command: command(ExecRequest::new(first)),
            alternatives: others
                .iter()
                .map(|name| command(ExecRequest::new(*name)))
                .collect(),
            file: None,
        }
    }

    /// A command inside of the sandbox.
    pub fn of_command(command: &[OsString]) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::argument(
                "nothing to run: write FILE, -c CODE or -- COMMAND",
            ));
        };
        Ok(Self::new(request(program, arguments)))
    }

    /// A piece of code.
    pub fn of_code(code: &OsStr, language: Language, arguments: &[OsString]) -> Self {
        Self::interpreted(language, |interpreter| {
            let command = interpreter.arg(language.code_option()).arg(code.as_bytes());
            let command = match language {
                // The first argument after the code is the script's name.
                Language::Shell => command.arg("sh"),
                Language::Python => command,
                // Otherwise node would read them as its own options.
                Language::Node => command.arg("--"),
            };
            command.args(bytes(arguments))
        })
    }

    /// A file of the host. The language is the one that was asked for, else what the extension says, else what the `#!`
    /// line says. A shell script's `#!` line goes first, since it may name another shell.
    pub fn of_file(
        path: &Path,
        language: Option<Language>,
        arguments: &[OsString],
        mounts: &Mounts,
    ) -> Result<Self, Failure> {
        let content = read(path)?;
        let is_executable = content.starts_with(b"#!") || content.starts_with(b"\x7fELF");
        let language = language.or_else(|| {
            Language::of_path(path)
                .filter(|language| *language != Language::Shell || !is_executable)
        });
        if language.is_none() && !is_executable {
            let message = format!(
                "{}: no known extension, no #! line and no program",
                path.display()
            );
            return Err(
                Error::new(ErrorKind::NotExecutable, "choose interpreter", message)
                    .with_fix("say --language python, shell or node")
                    .into(),
            );
        }
        let inside = mounts.inside(&existing("FILE", path)?);
        let (place, file) = match inside {
            Some(place) => (place.into_os_string(), None),
            None => {
                let place = format!("{FOLDER}/{}", unimportable(path));
                (place.clone().into(), Some((place, 0o755, content)))
            }
        };
        let program = match language {
            None => Self::new(request(&place, arguments)),
            Some(language) => Self::interpreted(language, |interpreter| {
                interpreter.arg(place.as_bytes()).args(bytes(arguments))
            }),
        };
        Ok(Self { file, ..program })
    }
}

fn bytes(arguments: &[OsString]) -> impl Iterator<Item = &[u8]> {
    arguments.iter().map(|argument| argument.as_bytes())
}

fn request(program: &OsStr, arguments: &[OsString]) -> ExecRequest {
    ExecRequest::new(program.as_bytes()).args(bytes(arguments))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::ProgramNotFound,
            _ => ErrorKind::NotExecutable,
        };
        Failure::from(Error::new(
            kind,
            "read program",
            format!("{}: {error}", path.display()),
        ))
    };
    let mut content = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE.as_u64() + 1)
        .read_to_end(&mut content)
        .map_err(failed)?;
    if content.len() as u64 > MAX_FILE.as_u64() {
        let error = std::io::Error::other(format!(
            "larger than {MAX_FILE}; give its folder with --read"
        ));
        return Err(failed(error));
    }
    Ok(content)
}

/// The file's name, recognisable in messages, in a spelling that no `import` can mean: `code.py` would hide a module of the
/// standard library.
fn unimportable(path: &Path) -> String {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let safe = name.iter().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(*byte),
        _ => '_',
    });
    // The end holds the extension.
    let safe = safe.collect::<String>();
    format!("run-{}", &safe[safe.len().saturating_sub(200)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &str) -> Result<Program, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        Program::of_file(&path, None, &["x".into()], &Mounts::default())
    }

    fn commands(program: &Program) -> Vec<String> {
        let text = |argv: &[Vec<u8>]| {
            argv.iter()
                .map(|a| String::from_utf8_lossy(a))
                .collect::<Vec<_>>()
                .join(" ")
        };
        std::iter::once(&program.command)
            .chain(&program.alternatives)
            .map(|c| text(&c.argv))
            .collect()
    }

    #[test]
    fn extensions_choose_the_interpreter() {
        let python = file("json.py", "#!/usr/bin/env nothing\n").unwrap();
        let place = "/tmp/sandbox-run/run-json.py";
        assert_eq!(
            commands(&python),
            [format!("python3 {place} x"), format!("python {place} x")]
        );
        assert_eq!(python.file.as_ref().unwrap().0, place);
        assert_eq!(
            commands(&file("a.mjs", "").unwrap())[0],
            "node /tmp/sandbox-run/run-a.mjs x"
        );
        assert_eq!(
            commands(&file("a.sh", "").unwrap()),
            [
                "/bin/sh /tmp/sandbox-run/run-a.sh x",
                "sh /tmp/sandbox-run/run-a.sh x"
            ]
        );
    }

    #[test]
    fn what_names_its_interpreter_is_executed_as_it_is() {
        assert_eq!(
            commands(&file("a.sh", "#!/bin/bash\n").unwrap()),
            ["/tmp/sandbox-run/run-a.sh x"]
        );
        assert_eq!(
            commands(&file("tool", "#!/bin/sh\n").unwrap()),
            ["/tmp/sandbox-run/run-tool x"]
        );
        assert!(
            file("notes.txt", "hello")
                .unwrap_err()
                .to_string()
                .contains("--language")
        );
    }

    #[test]
    fn code_goes_with_its_arguments() {
        let run = |language| commands(&Program::of_code(OsStr::new("C"), language, &["-v".into()]));
        assert_eq!(run(Language::Python), ["python3 -c C -v", "python -c C -v"]);
        assert_eq!(
            run(Language::Shell),
            ["/bin/sh -c C sh -v", "sh -c C sh -v"]
        );
        assert_eq!(
            run(Language::Node),
            ["node -e C -- -v", "nodejs -e C -- -v"]
        );
    }

    #[test]
    fn odd_names_stay_recognisable_and_harmless() {
        assert_eq!(unimportable(Path::new("/a/b c\n.py")), "run-b_c_.py");
        assert_eq!(
            unimportable(Path::new(OsStr::from_bytes(b"\xff.py"))),
            "run-_.py"
        );
        assert_eq!(
            unimportable(Path::new(&format!("{}.py", "a".repeat(250)))).len(),
            204
        );
    }
}
