//! The operations, and what they keep between two calls.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::case::{Engine, Operation};
use crate::failure::{Failure, Result};
use crate::memory::Footprint;
use crate::protocol::Sample;

#[cfg(feature = "api")]
mod api;
mod client;
mod cluster;
mod echo;
mod engine;
mod plain;
mod python_client;
mod sandboxes;

use cluster::ClusterOperations;
use engine::EngineOperations;
use sandboxes::Tier;

/// The smallest test image, so that its size plays no part.
const BUSYBOX: &str = "sandbox-test/busybox:latest";
/// The image for what Python does.
const PYTHON: &str = "python:3.11-slim";

/// How many local sandboxes of a crowd are made, or ended, at the same time.
const LOCAL_AT_ONCE: usize = 8;

/// The programs that a worker calls.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Programs {
    /// The `sandbox` command to measure
    #[arg(long, value_name = "FILE")]
    pub sandbox: Option<PathBuf>,
    /// A Python that has llm-sandbox, to measure beside ours
    #[arg(long, value_name = "FILE")]
    pub python_client: Option<PathBuf>,
}

impl Programs {
    /// Tells a worker.
    pub fn tell(&self, command: &mut Command) {
        for (option, file) in [
            ("--sandbox", &self.sandbox),
            ("--python-client", &self.python_client),
        ] {
            if let Some(file) = file {
                command.arg(option).arg(file);
            }
        }
    }
}

/// Everything that a worker can do.
#[derive(Debug)]
pub struct Operations {
    programs: Programs,
    local: Tier,
    engines: BTreeMap<Engine, EngineOperations>,
    cluster: ClusterOperations,
}

impl Operations {
    /// Nothing is opened before the first operation that needs it.
    pub fn new(programs: Programs) -> Self {
        Self {
            local: Tier::new("local", cfg!(feature = "local"), None),
            engines: [Engine::Docker, Engine::Podman]
                .into_iter()
                .map(|engine| (engine, EngineOperations::new(engine, &programs)))
                .collect(),
            cluster: ClusterOperations::new(&programs),
            programs,
        }
    }

    /// Does `operation` once. What it needs beforehand is made without being timed.
    ///
    /// # Errors
    /// When this machine lacks what is measured, or when it fails.
    pub async fn run(&mut self, operation: Operation) -> Result<Sample> {
        match operation {
            Operation::Spawn => plain::spawn(),
            Operation::Bwrap => plain::bwrap(),
            Operation::Command => plain::command(self.programs.sandbox.as_deref()),
            Operation::OutputSpawn => plain::output(),
            Operation::EchoSpawn => plain::echo(),
            Operation::PythonSpawn => plain::python(),
            Operation::CopyFile => plain::copy(),
            Operation::Put => self.local.put().await,
            Operation::Fetch => self.local.fetch().await,
            Operation::KillTree => self.local.kill_tree().await,
            Operation::Crowd200 => self.local.crowd(200, LOCAL_AT_ONCE).await,
            Operation::Crowd1000 => self.local.crowd(1000, LOCAL_AT_ONCE).await,
            Operation::OneShot => self.local.one_shot().await,
            Operation::WarmExec => self.local.warm_exec().await,
            Operation::Python => self.local.python().await,
            Operation::Output => self.local.output().await,
            Operation::Echo => self.local.echo().await,
            Operation::Engine(engine, way, task) => {
                let operations = self.engines.get_mut(&engine);
                let operations =
                    operations.ok_or_else(|| failed(format!("unknown engine {engine:?}")))?;
                operations.run(way, task).await
            }
            Operation::Cluster(way, task) => self.cluster.run(way, task).await,
        }
    }

    /// The processes that one more idle local sandbox costs.
    ///
    /// # Errors
    /// As [`Operations::run`].
    pub async fn memory(&mut self) -> Result<Vec<Footprint>> {
        self.local.memory().await
    }

    /// Ends what is still running.
    ///
    /// # Errors
    /// When something cannot be ended.
    pub async fn end(self) -> Result<()> {
        let mut result = self.local.end().await.and(self.cluster.end().await);
        for operations in self.engines.into_values() {
            result = result.and(operations.end().await);
        }
        result
    }
}

/// Times a whole and its parts.
struct Stopwatch {
    begin: Instant,
    last: Instant,
    parts: Vec<(String, u64)>,
}

impl Stopwatch {
    fn start() -> Self {
        let begin = Instant::now();
        Self {
            begin,
            last: begin,
            parts: Vec::new(),
        }
    }

    fn part(&mut self, name: &str) {
        let now = Instant::now();
        self.parts
            .push((name.to_owned(), nanoseconds(now - self.last)));
        self.last = now;
    }

    /// What was done since the last part is not timed.
    fn pass(&mut self) {
        let now = Instant::now();
        self.begin += now - self.last;
        self.last = now;
    }

    fn stop(self) -> Sample {
        Sample {
            nanoseconds: nanoseconds(self.begin.elapsed()),
            parts: self.parts,
            memory: None,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn failed(what: impl Into<String>) -> Failure {
    Failure::Failed(what.into())
}
