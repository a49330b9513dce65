//! Runs the tests of a program. A test whose requirements this run does not meet is listed as
//! ignored, with the reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Trial};
use sandbox_core::spi::Backend;
use sandbox_core::{Capability, Enforcement, EnforcementReport, Plan};
use sandbox_testing::pip;
use sandbox_testing::requirements::is_required;
use sandbox_testing::trials::ignored_if;
use sandbox_testing::users::{Rerun, is_root};

use crate::support::{backend, namespaces, policy, spec};

/// One test.
pub struct Test {
    /// The path of its module, which begins with the name of the program.
    pub module: &'static str,
    pub name: &'static str,
    pub run: fn(),
    pub needs: &'static [Need],
}

/// What a test needs of the run or of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(dead_code, reason = "the test programs need different ones")]
pub enum Need {
    /// A run as root.
    Root,
    /// A run as an ordinary user.
    OrdinaryUser,
    /// Sandboxes with namespaces.
    Namespaces,
    /// A run that was not started by another run.
    FirstRun,
    /// A run that the same run as an ordinary user does not follow.
    NoUserFollows,
    /// A Python with pip on the host.
    Pip,
    /// A program that sandboxes see.
    Program(&'static str),
    /// A Rust compiler that this user can read.
    Rust,
    /// A cargo that knows sparse registries and that sandboxes see, or that root can show them.
    Cargo,
    /// A Node.js that runs TypeScript.
    NodeForTypescript,
    /// A capability that the host enforces without a gap.
    Enforced(Capability),
}

impl Need {
    /// Why the need is not met; `None` if it is.
    ///
    /// # Panics
    ///
    /// If it is not met although `SANDBOX_REQUIRE` names it.
    fn missing(self) -> Option<String> {
        let (met, reason) = match self {
            Self::Root => (is_root(), "needs root".to_owned()),
            Self::OrdinaryUser => (!is_root(), "needs an ordinary user".to_owned()),
            Self::Namespaces => (namespaces(), "needs namespaces".to_owned()),
            Self::FirstRun => (!Rerun::is_current(), "part of another run".to_owned()),
            Self::NoUserFollows => (
                !crate::users::user_follows(),
                "SANDBOX_TEST_USER_FOLLOWS is set".to_owned(),
            ),
            Self::Pip => return pip::missing().map(str::to_owned),
            Self::Program(name) => (is_installed(name), format!("needs {name} in /usr")),
            Self::Rust => (
                rust_toolchain().is_some(),
                "needs a rustc that this user can read".to_owned(),
            ),
            Self::Cargo => (
                has_sparse_cargo() || (is_root() && rust_toolchain().is_some()),
                "needs cargo 1.68 or newer in /usr, or root and a Rust toolchain".to_owned(),
            ),
            Self::NodeForTypescript => (
                node_for_typescript().is_some(),
                "needs SANDBOX_TEST_NODE, the folder of a Node.js 22.18 or newer".to_owned(),
            ),
            Self::Enforced(capability) => {
                let met = report()
                    .get(capability)
                    .is_some_and(Enforcement::is_enforced);
                // Without root or namespaces a gap is expected.
                assert!(
                    met || !is_required("local") || !is_root() || !namespaces(),
                    "SANDBOX_REQUIRE names local, and the host does not enforce {capability}"
                );
                (met, format!("needs {capability} without a gap"))
            }
        };
        (!met).then_some(reason)
    }
}

/// What the host enforces of a plan that has every demand the tests are about.
fn report() -> &'static EnforcementReport {
    static REPORT: OnceLock<EnforcementReport> = OnceLock::new();
    REPORT.get_or_init(|| {
        let mut policy = policy();
        policy.subprocess_execution = Some(false);
        let plan = Plan::resolve(&spec(), &policy).expect("a plan");
        block_on(backend().assess(&plan)).expect("assessed")
    })
}

/// Whether a program is where sandboxes look for it.
fn is_installed(name: &str) -> bool {
    let mut folders = sandbox_host::PATH.split(':');
    folders.any(|folder| Path::new(folder).join(name).exists())
}

/// The folder of the host's Rust toolchain, if it has a compiler and a linker.
#[allow(dead_code, reason = "one of the two test programs needs it")]
pub fn rust_toolchain() -> Option<PathBuf> {
    let asked = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = String::from_utf8(asked.ok()?.stdout).ok()?;
    let sysroot = PathBuf::from(sysroot.trim());
    (sysroot.join("bin/rustc").exists() && is_installed("cc")).then_some(sysroot)
}

/// Whether cargo in /usr is 1.68 or newer.
pub fn has_sparse_cargo() -> bool {
    let asked = Command::new("cargo")
        .arg("--version")
        .env("PATH", "/usr/local/bin:/usr/bin")
        .output();
    let said = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned());
    let said = said.unwrap_or_default();
    let version = said.split(' ').nth(1).unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => is_installed("cargo") && (major, minor) >= (1, 68),
        _ => false,
    }
}

/// The folder that `SANDBOX_TEST_NODE` names, if this user can run its `node`.
pub fn node_for_typescript() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("SANDBOX_TEST_NODE")?);
    let asked = Command::new(folder.join("node")).arg("--version").output();
    asked
        .is_ok_and(|asked| asked.status.success())
        .then_some(folder)
}

/// Runs a future on a single-threaded runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

/// Runs a future on a runtime with two threads.
#[allow(dead_code, reason = "one of the two test programs needs it")]
pub fn block_on_threads<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

/// Runs the tests that the program's arguments select.
pub fn main(modules: &[&[Test]]) -> ExitCode {
    let arguments = Arguments::from_args();
    // Detect them here: the detection needs a runtime, and tests already run in one.
    namespaces();
    let only = arguments.filter.as_deref().filter(|_| arguments.exact);
    let mut checked = BTreeMap::new();
    let trials = modules.iter().copied().flatten().map(|test| {
        let module = test.module.split_once("::").map_or("", |(_, path)| path);
        let name = format!("{module}::{}", test.name);
        // The needs of tests that do not run are not checked: that can take a while.
        let selected = only.is_none_or(|only| only == name);
        let needs = test.needs.iter().filter(|_| selected);
        let reasons = needs
            .filter_map(|need| {
                checked
                    .entry(*need)
                    .or_insert_with(|| need.missing())
                    .clone()
            })
            .collect::<Vec<_>>();
        let run = test.run;
        let trial = Trial::test(name, move || {
            run();
            Ok(())
        });
        let missing = (!reasons.is_empty()).then(|| reasons.join(", "));
        ignored_if(trial, missing.as_deref())
    });
    let trials = trials.collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Describes a test: `sync` or `async` (`threads` for a runtime with threads), its function, and
/// what it needs.
macro_rules! test {
    (sync $name:ident $(, $need:expr)*) => {
        test!(@ $name, $name $(, $need)*)
    };
    (async $name:ident $(, $need:expr)*) => {
        test!(@ $name, || $crate::harness::block_on($name()) $(, $need)*)
    };
    (threads $name:ident $(, $need:expr)*) => {
        test!(@ $name, || $crate::harness::block_on_threads($name()) $(, $need)*)
    };
    (@ $name:ident, $run:expr $(, $need:expr)*) => {
        $crate::harness::Test {
            module: module_path!(),
            name: stringify!($name),
            run: $run,
            needs: &[$($need),*],
        }
    };
}
pub(crate) use test;
