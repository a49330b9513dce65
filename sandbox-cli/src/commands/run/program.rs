//! The program of a run: a file, code or a command.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sandbox::{ByteSize, CodeRequest, Error, ErrorKind, ExecRequest, Language};

use super::language;
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
    /// Code to be compiled, or to be written to a file.
    Prepared(Vec<u8>),
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
        let source = match language.is_simple() && language.inline.is_some() {
            true => ProgramSource::Code(code.to_owned()),
            false => ProgramSource::Prepared(code.as_bytes().to_vec()),
        };
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
        let content = match path == Path::new("-") {
            true => return Self::of_input(language, arguments),
            false => read(path)?,
        };
        let is_executable = content.starts_with(b"#!") || content.starts_with(b"\x7fELF");
        let by_extension = language::of_path(path)
            .filter(|language| !language::is_shell(language) || !is_executable);
        let language = language.or(by_extension);
        if language.is_none() && !is_executable {
            let path = path.display();
            let message = format!("{path}: no known extension, no #! line and no program");
            let fix = format!(
                "say its --language, which `sandbox languages` lists, or name its interpreter: sandbox run --read {path} -- INTERPRETER {path}"
            );
            return Err(
                Error::new(ErrorKind::NotExecutable, "choose interpreter", message)
                    .with_fix(fix)
                    .into(),
            );
        }
        let is_compiled = language
            .as_ref()
            .is_some_and(|language| language.compile.is_some());
        let source = match mounts.inside(&existing("FILE", path)?) {
            _ if is_compiled => ProgramSource::Prepared(content),
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

    /// Code from standard input.
    fn of_input(language: Option<Language>, arguments: &[OsString]) -> Result<Self, CommandError> {
        let language = language.unwrap_or_else(language::default);
        let content = limited(std::io::stdin())
            .map_err(|error| CommandError::io("reading code from standard input", &error))?;
        Ok(Self {
            source: ProgramSource::Prepared(content),
            language: Some(language),
            arguments: arguments.to_vec(),
        })
    }

    /// The language, if it is known.
    pub fn language(&self) -> Option<&Language> {
        self.language.as_ref()
    }

    /// The code to prepare in the sandbox before it runs.
    pub fn code(&self) -> Option<CodeRequest> {
        let (ProgramSource::Prepared(code), Some(language)) = (&self.source, &self.language) else {
            return None;
        };
        // The sandbox ends with the program.
        let request = CodeRequest::new(language, code.clone()).keep_program(false);
        Some(request.args(&self.arguments))
    }

    /// The code, unless the sandbox reads it from a path.
    pub fn source(&self) -> Option<&[u8]> {
        match &self.source {
            ProgramSource::Path(_) => None,
            ProgramSource::Code(code) => Some(code.as_bytes()),
            ProgramSource::Copy(copied) => Some(&copied.content),
            ProgramSource::Prepared(code) => Some(code),
        }
    }

    /// The file to copy into the sandbox first.
    pub fn copied(&self) -> Option<&CopiedFile> {
        match &self.source {
            ProgramSource::Copy(copied) => Some(copied),
            _ => None,
        }
    }

    /// The name and the arguments of a command, which no language runs.
    pub fn command(&self) -> Option<(&OsStr, &[OsString])> {
        match &self.source {
            ProgramSource::Path(name) if self.language.is_none() => Some((name, &self.arguments)),
            _ => None,
        }
    }

    /// The command, and alternatives for a missing interpreter. `folder` contains the copied file.
    pub fn commands(&self, folder: &str) -> (ExecRequest, Vec<ExecRequest>) {
        let programs = self
            .language
            .iter()
            .flat_map(|language| &language.run.programs);
        let mut commands = programs.map(|program| self.complete(Some(program), folder));
        match commands.next() {
            Some(first) => (first, commands.collect()),
            None => (self.complete(None, folder), Vec::new()),
        }
    }

    fn complete(&self, interpreter: Option<&str>, folder: &str) -> ExecRequest {
        let source = match &self.source {
            ProgramSource::Path(text) | ProgramSource::Code(text) => text.clone(),
            ProgramSource::Copy(copied) => format!("{folder}/{}", copied.name).into(),
            ProgramSource::Prepared(code) => OsStr::from_bytes(code).to_owned(),
        };
        let command = match (interpreter, &self.language) {
            (Some(program), Some(language)) => match &self.source {
                ProgramSource::Code(code) => language.inline_command(program, code),
                _ => Some(language.file_command(program, &source)),
            },
            _ => None,
        };
        let command = command.unwrap_or_else(|| ExecRequest::new(source));
        command.args(&self.arguments)
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
    limited(File::open(path).map_err(failed)?).map_err(failed)
}

/// Reads code of at most [`MAX_FILE`].
fn limited(source: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    source
        .take(MAX_FILE.as_u64() + 1)
        .read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE.as_u64() {
        let message = format!("larger than {MAX_FILE}; give its folder with --read");
        return Err(std::io::Error::other(message));
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
        let program = |language| {
            let language = language::parse(language).unwrap();
            Program::of_code(OsStr::new("C"), language, &["-v".into()])
        };
        let run = |language| commands(&program(language));
        assert_eq!(run("py"), ["python3 -c C -v", "python -c C -v"]);
        assert_eq!(run("shell"), ["/bin/sh -c C sh -v", "sh -c C sh -v"]);
        assert_eq!(run("node"), ["node -e C -- -v", "nodejs -e C -- -v"]);
        assert!(program("py").code().is_none());
    }

    #[test]
    fn compiled_code_is_prepared_first() {
        let go = language::parse("golang").unwrap();
        let program = Program::of_code(OsStr::new("C"), go, &["-v".into()]);
        let request = program.code().unwrap();
        assert_eq!(request.code, b"C");
        assert_eq!(request.arguments, [b"-v"]);
        let file = file("main.rs", "fn main() {}").unwrap();
        assert_eq!(file.code().unwrap().language().unwrap().name, "rust");
        assert!(file.copied().is_none());
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
