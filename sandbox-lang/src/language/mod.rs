//! Descriptions of languages.

mod c;
mod cpp;
mod go;
mod java;
mod java_class;
mod javascript;
mod languages;
mod project;
mod python;
mod r;
mod ruby;
mod rust;
mod shell;
mod step;
mod typescript;

use std::ffi::OsStr;

use sandbox_core::policy::Requirement;
use sandbox_core::{Error, ErrorKind, ExecRequest, Result};

pub use languages::Languages;
pub use project::Project;
pub use sandbox_core::policy::Installer;
pub use step::Step;
pub(crate) use step::{Places, Source};

/// How code of a language runs.
///
/// ```
/// use sandbox_lang::{Language, Languages, Step};
///
/// let lua = Language::new("lua", "lua", Step::new(["lua5.4", "lua"]).args(["{file}"]))
///     .image("nickblah/lua:5.4")
///     .package("lua5.4");
/// let mut languages = Languages::new();
/// languages.register(lua)?;
/// assert_eq!(languages.get("Lua")?.extensions, ["lua"]);
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Language {
    /// The name: lowercase letters, digits, `+`, `#`, `-` and `_`.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Extensions of its files, without a dot. The code's file has the first one.
    pub extensions: Vec<String>,
    /// An image that has the language; `None` if the backend's default image has it.
    pub image: Option<String>,
    /// The name of the code's file.
    pub file_name: FileName,
    /// The step before the run, for a compiled language. Its working folder is the code's folder.
    pub compile: Option<Step>,
    /// The step that runs the code, or the compiled program.
    pub run: Step,
    /// Arguments that run code from the command line instead of a file, before the program's own.
    /// `{code}` is the code.
    pub inline: Option<Vec<String>>,
    /// The oldest version of the run step's program.
    pub minimum: Option<MinimumVersion>,
    /// What to do if the sandbox does not have the language.
    pub fix: String,
    /// What installs its libraries; `None` if this library installs none for it.
    pub installer: Option<Installer>,
    /// How code is compiled in a sandbox that has libraries; `None` if as without them.
    pub project: Option<Project>,
    /// Its libraries that draw plots into files; empty if there are none.
    pub plots: Vec<String>,
}

/// How the code's file is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileName {
    /// A name that no import statement can match: `run-code.py`.
    Unimportable,
    /// `main` with the extension.
    Main,
    /// As Java requires: the code's public type.
    JavaClass,
}

/// The oldest version of a program that runs a language.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MinimumVersion {
    /// Arguments that make the program print its version.
    pub arguments: Vec<String>,
    /// The oldest major and minor version.
    pub at_least: (u32, u32),
}

impl Language {
    /// A language that `run` runs, without a compiler, installer and plots.
    pub fn new(name: impl Into<String>, extension: impl Into<String>, run: Step) -> Self {
        let name = name.into();
        Self {
            aliases: Vec::new(),
            extensions: vec![extension.into()],
            image: None,
            file_name: FileName::Unimportable,
            compile: None,
            run,
            inline: None,
            minimum: None,
            fix: format!("use an image that has {name}, or install it where sandboxes see it"),
            installer: None,
            project: None,
            plots: Vec::new(),
            name,
        }
    }

    /// Adds another name.
    #[must_use]
    pub fn alias(mut self, alias: impl Into<String>) -> Self {
        self.aliases.push(alias.into());
        self
    }

    /// Adds another extension.
    #[must_use]
    pub fn extension(mut self, extension: impl Into<String>) -> Self {
        self.extensions.push(extension.into());
        self
    }

