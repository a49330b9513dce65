//! What a session and a cell are asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use sandbox_core::{ByteSize, Error, ErrorKind, Result};

use crate::{Language, LanguageChoice, Languages, Step};

/// An interpreter to start, and its limits.
///
/// ```
/// use sandbox_lang::{PlotFormat, SessionRequest};
/// use std::time::Duration;
///
/// let request = SessionRequest::new("python")
///     .timeout(Duration::from_secs(10))
///     .idle_timeout(Duration::from_secs(600))
///     .plot_formats([PlotFormat::Png, PlotFormat::Svg]);
/// assert_eq!(request.plots.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionRequest {
    /// The language: Python, JavaScript, `shell` (bash if the sandbox has it, else its `sh`), or
    /// `bash`.
    pub language: LanguageChoice,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Working folder; the sandbox's for `None`.
    pub workdir: Option<String>,
    /// Time limit of each cell; the policy's for `None`. A policy's shorter limit takes precedence.
    pub timeout: Option<Duration>,
    /// How long the session exists without a cell; `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// How long the session exists; `None` for no limit but the sandbox's.
    pub session_timeout: Option<Duration>,
    /// How much standard output of a cell is kept, and how much standard error; the policy's limits
    /// for `None`. The rest is counted.
    pub output_limit: Option<ByteSize>,
    /// The largest display, in bytes. All displays of a cell have at most four times as much.
    pub display_limit: ByteSize,
    /// The formats of plots. Empty: plots are left to the code.
    pub plots: Vec<PlotFormat>,
    /// Modules that the interpreter imports before it is ready, so that cells find them loaded.
    /// Python only.
    pub preload: Vec<String>,
}

/// A format of plots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlotFormat {
    /// `image/png`.
    Png,
    /// `image/jpeg`.
    Jpeg,
    /// `image/svg+xml`.
    Svg,
    /// `application/pdf`.
    Pdf,
}

impl PlotFormat {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Svg => "svg",
            Self::Pdf => "pdf",
        }
    }
}

impl From<&str> for SessionRequest {
    fn from(language: &str) -> Self {
        Self::new(language)
    }
}

impl SessionRequest {
    /// The languages that have sessions.
    pub const LANGUAGES: &[&str] = &["python", "javascript", "r", "shell"];

    /// A session with the policy's limits for each cell, displays of up to 8 MiB, and plots as PNG.
    pub fn new(language: impl Into<LanguageChoice>) -> Self {
        Self {
            language: language.into(),
            env: BTreeMap::new(),
            workdir: None,
            timeout: None,
            idle_timeout: None,
            session_timeout: None,
            output_limit: None,
            display_limit: ByteSize::mib(8),
            plots: vec![PlotFormat::Png],
            preload: Vec::new(),
        }
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn workdir(mut self, workdir: impl Into<String>) -> Self {
        self.workdir = Some(workdir.into());
        self
    }

    /// Sets the time limit of each cell.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long the session exists without a cell.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Sets how long the session exists.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = Some(timeout);
        self
    }

    /// Sets how much of each output stream of a cell is kept.
    #[must_use]
    pub fn output_limit(mut self, limit: ByteSize) -> Self {
        self.output_limit = Some(limit);
        self
    }

    /// Sets the largest display: at most 8 MiB.
    #[must_use]
    pub fn display_limit(mut self, limit: ByteSize) -> Self {
        self.display_limit = limit;
        self
    }

    /// Sets whether plots become displays: as PNG.
    #[must_use]
    pub fn plots(self, plots: bool) -> Self {
        self.plot_formats(plots.then_some(PlotFormat::Png))
    }

    /// Sets the formats of plots.
    #[must_use]
    pub fn plot_formats(mut self, formats: impl IntoIterator<Item = PlotFormat>) -> Self {
        self.plots = formats.into_iter().collect();
        self
    }

    /// Sets the modules that the interpreter imports first.
    #[must_use]
    pub fn preload<S: Into<String>>(mut self, modules: impl IntoIterator<Item = S>) -> Self {
        self.preload = modules.into_iter().map(Into::into).collect();
        self
    }

    /// The language that was chosen, if the other values are valid. The shell is bash if there is
    /// one, unless the caller describes it.
    pub(super) fn language(&self) -> Result<Language> {
        if self.display_limit > ByteSize::mib(8) {
            let context = format!("a display limit of {}: at most 8 MiB", self.display_limit);
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                "start session",
                context,
            ));
        }
        let language = match &self.language {
            LanguageChoice::Named(name) => {
                let mut language = Languages::new().get(name)?.clone();
                if language.name == "sh" {
                    language.run = Step::new(["bash", "/bin/bash", "/bin/sh", "sh"]);
                }
                language
            }
            LanguageChoice::Given(language) => (**language).clone(),
        };
        if !self.preload.is_empty() && language.name != "python" {
            let context = format!("a session of {} imports no modules", language.name);
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                "start session",
                context,
            ));
        }
        Ok(language)
    }
}

/// Code to run in a session.
///
/// ```
/// use sandbox_lang::CellRequest;
/// use std::time::Duration;
///
/// let cell = CellRequest::new("input()").stdin("a line\n").timeout(Duration::from_secs(2));
/// assert_eq!(cell.stdin, b"a line\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellRequest {
    /// The code. Nothing is added to it.
    pub code: String,
    /// Standard input of the cell, followed by its end.
    pub stdin: Vec<u8>,
    /// Time limit; the session's for `None`. A policy's shorter limit takes precedence.
    pub timeout: Option<Duration>,
    /// Whether a fork of the interpreter runs the cell, and ends with it. Python only.
    pub forked: bool,
}

impl From<&str> for CellRequest {
    fn from(code: &str) -> Self {
        Self::new(code)
    }
}

impl From<String> for CellRequest {
    fn from(code: String) -> Self {
        Self::new(code)
    }
}

impl CellRequest {
    /// Runs this code without input.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            stdin: Vec::new(),
            timeout: None,
            forked: false,
        }
    }

    /// Sets standard input.
    #[must_use]
    pub fn stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs the cell in a fork of the interpreter, which ends with the cell. The code sees the
    /// session's variables and modules. What it changes in memory is not kept; files and connections
    /// are shared. If the fork is killed or crashes, the session's variables are kept.
    ///
    /// Refused ([`ErrorKind::InvalidRequest`]) while the interpreter has threads that earlier
    /// cells started, because a fork does not have them. Python only.
    #[must_use]
    pub fn forked(mut self) -> Self {
        self.forked = true;
        self
    }

    /// Checks for what the driver of a language does not take.
    pub(super) fn validate(&self, language: &str, most: ByteSize) -> Result<()> {
        if self.forked && language != "python" {
            let context = format!("a session of {language} runs no cell in a fork");
            return Err(Error::new(ErrorKind::InvalidRequest, "run cell", context)
                .with_fix("run the cell in the interpreter itself"));
        }
        let size = self.code.len().max(self.stdin.len());
        if size > most.as_usize() {
            let context = format!("{size} bytes of code or standard input: at most {most}");
            return Err(Error::new(ErrorKind::InvalidRequest, "run cell", context)
                .with_fix("write it into a file of the sandbox"));
        }
        Ok(())
    }
}
