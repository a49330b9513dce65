//! Compares each backend with bare processes, containers and pods: `cargo xtask bench`.
//!
//! Each round runs the sandbox and its reference tools one after the other, so a slower machine
//! slows all of them. Every second round reverses their order. The report gives medians, and the
//! median of the ratios within a round, each with a 95 % confidence interval. It does not judge
//! them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::Parser;

mod commands;
mod comparison;
mod engine_api;
mod environments;
mod library;
mod pods;
mod processes;
mod python;
mod report;
mod statistics;
mod workload;

use commands::{COMMANDS, ExecCommand};
use comparison::Comparison;
use environments::Environments;
use report::Report;
use workload::Workload;

/// Rounds of a full run. Slow workloads run in every fifth round or less often.
const ROUNDS: u32 = 200;

/// The backends, in the order of the report.
const BACKENDS: [&str; 4] = ["local", "docker", "podman", "k8s"];

/// Compare each backend with bare processes, containers and pods.
#[derive(Debug, Parser)]
struct BenchOptions {
    /// Run each workload once, by default on the local backend alone; print no times
    #[arg(long, conflicts_with = "iterations")]
    smoke: bool,
    /// Rounds to measure
    #[arg(long, value_name = "N", default_value_t = ROUNDS,
          value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Backends to measure, separated by commas: local, docker, podman, k8s
    #[arg(long, value_name = "BACKEND", value_delimiter = ',', value_parser = BACKENDS)]
    only: Vec<String>,
    /// A built program `sandbox`; its commands are measured beside bwrap and the engines' commands
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// A Python interpreter; llm-sandbox is measured if this interpreter can import it
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// The image of every container and pod
    #[arg(long, default_value = "python:3.11-slim")]
    image: String,
    /// Modules that sessions import before their cells, separated by commas
    #[arg(
        long,
        value_name = "MODULE",
        value_delimiter = ',',
        default_value = "json"
    )]
    modules: Vec<String>,
    /// Workloads to run, by their measurement, separated by commas: "warm cell", "forked cell"
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',',
          value_parser = Workload::ALL.map(Workload::measurement))]
    work: Vec<String>,
    /// Set by `cargo bench`. Without it, as under `cargo test`, the run is a smoke run
    #[arg(long, hide = true)]
    bench: bool,
}

/// What the command line chooses, for all contenders.
static OPTIONS: LazyLock<BenchOptions> = LazyLock::new(BenchOptions::parse);

impl BenchOptions {
    fn is_smoke(&self) -> bool {
        self.smoke || !self.bench
    }

    fn includes(&self, backend: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == backend)
    }
}

fn main() -> ExitCode {
    // A wrong option ends the program here.
    let is_smoke = OPTIONS.is_smoke();
    // One thread, as in the `sandbox` command.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let report = match runtime {
        Ok(runtime) => runtime.block_on(run()),
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match is_smoke {
        true => print!("{}", report.smoke_summary()),
        false => print!("{report}"),
    }
    match report.has_failures() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

async fn run() -> Report {
    let mut report = Report::new();
    let mut comparisons = Vec::new();
    for backend in BACKENDS.into_iter().filter(|tier| OPTIONS.includes(tier)) {
        if OPTIONS.is_smoke() && OPTIONS.only.is_empty() && backend != "local" {
            let reason = format!("smoke runs measure local alone; fix: --only {backend}");
            report.leave_out(backend, &reason);
        } else {
            comparisons.push(comparison(backend));
        }
    }
    if let Some(program) = &OPTIONS.program {
        let commands = COMMANDS.into_iter();
        for (label, tier) in commands.filter(|(_, tier)| OPTIONS.includes(tier)) {
            let comparison = Comparison::new(label).with(ExecCommand::sandbox(program, tier));
            comparisons.push(match tier {
                "local" => comparison.with(processes::Bwrap),
                engine => comparison.with(ExecCommand::engine(engine)),
            });
        }
    }
    // The first round fills caches and creates the warm sandboxes; it is not recorded.
    let (warm_up_rounds, rounds) = match OPTIONS.is_smoke() {
        true => (0, 1),
        false => (1, OPTIONS.iterations),
    };
    for round in 0..warm_up_rounds + rounds {
        let recorded_round = round.checked_sub(warm_up_rounds);
        for comparison in &mut comparisons {
            comparison
                .run_round(recorded_round, rounds, &mut report)
                .await;
        }
        if recorded_round.is_some_and(|round| round % 20 == 19) {
            eprintln!("{round} of {rounds} rounds");
        }
    }
    for comparison in comparisons {
        comparison.finish(&mut report).await;
    }
    report
}

/// The sandboxes of one backend and their reference tools.
fn comparison(backend: &'static str) -> Comparison {
    let comparison = Comparison::new(backend).with(library::Library::new(backend));
    match backend {
        "local" => comparison
            .with(processes::PlainProcess)
            .with(processes::Bwrap)
            .with(python::BareInterpreter::default()),
        "k8s" => comparison.with(Environments::<pods::BarePods>::new(backend)),
        "docker" => comparison
            .with(Environments::<engine_api::EngineApi>::new(backend))
            .with(python::LlmSandbox::new(false))
            .with(python::LlmSandbox::new(true)),
        _ => comparison.with(Environments::<engine_api::EngineApi>::new(backend)),
    }
}
