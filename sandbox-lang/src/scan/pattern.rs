//! Rules of the user.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};
use sandbox_core::{Error, ErrorKind, Result};

use crate::scan::Severity;

/// The largest compiled regular expression, in bytes of memory.
const MAX_COMPILED: usize = 1 << 20;

/// A rule of the user: a regular expression for code.
///
/// It is searched twice. First in the text without comments, where a match must start in code and
/// not inside of a string. Then in each call as the language understands it, such as
/// `requests.get("http://internal")` for `r.get ("http://internal")` after `import requests as r`.
///
/// ```
/// use sandbox_lang::scan::{Pattern, ScanPolicy, Severity};
///
/// let internal = Pattern::new("internal-host", r"requests\.get\(.*internal\.company")?
///     .description("asks a host of the internal network")
///     .severity(Severity::Medium);
/// let policy = ScanPolicy::new().pattern(internal);
/// let code = "import requests as r\nr.get('https://internal.company/')\n";
/// let report = policy.scan("python", code)?;
/// assert_eq!(report.violations[0].line, 2);
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Pattern {
    pub(crate) id: String,
    pub(crate) regex: Regex,
    pub(crate) description: Option<String>,
    pub(crate) severity: Severity,
    pub(crate) languages: Vec<String>,
}

impl Pattern {
    /// A pattern of severity [`Severity::High`] for all languages.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for an invalid or too large expression, and for an identifier
    /// that is not 1 to 100 visible ASCII characters. The syntax is that of the crate `regex`: no
    /// look-around and no backreferences, so that a search takes linear time.
    pub fn new(id: impl Into<String>, regex: &str) -> Result<Self> {
        let id = id.into();
        let bad = |context: String| Error::new(ErrorKind::InvalidRequest, "add pattern", context);
        if id.is_empty() || id.len() > 100 || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad(format!(
                "the identifier {id:?} is not 1 to 100 visible ASCII characters"
            )));
        }
        let compiled = RegexBuilder::new(regex)
            .multi_line(true)
            .size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| {
                // Its text has several lines, the last of which says what is wrong.
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default();
                let reason = reason.strip_prefix("error: ").unwrap_or(reason);
                bad(format!("the pattern {regex:?} is invalid: {reason}"))
            })?;
        Ok(Self {
            id,
            regex: compiled,
            description: None,
            severity: Severity::High,
            languages: Vec::new(),
        })
    }

    /// Sets what the matching code does.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Limits the pattern to this language, and others named so.
    #[must_use]
    pub fn language(mut self, name: impl Into<String>) -> Self {
        self.languages.push(name.into());
        self
    }

    pub(crate) fn is_for(&self, language: &str) -> bool {
        self.languages.is_empty() || self.languages.iter().any(|own| own == language)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pattern")
            .field("id", &self.id)
            .field("regex", &self.regex.as_str())
            .field("severity", &self.severity)
            .finish_non_exhaustive()
    }
}

/// A module that code may not load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestrictedModule {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) severity: Severity,
}

impl RestrictedModule {
    /// A module with everything below it, of severity [`Severity::High`]. `os` is also `os.path`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: None,
            severity: Severity::High,
        }
    }

    /// Sets why it is restricted.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }
}

impl From<&str> for RestrictedModule {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for RestrictedModule {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}
