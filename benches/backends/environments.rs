//! Contenders that start environments: sandboxes, containers and pods.

use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::processes::TRUE;
use crate::workload::{Contender, Measured, Timings, Workload, expect_bytes, transfer_size};

/// The file that is copied in and out.
pub const FILE: &str = "/tmp/file";

/// What starts environments, and runs programs in them.
pub trait Engine: Sized {
    /// A sandbox, container or pod that waits for programs.
    type Environment;

    /// The name in the report.
    fn name(backend: &'static str) -> &'static str;

    /// Fails unless the backend is available.
    async fn connect(backend: &'static str) -> Measured<Self>;

    /// Starts an environment.
    async fn create(&self) -> Measured<Self::Environment>;

    /// Runs a program to its end, and returns how many bytes it wrote to its standard output.
    async fn exec(&self, environment: &Self::Environment, program: &[&str]) -> Measured<usize>;

    /// Copies [`FILE`] in and out, and notes both durations.
    async fn copy(
        &self,
        environment: &Self::Environment,
        bytes: u64,
        timings: &mut Timings,
    ) -> Measured;

    /// Ends and removes an environment.
    async fn remove(&self, environment: &Self::Environment) -> Measured;

    /// Runs `true` in an environment of its own.
    async fn one_shot(&self) -> Measured {
        let environment = self.create().await?;
        let used = self.exec(&environment, &[TRUE]).await;
        used.map(drop).and(self.remove(&environment).await)
    }
}

/// The environments of one engine.
pub struct Environments<E: Engine> {
    backend: &'static str,
    pub connected: OnceCell<E>,
    warm: OnceCell<E::Environment>,
}

impl<E: Engine> Environments<E> {
    /// Connects when first needed.
    pub fn new(backend: &'static str) -> Self {
        Self {
            backend,
            connected: OnceCell::new(),
            warm: OnceCell::new(),
        }
    }

    /// The engine, connected.
    pub async fn engine(&self) -> Measured<&E> {
        let connect = || E::connect(self.backend);
        self.connected.get_or_try_init(connect).await
    }

    /// The environment that runs until the end of the benchmark.
    pub async fn warm(&self) -> Measured<&E::Environment> {
        let engine = self.engine().await?;
        self.warm.get_or_try_init(|| engine.create()).await
    }
}

#[async_trait(?Send)]
impl<E: Engine> Contender for Environments<E> {
    fn name(&self) -> &'static str {
        E::name(self.backend)
    }

    async fn run(&mut self, work: Workload, timings: &mut Timings) -> Measured {
        let (engine, bytes) = (self.engine().await?, transfer_size(self.backend));
        match work {
            Workload::OneShot => timings.time(work.measurement(), engine.one_shot()).await,
            Workload::Create => {
                let environment = timings.time("create", engine.create()).await?;
                timings.time("remove", engine.remove(&environment)).await
            }
            Workload::WarmExec => {
                let exec = engine.exec(self.warm().await?, &[TRUE]);
                timings.time(work.measurement(), exec).await.map(drop)
            }
            Workload::Output => {
                let program = ["head", "-c", &bytes.to_string(), "/dev/zero"];
                let exec = engine.exec(self.warm().await?, &program);
                expect_bytes(timings.time(work.measurement(), exec).await?, bytes)
            }
            Workload::Copy => {
                let environment = self.warm().await?;
                engine.copy(environment, bytes, timings).await?;
                engine.exec(environment, &["rm", FILE]).await.map(drop)
            }
            Workload::WarmCell | Workload::ForkedCell | Workload::Claim => {
                unreachable!("it supports none of them")
            }
        }
    }

    async fn finish(&mut self) -> Measured {
        match (self.connected.get(), self.warm.take()) {
            (Some(engine), Some(environment)) => engine.remove(&environment).await,
            _ => Ok(()),
        }
    }
}
