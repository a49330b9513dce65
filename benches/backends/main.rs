//! Compares each backend with bare processes, containers and pods: `cargo xtask bench`.
//!
//! Each round runs the sandbox and its reference tools one after the other, so a slower machine
//! slows all of them. Every second round reverses their order. The report gives medians, and the
//! median of the ratios within a round, each with a 95 % confidence interval. It does not judge
//! them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

mod commands;
mod comparison;
mod engine_api;
mod interpreter;
mod library;
mod llm_sandbox;
mod pods;
mod processes;
mod report;
mod statistics;
mod workload;

use commands::{COMMANDS, EngineCommand, SandboxCommand};
use comparison::Comparison;
use report::Report;
use workload::{Choices, Workload};

/// Rounds of a full run. Slow workloads run in every fifth round or less often.
const ROUNDS: u32 = 200;

/// The backends, in the order of the report.
const BACKENDS: [&str; 4] = ["local", "docker", "podman", "k8s"];

/// Compare each backend with bare processes, containers and pods.
#[derive(Debug, Parser)]
struct BackendsArguments {
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

fn main() -> ExitCode {
    let mut arguments = BackendsArguments::parse();
    arguments.smoke |= !arguments.bench;
    Choices {
        image: arguments.image.clone(),
        modules: arguments.modules.clone(),
        work: arguments.work.clone(),
    }
    .set();
    // One thread, as in the `sandbox` command.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let report = match runtime {
        Ok(runtime) => runtime.block_on(run(&arguments)),
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.smoke {
        print!("{}", report.smoke_summary());
    } else {
        print!("{report}");
    }
    if report.has_failures() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn run(arguments: &BackendsArguments) -> Report {
    let mut report = Report::new();
    let mut comparisons = Vec::new();
    for backend in BACKENDS {
        if !arguments.only.is_empty() {
            if !arguments.only.iter().any(|only| only == backend) {
                continue;
            }
        } else if arguments.smoke && backend != "local" {
            let fix = format!("--only {backend}");
            report.leave_out(
                backend,
                &format!("smoke runs measure local alone; fix: {fix}"),
            );
            continue;
        }
        comparisons.push(comparison(backend, arguments));
    }
    if let Some(program) = &arguments.program {
        let is_chosen =
            |tier| arguments.only.is_empty() || arguments.only.iter().any(|only| only == tier);
        let commands = COMMANDS.iter().filter(|(_, tier)| is_chosen(tier));
        comparisons.extend(commands.map(|(label, tier)| of_command(label, tier, program)));
    }
    // The first round fills caches and creates the warm sandboxes; it is not recorded.
    let (warm_up_rounds, rounds) = if arguments.smoke {
        (0, 1)
    } else {
        (1, arguments.iterations)
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

/// The command on one tier and its reference tool.
fn of_command(label: &'static str, tier: &'static str, program: &Path) -> Comparison {
    let command = SandboxCommand {
        program: program.to_owned(),
        tier,
        warm: None,
    };
    let comparison = Comparison::new(label, command, 0);
    match tier {
        "local" => comparison.against(processes::Bwrap),
        engine => comparison.against(EngineCommand {
            engine,
            container: None,
        }),
    }
}

/// The sandboxes of one backend and their reference tools.
fn comparison(backend: &'static str, arguments: &BackendsArguments) -> Comparison {
    let bytes = workload::transfer_size(backend, arguments.smoke);
    let comparison = Comparison::new(backend, library::Library::new(backend, bytes), bytes);
    match backend {
        "local" => comparison
            .against(processes::PlainProcess { bytes })
            .against(processes::Bwrap)
            .against(interpreter::BareInterpreter::default()),
        "k8s" => comparison.against(pods::BarePods::new(bytes)),
        "docker" => comparison
            .against(engine_api::EngineApi::new(backend, bytes))
            .against(llm_sandbox::LlmSandbox {
                python: arguments.python.clone(),
                interactive: None,
            })
            .against(llm_sandbox::LlmSandbox {
                python: arguments.python.clone(),
                interactive: Some(None),
            }),
        _ => comparison.against(engine_api::EngineApi::new(backend, bytes)),
    }
}
