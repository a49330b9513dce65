//! The program of a run: a file, code or a command.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sandbox::{ByteSize, Error, ErrorKind, ExecRequest};

use super::language::Language;
use crate::command_error::CommandError;
use crate::options::{PathMap, existing};

/// The largest file that is copied into a sandbox.
const MAX_FILE: ByteSize = ByteSize::mib(256);

/// The program of a run.
#[derive(Debug)]
pub struct Program {
    source: ProgramSource,
    language: Option<Language>,
    arguments: Vec<OsString>,
}

#[derive(Debug)]
enum ProgramSource {
    /// A program or file that the sandbox sees.
    Path(OsString),
    Code(OsString),
    Copy(CopiedFile),
}

/// A host file that is copied into the sandbox before the run.
#[derive(Debug)]
pub struct CopiedFile {
    /// Its name in the sandbox.
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
}

impl Program {
    /// A command inside of the sandbox.
    pub fn of_command(command: &[OsString]) -> Result<Self, CommandError> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(CommandError::argument(
                "nothing to run: write FILE, -c CODE or -- COMMAND",
            ));
        };
        let source = ProgramSource::Path(program.clone());
        Ok(Self {
            source,
            language: None,
            arguments: arguments.to_vec(),
        })
    }

    /// Code in a language.
    pub fn of_code(code: &OsStr, language: Language, arguments: &[OsString]) -> Self {
        let source = ProgramSource::Code(code.to_owned());
        Self {
            source,
            language: Some(language),
            arguments: arguments.to_vec(),
        }
    }

    /// A host file. Its interpreter is that of `language`, else that of the extension, else that of
    /// the `#!` line. In a shell script the `#!` line precedes the extension: it may name another
    /// shell.
    pub fn of_file(
        path: &Path,
        language: Option<Language>,
        arguments: &[OsString],
        mounts: &PathMap,
    ) -> Result<Self, CommandError> {
        let content = read(path)?;
        let is_executable = content.starts_with(b"#!") || content.starts_with(b"\x7fELF");
        let by_extension =
            Language::of_path(path).filter(|language| !language.is_shell() || !is_executable);
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
        let source = match mounts.inside(&existing("FILE", path)?) {
            Some(path) => ProgramSource::Path(path.into_os_string()),
            None => ProgramSource::Copy(CopiedFile {
                name: unimportable_name(path),
                content,
            }),
        };
        Ok(Self {
            source,
            language,
            arguments: arguments.to_vec(),
        })
    }

    /// The file to copy into the sandbox first.
    pub fn copied(&self) -> Option<&CopiedFile> {
        match &self.source {
            ProgramSource::Copy(copied) => Some(copied),
            _ => None,
        }
    }

    /// The name of a command without arguments.
    pub fn command(&self) -> Option<&OsStr> {
        match &self.source {
            ProgramSource::Path(name) if self.language.is_none() && self.arguments.is_empty() => {
                Some(name)
            }
            _ => None,
        }
    }

    /// The command, and alternatives for a missing interpreter. `folder` contains the copied file.
    pub fn commands(&self, folder: &str) -> (ExecRequest, Vec<ExecRequest>) {
        let Some(language) = self.language else {
            return (self.complete(None, folder), Vec::new());
        };
        let [first, others @ ..] = language.interpreters();
        let command = |name| self.complete(Some((language, name)), folder);
        (command(first), others.map(command).to_vec())
    }

    fn complete(&self, interpreter: Option<(Language, &str)>, folder: &str) -> ExecRequest {
        let source = match &self.source {
            ProgramSource::Path(text) | ProgramSource::Code(text) => text.clone(),
            ProgramSource::Copy(copied) => format!("{folder}/{}", copied.name).into(),
        };
        let command = match interpreter {
            None => ExecRequest::new(source),
            Some((language, name)) => {
                let command = ExecRequest::new(name);
                match &self.source {
                    ProgramSource::Code(_) => code(command, language, &source),
                    _ => command.arg(source),
                }
            }
        };
        command.args(&self.arguments)
    }
}

fn code(interpreter: ExecRequest, language: Language, code: &OsStr) -> ExecRequest {
    let command = interpreter.arg(language.code_option()).arg(code);
    match language {
        // The first argument after the code is the script's name.
        Language::Shell => command.arg("sh"),
        Language::Bash => command.arg("bash"),
        Language::Python => command,
        // Otherwise node would read the arguments as its own options.
        Language::Node => command.arg("--"),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::ProgramNotFound,
            _ => ErrorKind::NotExecutable,
        };
        CommandError::from(Error::new(
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

/// A safe name for the file that no `import` statement can match: `code.py` would hide a module of
/// the standard library.
fn unimportable_name(path: &Path) -> String {
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

    fn file(name: &str, content: &str) -> Result<Program, CommandError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        Program::of_file(&path, None, &["x".into()], &PathMap::default())
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
    fn file_extension_selects_interpreter() {
        let python = file("json.py", "#!/usr/bin/env nothing\n").unwrap();
        let path = "/tmp/f/run-json.py";
        assert_eq!(
            commands(&python),
            [format!("python3 {path} x"), format!("python {path} x")]
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
    fn files_with_shebang_are_executed_directly() {
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
    fn code_is_passed_with_its_arguments() {
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
    fn copied_file_names_are_sanitized() {
        assert_eq!(unimportable_name(Path::new("/a/b c\n.py")), "run-b_c_.py");
        assert_eq!(
            unimportable_name(Path::new(OsStr::from_bytes(b"\xff.py"))),
            "run-_.py"
        );
        assert_eq!(
            unimportable_name(Path::new(&format!("{}.py", "a".repeat(250)))).len(),
            204
        );
    }
}
