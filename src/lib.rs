//! Run untrusted code under one policy, on pluggable backends that report what they enforce on this host.
//!
//! ```no_run
//! use sandbox::{ByteSize, CapabilityPolicy, ExecRequest, SandboxSpec};
//! use std::time::Duration;
//!
//! # #[cfg(feature = "local")]
//! # async fn example() -> sandbox::Result<()> {
//! // Each limit of the policy is required: a host that cannot enforce it refuses the sandbox.
//! let policy = CapabilityPolicy::new()
//!     .memory(ByteSize::mib(256))
//!     .timeout(Duration::from_secs(10));
//!
//! let client = sandbox::local(policy)?;
//! let sandbox = client.create(&SandboxSpec::new("grader-7").env("LANG", "C.UTF-8")).await?;
//! sandbox.write("/tmp/answer.py", "print(6 * 7)\n").await?;
//!
//! let result = sandbox.exec(&ExecRequest::new("python3").arg("/tmp/answer.py")).await?;
//! assert_eq!(result.check()?.stdout_text(), "42\n");
//!
//! for (capability, enforcement) in sandbox.enforcement().iter() {
//!     println!("{capability}: {enforcement}"); // "network_access: enforced (network namespace, …)"
//! }
//! sandbox.kill().await?; // dropping the handle does the same
//! # Ok(()) }
//! ```
//!
//! `local`, `docker`, `podman` and `k8s` open a client with a typed configuration.
//! [`SandboxClient::open`] takes the name of a tier instead, as from a configuration file.
//! [`blocking`] is for programs without an async runtime.
//!
//! [`RunCode`] runs code of a [`Language`], compiled first if need be:
//!
//! ```no_run
//! use sandbox::{CodeRequest, RunCode};
//!
//! # async fn example(sandbox: sandbox::SandboxHandle) -> sandbox::Result<()> {
//! let code = "#include <stdio.h>\nint main(void) { puts(\"42\"); }\n";
//! let result = sandbox.run_code(CodeRequest::new("c", code)).await?;
//! assert_eq!(result.check()?.stdout_text(), "42\n"); // CompileFailed is an error of its own
//! # Ok(()) }
//! ```
//!
//! A [`Session`] is an interpreter that keeps its variables, and shows values and plots:
//!
//! ```no_run
//! use sandbox::Sessions;
//!
//! # async fn example(sandbox: sandbox::SandboxHandle) -> sandbox::Result<()> {
//! let session = sandbox.session("python".into()).await?;
//! session.run("x = 6").await?.check()?;
//! let cell = session.run("print('in a cell')\nx * 7").await?;
//! assert_eq!(cell.stdout.text(), "in a cell\n");
//! assert_eq!(cell.result.expect("a value").text("text/plain"), Some("42"));
//! # Ok(()) }
//! ```
//!
//! [`support`] tells which linked tier would accept a sandbox on this host, and why another would not:
//!
//! ```
//! use sandbox::support::{self, Answer};
//! use sandbox::{ByteSize, CapabilityPolicy, SandboxSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let policy = CapabilityPolicy::new().memory(ByteSize::mib(64));
//! for support in support::linked(&policy, &SandboxSpec::new("question")).await? {
//!     match &support.answer {
//!         Answer::Accepted => println!("{} would run it", support.tier),
//!         Answer::Refused { unmet, waiver } => {
//!             for unmet in unmet {
//!                 println!("{} would not: {unmet}", support.tier);
//!             }
//!             // Allow once: this policy, for one client. Allow always: the lists of the waiver, in the policy's file.
//!             let once = waiver.applied_to(policy.clone())?;
//!             assert!(once.allow_partial.len() + once.allow_unenforced.len() > 0);
//!         }
//!         Answer::Impossible { reason, .. } => println!("{} cannot: {reason}", support.tier),
//!         _ => {}
//!     }
//! }
//! # Ok(()) }) }
//! ```
//!
//! [`matrix::CompatibilityMatrix::linked`] holds what the conformance suite measured of the linked tiers, by kind
//! of host:
//!
//! ```
//! use sandbox::matrix::CompatibilityMatrix;
//!
//! let matrix = CompatibilityMatrix::linked()?;
//! for (name, profile) in matrix.profiles() {
//!     println!("{name}: {} probes on {}", profile.probes.len(), profile.tier);
//! }
//! # assert!(!matrix.markdown().is_empty());
//! # Ok::<(), sandbox::Error>(())
//! ```
//!
//! Tests of programs that run code need no backend: [`fake::FakeBackend`] returns prepared answers.
//!
//! ```
//! # async fn example() -> sandbox::Result<()> {
//! use std::sync::Arc;
//! use sandbox::fake::{FakeAnswer, FakeBackend};
//! use sandbox::{CapabilityPolicy, OneShot, SandboxClient};
//!
//! let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("42\n")));
//! let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
//! let result = client.run_python("print(6 * 7)", OneShot::default()).await?;
//! assert_eq!(result.output(), "42\n");
//! # Ok(()) }
//! ```
//!
//! An [`Execution`] is a stream of events:
//!
//! ```
//! # async fn example() -> sandbox::Result<()> {
//! # use std::sync::Arc;
//! # use sandbox::fake::{FakeAnswer, FakeBackend};
//! use futures_util::StreamExt;
//! use sandbox::{CapabilityPolicy, ExecEvent, ExecRequest, SandboxClient, SandboxSpec, Stdin};
//!
//! # let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("42\n")));
//! # let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
//! # let sandbox = client.create(&SandboxSpec::new("example")).await?;
//! let mut execution = sandbox.start(&ExecRequest::new("make"), Stdin::Null).await?;
//! while let Some(event) = execution.next().await {
//!     if let ExecEvent::Stdout(bytes) = event? {
//!         print!("{}", String::from_utf8_lossy(&bytes));
//!     }
//! }
//! execution.wait().await?.check()?;
//! # Ok(()) }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(example()).unwrap();
//! ```
//!
//! # Features
//!
//! Each feature but `scan` and `http` links one backend. That never changes the default: a tier is used only when it is named.
//!
//! | feature | tiers |
//! |---|---|
//! | `local` (default) | `local`, `local_unsafe` |
//! | `docker` | `docker`, `docker_unsafe` |
//! | `podman` | `podman`, `podman_unsafe` |
//! | `k8s` | `k8s` |
//! | `http` (default) | none: egress rules at level `http`, which check every request |
//! | `scan` | none: the module `scan`, which says what code seems to do before it runs |

