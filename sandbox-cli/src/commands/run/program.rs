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

/// What is run.
#[derive(Debug)]
pub struct Program {
    subject: Subject,
    language: Option<Language>,
    arguments: Vec<OsString>,
}

#[derive(Debug)]
enum Subject {
    /// A program of the sandbox, or a file that it sees.
    Path(OsString),
    Code(OsString),
    Copy(Copied),
}

/// A file that is put into the sandbox before it runs.
#[derive(Debug)]
pub struct Copied {
    /// Its name there.
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
}

impl Program {
    /// A command inside of the sandbox.
    pub fn of_command(command: &[OsString]) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::argument(
                "nothing to run: write FILE, -c CODE or -- COMMAND",
            ));
        };
        let subject = Subject::Path(program.clone());
        Ok(Self {
            subject,
            language: None,
            arguments: arguments.to_vec(),
        })
    }

    /// A piece of code.
    pub fn of_code(code: &OsStr, language: Language, arguments: &[OsString]) -> Self {
        let subject = Subject::Code(code.to_owned());
        Self {
            subject,
            language: Some(language),
            arguments: arguments.to_vec(),
        }
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
        let by_extension = Language::of_path(path)
            .filter(|language| *language != Language::Shell || !is_executable);
        let language = language.or(by_extension);
        if language.is_none() && !is_executable {
            let path = path.display();
            let message = format!("{path}: no known extension, no #! line and no program");
            return Err(
                Error::new(ErrorKind::NotExecutable, "choose interpreter", message)
                    .with_fix("say --language python, shell or node")
                    .into(),
            );
        }
        let subject = match mounts.inside(&existing("FILE", path)?) {
            Some(place) => Subject::Path(place.into_os_string()),
            None => Subject::Copy(Copied {
                name: unimportable(path),
                content,
            }),
        };
        Ok(Self {
            subject,
            language,
            arguments: arguments.to_vec(),
        })
    }

    /// The file that must be put into the sandbox first.
    pub fn copied(&self) -> Option<&Copied> {
        match &self.subject {
            Subject::Copy(copied) => Some(copied),
            _ => None,
        }
    }

    /// The command, where a file that was copied lies in this folder; then others, should its program not exist.
    pub fn commands(&self, folder: &str) -> (ExecRequest, Vec<ExecRequest>) {
        let Some(language) = self.language else {
            return (self.complete(None, folder), Vec::new());
        };
        let [first, others @ ..] = language.interpreters();
        let command = |name| self.complete(Some((language, name)), folder);
        (command(first), others.map(command).to_vec())
    }

    fn complete(&self, interpreter: Option<(Language, &str)>, folder: &str) -> ExecRequest {
        let subject = match &self.subject {
            Subject::Path(text) | Subject::Code(text) => text.clone(),
            Subject::Copy(copied) => format!("{folder}/{}", copied.name).into(),
        };
        let command = match interpreter {
            None => ExecRequest::new(subject.as_bytes()),
            Some((language, name)) => {
                let command = ExecRequest::new(name);
                match &self.subject {
                    Subject::Code(_) => code(command, language, &subject),
                    _ => command.arg(subject.as_bytes()),
                }
            }
        };
        command.args(self.arguments.iter().map(|argument| argument.as_bytes()))
    }
}

fn code(interpreter: ExecRequest, language: Language, code: &OsStr) -> ExecRequest {
    let command = interpreter.arg(language.code_option()).arg(code.as_bytes());
    match language {
        // The first argument after the code is the script's name.
        Language::Shell => command.arg("sh"),
        Language::Python => command,
        // Otherwise node would read the arguments as its own options.
        Language::Node => command.arg("--"),
    }
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
        let message = format!("larger than {MAX_FILE}; give its folder with --read");
        return Err(failed(std::io::Error::other(message)));
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
        let (command, others) = program.commands("/tmp/f");
        let text = |argv: &[Vec<u8>]| {
            argv.iter()
                .map(|a| String::from_utf8_lossy(a))
                .collect::<Vec<_>>()
                .join(" ")
        };
        std::iter::once(&command)
            .chain(&others)
            .map(|command| text(&command.argv))
            .collect()
    }

    #[test]
    fn extensions_choose_the_interpreter() {
        let python = file("json.py", "#!/usr/bin/env nothing\n").unwrap();
        let place = "/tmp/f/run-json.py";
        assert_eq!(
            commands(&python),
            [format!("python3 {place} x"), format!("python {place} x")]
        );
        assert_eq!(python.copied().unwrap().name, "run-json.py");
        assert_eq!(
            commands(&file("a.mjs", "").unwrap())[0],
            "node /tmp/f/run-a.mjs x"
        );
        assert_eq!(
            commands(&file("a.sh", "").unwrap())[0],
            "/bin/sh /tmp/f/run-a.sh x"
        );
    }

    #[test]
    fn what_names_its_interpreter_is_executed_as_it_is() {
        assert_eq!(
            commands(&file("a.sh", "#!/bin/bash\n").unwrap()),
            ["/tmp/f/run-a.sh x"]
        );
        assert_eq!(
            commands(&file("tool", "#!/bin/sh\n").unwrap()),
            ["/tmp/f/run-tool x"]
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
