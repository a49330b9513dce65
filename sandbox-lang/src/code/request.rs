//! What to run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::{Error, ErrorKind, Result, Secret, SecretValue, Stdin};

use crate::language::Source;
use crate::{CodeCheck, Language, Languages};

/// A language by its name among this library's, or one that the caller describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LanguageChoice {
    /// A name or alias in [`Languages::new`].
    Named(String),
    /// This language.
    Given(Box<Language>),
}

impl From<&str> for LanguageChoice {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for LanguageChoice {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl From<&Language> for LanguageChoice {
    fn from(language: &Language) -> Self {
        Self::Given(Box::new(language.clone()))
    }
}

impl From<Language> for LanguageChoice {
    fn from(language: Language) -> Self {
        Self::Given(Box::new(language))
    }
}

/// Code to run, and what it runs with.
///
/// ```
/// use sandbox_core::Stdin;
/// use sandbox_lang::CodeRequest;
/// use std::time::Duration;
///
/// let request = CodeRequest::new("python", "import sys\nprint(open('in.csv').read(), sys.argv[1])")
///     .file("in.csv", "a,b\n1,2\n")
///     .arg("--all")
///     .stdin(Stdin::from_bytes("yes\n"))
///     .timeout(Duration::from_secs(5));
/// assert_eq!(request.arguments.len(), 1);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct CodeRequest {
    /// The language.
    pub language: LanguageChoice,
    /// The code.
    pub code: Vec<u8>,
    /// Arguments of the program.
    pub arguments: Vec<Vec<u8>>,
    /// Arguments of the compiler, such as `-O2`. Interpreted languages have none.
    pub compiler_arguments: Vec<String>,
    /// Files to write first, by path: an absolute one, or one in the working folder.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files beside the code's own, by name: modules, headers, further sources.
    pub modules: BTreeMap<String, Vec<u8>>,
    /// Libraries of the language. A one-shot run installs them as packages before the code runs. A
    /// running sandbox must have them already.
    pub libraries: Vec<String>,
    /// Environment variables of the compiler and the program.
    pub env: BTreeMap<String, String>,
    /// Secrets of the program by name: see [`CodeRequest::secret`]. A compiler gets none.
    pub secrets: BTreeMap<String, Secret>,
    /// The folder in which the code's own new folder is made; the sandbox's temporary folder for
    /// `None`.
    pub folder: Option<String>,
    /// Working folder of the program; the sandbox's for `None`.
    pub workdir: Option<String>,
    /// Time limit of the program. A policy's shorter limit takes precedence.
    pub timeout: Option<Duration>,
    /// Time limit of the compiler. A policy's shorter limit takes precedence.
    pub compile_timeout: Option<Duration>,
    /// Standard input of the program. The lock only lets a request be shared.
    stdin: Mutex<Stdin>,
    /// Whether a compiled program stays in the sandbox, so that the same code is not compiled
    /// again.
    pub keep_program: bool,
    /// The folder in the sandbox for plots as files: see [`CodeRequest::plot_files`].
    pub plot_files: Option<String>,
    /// What the code must pass before anything of it reaches a sandbox.
    pub checks: Vec<Arc<dyn CodeCheck>>,
}

impl CodeRequest {
    /// Runs this code without arguments.
    pub fn new(language: impl Into<LanguageChoice>, code: impl Into<Vec<u8>>) -> Self {
        Self {
            language: language.into(),
            code: code.into(),
            arguments: Vec::new(),
            compiler_arguments: Vec::new(),
            files: BTreeMap::new(),
            modules: BTreeMap::new(),
            libraries: Vec::new(),
            env: BTreeMap::new(),
            secrets: BTreeMap::new(),
            folder: None,
            workdir: None,
            timeout: None,
            compile_timeout: None,
            stdin: Mutex::default(),
            keep_program: true,
            plot_files: None,
            checks: Vec::new(),
        }
    }

    /// Adds an argument of the program.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments
            .push(argument.as_ref().as_encoded_bytes().to_vec());
        self
    }

