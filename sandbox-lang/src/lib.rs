//! What sandboxes need for languages: how code of each runs, and packages for Python.
//!
//! - [`Language`] describes a language, and [`Languages`] is a set of them.
//! - [`RunCode`] runs code of a language in a sandbox, and [`RunCodeOnce`] in a new one.
//! - [`packages`] is for backends.

mod code;
mod language;
pub mod packages;

pub use code::{
    CodeCheck, CodeRequest, CodeResult, Compilation, LanguageChoice, OneShotCode, Preparation,
    ReadyCode, RunCode, RunCodeOnce,
};
pub use language::{FileName, Installer, Language, Languages, MinimumVersion, Step};