mod backends;
mod clients;
mod secret_source;

#[cfg(any(
    feature = "local",
    feature = "docker",
    feature = "podman",
    feature = "k8s"
))]
pub use clients::*;
pub use sandbox_core::*;
#[cfg(feature = "scan")]
#[doc(inline)]
pub use sandbox_lang::scan;
pub use sandbox_lang::{
    BlockingSession, BlockingSessions, CellError, CellEvent, CellOutcome, CellRequest, CellResult,
    CodeCheck, CodeRequest, CodeResult, Compilation, Display, FileName, Installer, Language,
    LanguageChoice, Languages, LiveSandbox, Lost, MimeData, MinimumVersion, OneShotCode, Plot,
    PlotFormat, PooledSession, Preparation, ReadyCode, RunCode, RunCodeOnce, Session, SessionPool,
    SessionRequest, SessionState, Sessions, Step, TraceFrame, save_plots,
};
pub use secret_source::SecretSource;

/// The examples in the README and in the guide compile.
#[cfg(all(doctest, feature = "local", feature = "scan"))]
mod guide {
    macro_rules! pages {
        ($($name:ident: $path:literal,)*) => {
            $(#[doc = include_str!($path)] struct $name;)*
        };
    }

    pages![
        Readme: "../README.md",
        Audit: "../docs/audit.md",
        Policy: "../docs/policy.md",
        Scan: "../docs/scan.md",
        Sessions: "../docs/sessions.md",
    ];
}
