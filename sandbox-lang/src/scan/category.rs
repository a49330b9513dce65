//! What the built-in rules look for.

use std::fmt;

use serde::Serialize;

/// What a built-in rule looks for. A policy gives each category a severity, or leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Category {
    /// Starts, replaces or signals processes.
    Process,
    /// Runs code that the program computes.
    DynamicCode,
    /// Loads modules by a name that the program computes.
    DynamicImport,
    /// Reaches the interpreter's internals, from which everything else can be reached.
    Internals,
    /// Calls machine code or memory without the language's checks.
    Native,
    /// Makes objects from data in a format that can run code.
    Deserialization,
    /// Writes, moves or deletes files.
    FileWrite,
    /// Reads files or lists folders.
    FileRead,
    /// Uses the network.
    Network,
    /// Reads or changes environment variables and the machine's settings.
    Environment,
    /// Looks different to a reader than to the language.
    HiddenText,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 11] = [
        Self::Process,
        Self::DynamicCode,
        Self::DynamicImport,
        Self::Internals,
        Self::Native,
        Self::Deserialization,
        Self::FileWrite,
        Self::FileRead,
        Self::Network,
        Self::Environment,
        Self::HiddenText,
    ];

    /// The identifier of its rule: lowercase words with dashes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::DynamicCode => "dynamic-code",
            Self::DynamicImport => "dynamic-import",
            Self::Internals => "internals",
            Self::Native => "native",
            Self::Deserialization => "deserialization",
            Self::FileWrite => "file-write",
            Self::FileRead => "file-read",
            Self::Network => "network",
            Self::Environment => "environment",
            Self::HiddenText => "hidden-text",
        }
    }

    /// What code of this category does, as the predicate of a sentence.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Process => "starts, replaces or signals processes",
            Self::DynamicCode => "runs code that the program computes",
            Self::DynamicImport => "loads a module whose name the program computes",
            Self::Internals => "reaches internals of the language",
            Self::Native => "calls machine code or memory without the language's checks",
            Self::Deserialization => "reads a format that can run code",
            Self::FileWrite => "writes, moves or deletes files",
            Self::FileRead => "reads files or lists folders",
            Self::Network => "uses the network",
            Self::Environment => "uses environment variables or settings of the machine",
            Self::HiddenText => "looks different to a reader than to the language",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
