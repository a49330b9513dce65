//! Languages with a known interpreter.

use std::path::Path;

/// A language with a known interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Language {
    /// python3, or python if there is no python3
    #[default]
    #[value(alias = "py")]
    Python,
    /// /bin/sh
    #[value(alias = "sh")]
    Shell,
    /// bash
    Bash,
    /// node
    #[value(aliases = ["javascript", "js"])]
    Node,
}

impl Language {
    /// The language of the file's extension.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "py" => Some(Self::Python),
            "sh" => Some(Self::Shell),
            "bash" => Some(Self::Bash),
            "js" | "mjs" | "cjs" => Some(Self::Node),
            _ => None,
        }
    }

    /// Whether it is a shell: the `#!` line of its files names another one more exactly.
    pub fn is_shell(self) -> bool {
        matches!(self, Self::Shell | Self::Bash)
    }

    /// Its interpreters, the preferred one first.
    pub fn interpreters(self) -> [&'static str; 2] {
        match self {
            Self::Python => ["python3", "python"],
            Self::Shell => ["/bin/sh", "sh"],
            Self::Bash => ["bash", "/bin/bash"],
            Self::Node => ["node", "nodejs"],
        }
    }

    /// The interpreter's option for code.
    pub fn code_option(self) -> &'static str {
        match self {
            Self::Python | Self::Shell | Self::Bash => "-c",
            Self::Node => "-e",
        }
    }
}
