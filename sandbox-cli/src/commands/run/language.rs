//! Languages with a known interpreter.

use std::path::Path;

/// A language with a known interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Language {
    /// python3, or python if there is no python3
    #[default]
    Python,
    /// /bin/sh
    Shell,
    /// node
    Node,
}

impl Language {
    /// The language of the file's extension.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "py" => Some(Self::Python),
            "sh" => Some(Self::Shell),
            "js" | "mjs" | "cjs" => Some(Self::Node),
            _ => None,
        }
    }

    /// Its interpreters, the preferred one first.
    pub fn interpreters(self) -> [&'static str; 2] {
        match self {
            Self::Python => ["python3", "python"],
            Self::Shell => ["/bin/sh", "sh"],
            Self::Node => ["node", "nodejs"],
        }
    }

    /// The interpreter's option for code.
    pub fn code_option(self) -> &'static str {
        match self {
            Self::Python | Self::Shell => "-c",
            Self::Node => "-e",
        }
    }
}