    /// Sets the image.
    #[must_use]
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = Some(image.into());
        self
    }

    /// Sets how the file is named.
    #[must_use]
    pub fn file_name(mut self, file_name: FileName) -> Self {
        self.file_name = file_name;
        self
    }

    /// Sets the compile step.
    #[must_use]
    pub fn compile(mut self, compile: Step) -> Self {
        self.compile = Some(compile);
        self
    }

    /// Sets the arguments that run code from the command line.
    #[must_use]
    pub fn inline(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.inline = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the oldest version of the run step's program.
    #[must_use]
    pub fn minimum(
        mut self,
        arguments: impl IntoIterator<Item = impl Into<String>>,
        at_least: (u32, u32),
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        self.minimum = Some(MinimumVersion {
            arguments,
            at_least,
        });
        self
    }

    /// Sets the fix for a missing toolchain from the name of a Debian package and the image, which
    /// must be set before.
    #[must_use]
    pub fn package(mut self, package: &str) -> Self {
        let such = match &self.image {
            Some(image) => format!(", such as {image}"),
            None => String::new(),
        };
        self.fix = format!(
            "use an image that has it{such}; on the local tiers install it in /usr (Debian: apt-get install {package})"
        );
        self
    }

    /// Sets what to do if the sandbox does not have the language.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    /// Sets what installs libraries.
    #[must_use]
    pub fn installer(mut self, installer: Installer) -> Self {
        self.installer = Some(installer);
        self
    }

    /// Sets how code is compiled in a sandbox that has libraries.
    #[must_use]
    pub fn project(mut self, project: Project) -> Self {
        self.project = Some(project);
        self
    }

    /// Sets the libraries that draw plots.
    #[must_use]
    pub fn plots(mut self, libraries: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.plots = libraries.into_iter().map(Into::into).collect();
        self
    }

    /// Whether this is the language's name or one of its aliases, in any case of letters.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        let mut names = std::iter::once(&self.name).chain(&self.aliases);
        names.any(|own| own.eq_ignore_ascii_case(name))
    }

    /// What installs its libraries.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LibrariesNotSupported`] if nothing does.
    pub fn require_installer(&self) -> Result<Installer> {
        self.installer.ok_or_else(|| {
            let context = format!("no libraries can be installed for {}", self.name);
            Error::new(
                ErrorKind::LibrariesNotSupported,
                "install libraries",
                context,
            )
            .with_fix("use an image that has them")
        })
    }

    /// A library as a package of the language's installer, whose prefix may be left out.
    ///
    /// ```
    /// let languages = sandbox_lang::Languages::new();
    /// let library = languages.get("javascript")?.library("lodash@^4")?;
    /// assert_eq!(library.to_string(), "npm:lodash@^4");
    /// # Ok::<(), sandbox_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Language::require_installer`], and [`ErrorKind::InvalidRequest`] if `text` does not
    /// name a package of the installer.
    pub fn library(&self, text: &str) -> Result<Requirement> {
        let installer = self.require_installer()?;
        Requirement::of_installer(installer, text).map_err(|error| {
            let kind = match error.kind() {
                ErrorKind::InvalidPolicy => ErrorKind::InvalidRequest,
                kind => kind,
            };
            let typed = Error::new(kind, "install libraries", error.context());
            match error.fix() {
                Some(fix) => typed.with_fix(fix),
                None => typed,
            }
        })
    }

    /// Its libraries that draw plots.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PlotsNotSupported`] if there are none.
    pub fn require_plots(&self) -> Result<&[String]> {
        if self.plots.is_empty() {
            let context = format!("{} has no library that draws plots", self.name);
            return Err(
                Error::new(ErrorKind::PlotsNotSupported, "draw plots", context)
                    .with_fix("use a language that has one: `sandbox languages` lists them"),
            );
        }
        Ok(&self.plots)
    }

    /// Whether [`Language::file_command`] is enough to run a file: nothing is compiled, and any
    /// version does.
    #[must_use]
    pub fn is_simple(&self) -> bool {
        self.compile.is_none() && self.minimum.is_none()
    }

    /// The command that runs a file with `program`, one of the run step's.
    pub fn file_command(&self, program: &str, file: impl AsRef<OsStr>) -> ExecRequest {
        filled(program, &self.run.arguments, "{file}", file.as_ref())
    }

    /// The command that runs code from the command line with `program`; `None` if the language has
    /// none.
    pub fn inline_command(&self, program: &str, code: impl AsRef<OsStr>) -> Option<ExecRequest> {
        let arguments = self.inline.as_ref()?;
        Some(filled(program, arguments, "{code}", code.as_ref()))
    }

    /// The error if the sandbox has none of these programs.
    pub fn missing(&self, programs: &[String]) -> Error {
        let names = programs.join(", ");
        let context = format!("the sandbox does not have {}: no {names}", self.name);
        Error::new(ErrorKind::ProgramNotFound, "find toolchain", context).with_fix(&self.fix)
    }

    /// The name of the file for this code.
    #[must_use]
    pub fn file_name_of(&self, code: &[u8]) -> String {
        let stem = match self.file_name {
            FileName::Unimportable => "run-code".to_owned(),
            FileName::Main => "main".to_owned(),
            FileName::JavaClass => java_class::JavaNames::of(code).file_stem,
        };
        match self.extensions.first() {
            Some(extension) => format!("{stem}.{extension}"),
            None => stem,
        }
    }

    /// What `{class}` stands for.
    pub(crate) fn class_of(&self, code: &[u8]) -> String {
        match self.file_name {
            FileName::JavaClass => java_class::JavaNames::of(code).main_class,
            _ => String::new(),
        }
    }
}

/// A command with one placeholder replaced.
fn filled(program: &str, arguments: &[String], placeholder: &str, value: &OsStr) -> ExecRequest {
    let value_of = |argument: &str| match argument {
        argument if argument == placeholder => value.to_owned(),
        argument => argument.into(),
    };
    let arguments = arguments.iter().map(String::as_str);
    ExecRequest::new(program).args(arguments.map(value_of))
}