    /// Adds arguments of the program.
    #[must_use]
    pub fn args(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Adds arguments of the compiler.
    #[must_use]
    pub fn compiler_args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.compiler_arguments
            .extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Adds a file to write first.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), content.into());
        self
    }

    /// Adds a file beside the code's own.
    #[must_use]
    pub fn module(mut self, name: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.modules.insert(name.into(), content.into());
        self
    }

    /// Adds a library.
    #[must_use]
    pub fn library(mut self, library: impl Into<String>) -> Self {
        self.libraries.push(library.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Gives the program a secret as an environment variable: see
    /// [`sandbox_core::ExecRequest::secret`]. A one-shot run adds the name to its specification.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<SecretValue>) -> Self {
        self.secrets.insert(name.into(), Secret::variable(value));
        self
    }

    /// Lets the program use a secret in requests to these hosts, without reading it: see
    /// [`sandbox_core::ExecRequest::secret_for`].
    #[must_use]
    pub fn secret_for(
        mut self,
        name: impl Into<String>,
        value: impl Into<SecretValue>,
        hosts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.secrets
            .insert(name.into(), Secret::for_hosts(value, hosts));
        self
    }

    /// Gives the program a secret in a file: see [`sandbox_core::ExecRequest::secret_file`].
    #[must_use]
    pub fn secret_file(mut self, name: impl Into<String>, value: impl Into<SecretValue>) -> Self {
        self.secrets.insert(name.into(), Secret::file(value));
        self
    }

    /// Sets the folder in which the code's own new folder is made.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<String>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn workdir(mut self, workdir: impl Into<String>) -> Self {
        self.workdir = Some(workdir.into());
        self
    }

    /// Sets the time limit of the program.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the time limit of the compiler.
    #[must_use]
    pub fn compile_timeout(mut self, timeout: Duration) -> Self {
        self.compile_timeout = Some(timeout);
        self
    }

    /// Sets standard input.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = Mutex::new(stdin);
        self
    }

    /// Sets whether a compiled program stays in the sandbox.
    #[must_use]
    pub fn keep_program(mut self, keep: bool) -> Self {
        self.keep_program = keep;
        self
    }

    /// Makes plots files `plot-001.png`, `plot-002.png` and so on, in this folder of the sandbox,
    /// such as one that may be exported.
    ///
    /// In Python, these are figures of matplotlib and of what draws with it, which the program
    /// shows, or neither shows nor saves. In R, they are what is drawn without a device of the
    /// program's own. Other languages have none. A program or a specification that sets
    /// `MPLBACKEND` or `R_PROFILE_USER` keeps its own.
    ///
    /// ```
    /// use sandbox_lang::CodeRequest;
    ///
    /// let code = "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()";
    /// let request = CodeRequest::new("python", code).library("matplotlib").plot_files("/output");
    /// assert_eq!(request.plot_files.as_deref(), Some("/output"));
    /// ```
    #[must_use]
    pub fn plot_files(mut self, folder: impl Into<String>) -> Self {
        self.plot_files = Some(folder.into());
        self
    }

    /// Adds a check that the code must pass. See [`CodeCheck`].
    #[must_use]
    pub fn check(mut self, check: impl CodeCheck + 'static) -> Self {
        self.checks.push(Arc::new(check));
        self
    }

    /// Takes standard input out of the request.
    pub(crate) fn take_stdin(&self) -> Stdin {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *stdin)
    }

    /// The language that was chosen.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LanguageNotSupported`] for an unknown name.
    pub fn language(&self) -> Result<Language> {
        match &self.language {
            LanguageChoice::Named(name) => Languages::new().get(name).cloned(),
            LanguageChoice::Given(language) => Ok((**language).clone()),
        }
    }

    /// The code's file and those beside it. The code's is the first.
    pub(crate) fn sources(&self, language: &Language) -> Result<Vec<Source>> {
        let name = language.file_name_of(&self.code);
        let bad = |module: &str, why: &str| {
            let context = format!("the file {module:?} beside the code {why}");
            Err(Error::new(ErrorKind::InvalidRequest, "run code", context))
        };
        for module in self.modules.keys() {
            let is_part = |part: &str| !part.is_empty() && !part.starts_with(['.', '-']);
            if !module.split('/').all(is_part) || module.contains('\0') {
                return bad(
                    module,
                    "has a name that leads elsewhere or starts with '.' or '-'",
                );
            }
            let first = module.split('/').next().unwrap_or_default();
            if first == name || ["program", "classes", "cache"].contains(&first) {
                return bad(module, "has a name that the code itself needs");
            }
        }
        let code = Source {
            name,
            content: self.code.clone(),
        };
        let modules = self.modules.iter().map(|(name, content)| Source {
            name: name.clone(),
            content: content.clone(),
        });
        Ok(std::iter::once(code).chain(modules).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(request: &CodeRequest) -> ErrorKind {
        let language = request.language().expect("known");
        request.sources(&language).expect_err("refused").kind()
    }

    #[test]
    fn module_names_stay_in_the_folder() {
        for name in ["/etc/x", "../x", "a/../x", "", "a//b", "-o", ".x", "a\0b"] {
            let request = CodeRequest::new("c", "").module(name, "");
            assert_eq!(kind(&request), ErrorKind::InvalidRequest, "{name}");
        }
        for name in ["main.c", "main.c/x", "program", "classes/A"] {
            let request = CodeRequest::new("c", "").module(name, "");
            assert_eq!(kind(&request), ErrorKind::InvalidRequest, "{name}");
        }
    }

    #[test]
    fn code_comes_before_its_modules() {
        let request = CodeRequest::new("java", "public class B {}").module("A.java", "class A {}");
        let sources = request
            .sources(&request.language().expect("known"))
            .expect("valid");
        let names = sources.iter().map(|source| source.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["B.java", "A.java"]);
    }
}
