//! Sandboxes, through the library.

use std::io::Cursor;

use async_trait::async_trait;
use sandbox::spi::unique_name;
use sandbox::{
    ByteSize, Capability, CapabilityPolicy, CellRequest, ExecRequest, PoolSettings, SandboxClient,
    SandboxHandle, SandboxPool, SandboxSpec, Session, SessionRequest, Sessions as _,
};
use tokio::sync::OnceCell;

use crate::OPTIONS;
use crate::environments::{Engine, Environments, FILE};
use crate::pods;
use crate::processes::TRUE;
use crate::workload::{
    CELL, Contender, MeasureError, Measured, SANDBOX, Timings, Workload, expect_bytes,
    transfer_size,
};

/// The sandboxes of one backend under the default policy.
pub struct Sandboxes {
    backend: &'static str,
    client: SandboxClient,
}

impl Sandboxes {
    fn spec(&self) -> SandboxSpec {
        let spec = SandboxSpec::new(unique_name("bench"));
        match self.backend {
            "local" => spec,
            "k8s" => spec
                .image(&OPTIONS.image)
                .memory(pods::MEMORY)
                .cpus(pods::CPUS),
            _ => spec.image(&OPTIONS.image),
        }
    }
}

impl Engine for Sandboxes {
    type Environment = SandboxHandle;

    fn name(_backend: &'static str) -> &'static str {
        SANDBOX
    }

    async fn connect(backend: &'static str) -> Measured<Self> {
        let bytes = transfer_size(backend);
        let mut policy = CapabilityPolicy::new();
        policy.stdout_max_bytes = Some(ByteSize::bytes(bytes));
        if backend == "k8s" {
            // A cluster without network policies cannot enforce it in the profile `restricted`.
            policy.allow_unenforced = vec![Capability::NetworkAccess];
        } else {
            // Engines divide it between the folders that code may write.
            policy.disk = Some(ByteSize::bytes(3 * bytes + (16 << 20)));
        }
        let client = SandboxClient::open(backend, policy)?;
        Ok(Self { backend, client })
    }

    async fn create(&self) -> Measured<SandboxHandle> {
        Ok(self.client.create(&self.spec()).await?)
    }

    async fn exec(&self, sandbox: &SandboxHandle, program: &[&str]) -> Measured<usize> {
        let request = ExecRequest::new(program[0]).args(program[1..].iter().copied());
        let result = sandbox.exec(&request).await?;
        if !result.success() || result.incomplete.is_some() {
            let (outcome, stderr) = (&result.outcome, result.stderr_text());
            let reason = format!("{program:?}: {outcome:?}, standard error: {stderr:?}");
            return Err(MeasureError::Failed(reason));
        }
        Ok(result.stdout.bytes.len())
    }

    async fn copy(&self, sandbox: &SandboxHandle, bytes: u64, timings: &mut Timings) -> Measured {
        let upload = sandbox.upload(FILE, 0o600, Cursor::new(vec![7; bytes as usize]));
        timings.time("copy in", upload).await?;
        let download = sandbox.read_limited(FILE, ByteSize::bytes(bytes));
        let content = timings.time("copy out", download).await?;
        expect_bytes(content.len(), bytes)
    }

    async fn remove(&self, sandbox: &SandboxHandle) -> Measured {
        Ok(sandbox.kill().await?)
    }
}

/// The sandboxes of one backend, with its interpreters and its pool.
pub struct Library {
    sandboxes: Environments<Sandboxes>,
    /// The interpreter that runs until the end of the benchmark.
    session: OnceCell<Session>,
    pool: OnceCell<SandboxPool>,
}

impl Library {
    /// Does not connect yet.
    pub fn new(backend: &'static str) -> Self {
        Self {
            sandboxes: Environments::new(backend),
            session: OnceCell::new(),
            pool: OnceCell::new(),
        }
    }

    async fn claim(&self, timings: &mut Timings) -> Measured {
        let engine = self.sandboxes.engine().await?;
        let make = async || SandboxPool::new(&engine.client, &engine.spec(), PoolSettings::new(1));
        let pool = self.pool.get_or_try_init(make).await?;
        pool.filled().await?;
        let claimed = timings.time("claim", pool.claim()).await?;
        let exec = engine.exec(claimed.sandbox(), &[TRUE]);
        timings.time("claimed exec", exec).await?;
        Ok(claimed.end().await?)
    }

    async fn cell(&self, work: Workload, timings: &mut Timings) -> Measured {
        let sandbox = self.sandboxes.warm().await?;
        let request = SessionRequest::new("python").preload(OPTIONS.modules.clone());
        let start = || sandbox.session(request);
        let session = self.session.get_or_try_init(start).await?;
        let cell = async || {
            let cell = CellRequest::new(CELL);
            let cell = match work {
                Workload::ForkedCell => cell.forked(),
                _ => cell,
            };
            session.run(cell).await?.check().map(drop)
        };
        // Finds the caches as other contenders left them.
        cell().await?;
        timings.time(work.measurement(), cell()).await
    }
}

#[async_trait(?Send)]
impl Contender for Library {
    fn name(&self) -> &'static str {
        SANDBOX
    }

    fn supports(&self, _workload: Workload) -> bool {
        true
    }

    async fn run(&mut self, work: Workload, timings: &mut Timings) -> Measured {
        match work {
            Workload::Claim => self.claim(timings).await,
            Workload::WarmCell | Workload::ForkedCell => self.cell(work, timings).await,
            _ => self.sandboxes.run(work, timings).await,
        }
    }

    async fn finish(&mut self) -> Measured {
        self.session.take();
        if let Some(pool) = self.pool.take() {
            pool.close().await?;
        }
        self.sandboxes.finish().await?;
        if let Some(engine) = self.sandboxes.connected.get() {
            engine.client.settle().await;
        }
        Ok(())
    }
}
