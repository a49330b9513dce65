//! What sandboxes need for languages: how code of each runs, and packages of pip, npm,
//! gem, Go and cargo.
//!
//! - [`Language`] describes a language, and [`Languages`] is a set of them.
//! - [`RunCode`] runs code of a language in a sandbox, and [`RunCodeOnce`] in a new one.
//! - [`Sessions`] starts an interpreter that keeps its variables between pieces of code.
//! - [`packages`] is for backends.
//! - `scan`, with the feature of this name, says what code seems to do before it runs.

mod code;
mod language;
pub mod packages;
#[cfg(feature = "scan")]
pub mod scan;
mod session;

pub use code::{
    CodeCheck, CodeRequest, CodeResult, Compilation, LanguageChoice, OneShotCode, Preparation,
    ReadyCode, RunCode, RunCodeOnce, save_plots,
};
pub use language::{FileName, Installer, Language, Languages, MinimumVersion, Project, Step};
pub use packages::LiveSandbox;
pub use session::{
    BlockingSession, BlockingSessions, CellError, CellEvent, CellOutcome, CellRequest, CellResult,
    Display, Lost, MimeData, Plot, PlotFormat, PooledSession, Session, SessionPool, SessionRequest,
    SessionState, Sessions, TraceFrame,
};
