//! What sandboxes need for languages: how code of each runs, and packages of pip, npm and gem.
//!
//! - [`Language`] describes a language, and [`Languages`] is a set of them.
//! - [`RunCode`] runs code of a language in a sandbox, and [`RunCodeOnce`] in a new one.
//! - [`Sessions`] starts an interpreter that keeps its variables between pieces of code.
//! - [`packages`] is for backends.

mod code;
mod language;
pub mod packages;
mod session;

pub use code::{
    CodeCheck, CodeRequest, CodeResult, Compilation, LanguageChoice, OneShotCode, Preparation,
    ReadyCode, RunCode, RunCodeOnce,
};
pub use language::{FileName, Installer, Language, Languages, MinimumVersion, Step};
pub use packages::LiveSandbox;
pub use session::{
    BlockingSession, BlockingSessions, CellError, CellEvent, CellOutcome, CellRequest, CellResult,
    Display, Lost, MimeData, Plot, PlotFormat, Session, SessionRequest, SessionState, Sessions,
    TraceFrame,
};
