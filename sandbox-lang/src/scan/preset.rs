//! Prepared policies.

use std::fmt;
use std::str::FromStr;

use sandbox_core::{Error, ErrorKind};

use crate::scan::{Category, ScanPolicy, Severity};

/// A prepared policy. docs/scan.md has a table of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// Refuses only code that starts programs, or that hides something.
    Minimal,
    /// Refuses what [`Self::Minimal`] does, and reports the rest.
    Development,
    /// Refuses programs, computed code, machine code, and changes of files or settings.
    Production,
    /// Refuses every category.
    Strict,
    /// As [`Self::Strict`], and allows only modules that compute.
    Educational,
    /// As [`Self::Production`], and lets code read and write files.
    DataScience,
    /// As [`Self::Production`], and lets code use the network and read files.
    WebScraping,
}

/// Modules of exercises: they compute and print, and have no door to the system. Those of all
/// languages are one list, because no name of one leads to a door in another.
const EDUCATIONAL: &[&str] = &[
    // Python; some are also modules of Go, Ruby and Node.
    "abc",
    "array",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "random",
    "re",
    "statistics",
    "string",
    "textwrap",
    "time",
    "typing",
    "unicodedata",
    // Go
    "errors",
    "fmt",
    "math/rand",
    "sort",
    "strconv",
    "strings",
    // Java
    "java.math",
    "java.text",
    "java.time",
    "java.util",
    // C and C++
    "algorithm",
    "cmath",
    "ctype.h",
    "iostream",
    "map",
    "math.h",
    "set",
    "stdbool.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "vector",
    // Rust
    "core",
    "std::cmp",
    "std::collections",
    "std::fmt",
    "std::iter",
    // sh
    "echo",
    "printf",
    "test",
    "true",
    "false",
];

impl Preset {
    /// All presets.
    pub const ALL: [Self; 7] = [
        Self::Minimal,
        Self::Development,
        Self::Production,
        Self::Strict,
        Self::Educational,
        Self::DataScience,
        Self::WebScraping,
    ];

    /// The name: lowercase words with dashes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Development => "development",
            Self::Production => "production",
            Self::Strict => "strict",
            Self::Educational => "educational",
            Self::DataScience => "data-science",
            Self::WebScraping => "web-scraping",
        }
    }

    /// What it is for, in one line.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Minimal => "refuses only programs and hidden text",
            Self::Development => "refuses what minimal does, and reports the rest",
            Self::Production => "refuses programs, computed code, changes of files, the network",
            Self::Strict => "refuses every category",
            Self::Educational => "as strict, and allows only modules that compute",
            Self::DataScience => "as production, and files are allowed",
            Self::WebScraping => "as production, and the network and reading are allowed",
        }
    }

    /// The policy.
    #[must_use]
    pub fn policy(self) -> ScanPolicy {
        let policy = ScanPolicy::new().threshold(Severity::Medium);
        let policy = Category::ALL
            .into_iter()
            .filter_map(|category| Some((category, self.severity(category)?)))
            .fold(policy, |policy, (category, severity)| {
                policy.category(category, severity)
            });
        match self {
            Self::Educational => policy.allow(EDUCATIONAL.iter().copied()),
            _ => policy,
        }
    }

    /// The severity of a category; `None` if it is not looked for.
    fn severity(self, category: Category) -> Option<Severity> {
        use Category as C;
        use Severity::{High, Low, Medium};
        let gravest = matches!(category, C::Process | C::HiddenText);
        let by_production = match category {
            C::FileRead | C::Environment => Low,
            C::FileWrite | C::Network | C::Deserialization | C::DynamicImport => Medium,
            _ => High,
        };
        match self {
            Self::Minimal => gravest.then_some(High),
            Self::Development => Some(if gravest { High } else { Low }),
            Self::Production => Some(by_production),
            Self::Strict | Self::Educational => Some(by_production.max(Medium)),
            Self::DataScience => match category {
                C::FileRead => None,
                C::FileWrite | C::Deserialization => Some(Low),
                _ => Some(by_production),
            },
            Self::WebScraping => match category {
                C::FileRead | C::Network => None,
                _ => Some(by_production),
            },
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Preset {
    type Err = Error;

    /// Also takes `_` for `-`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for another name.
    fn from_str(name: &str) -> Result<Self, Error> {
        let wanted = name.replace('_', "-");
        let found = Self::ALL.into_iter().find(|own| own.as_str() == wanted);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            let context = format!("unknown preset {name:?} of the scan");
            Error::new(ErrorKind::InvalidRequest, "choose preset", context)
                .with_fix(format!("use one of {known}"))
        })
    }
}
