//! Sandboxes, through the library.

use std::io::Cursor;
use std::sync::Arc;

use async_trait::async_trait;
use sandbox::spi::unique_name;
use sandbox::{
    ByteSize, Capability, CapabilityPolicy, CellRequest, ExecRequest, PoolSettings, SandboxClient,
    SandboxHandle, SandboxPool, SandboxSpec, Session, SessionRequest, Sessions as _,
};

use crate::pods;
use crate::processes::TRUE;
use crate::workload::{
    CELL, Choices, Contender, MeasureError, SANDBOX, Timings, Workload, expect_bytes, timed,
};

/// The file that is copied in and out.
const FILE: &str = "/tmp/file";

/// The sandboxes of one backend under the default policy.
pub struct Library {
    backend: &'static str,
    /// How many bytes a transfer moves.
    bytes: u64,
    client: Option<SandboxClient>,
    warm: Option<Arc<SandboxHandle>>,
    session: Option<Session>,
    pool: Option<SandboxPool>,
}

impl Library {
    /// Does not connect yet.
    pub fn new(backend: &'static str, bytes: u64) -> Self {
        Self {
            backend,
            bytes,
            client: None,
            warm: None,
            session: None,
            pool: None,
        }
    }

    fn client(&mut self) -> Result<SandboxClient, MeasureError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let mut policy = CapabilityPolicy::new();
        policy.stdout_max_bytes = Some(ByteSize::bytes(self.bytes));
        if self.backend == "k8s" {
            // A cluster without network policies cannot enforce it in the profile `restricted`.
            policy.allow_unenforced = vec![Capability::NetworkAccess];
        } else {
            // Engines divide it between the folders that code may write.
            policy.disk = Some(ByteSize::bytes(3 * self.bytes + (16 << 20)));
        }
        let client = SandboxClient::open(self.backend, policy)?;
        Ok(self.client.insert(client).clone())
    }

    fn spec(&self) -> SandboxSpec {
        let spec = SandboxSpec::new(unique_name("bench"));
        let image = &Choices::get().image;
        match self.backend {
            "local" => spec,
            "k8s" => spec.image(image).memory(pods::MEMORY).cpus(pods::CPUS),
            _ => spec.image(image),
        }
    }

    /// The sandbox that runs until the end of the benchmark.
    async fn warm(&mut self) -> Result<Arc<SandboxHandle>, MeasureError> {
        if let Some(warm) = &self.warm {
            return Ok(Arc::clone(warm));
        }
        let warm = self.client()?.create(&self.spec()).await?;
        Ok(Arc::clone(self.warm.insert(Arc::new(warm))))
    }

    /// The interpreter that runs until the end of the benchmark.
    async fn session(&mut self) -> Result<&Session, MeasureError> {
        if self.session.is_none() {
            let request = SessionRequest::new("python").preload(Choices::get().modules.clone());
            self.session = Some(self.warm().await?.session(request).await?);
        }
        Ok(self.session.as_ref().expect("it has just been started"))
    }

    async fn copy(&mut self) -> Timings {
        let (sandbox, bytes) = (self.warm().await?, self.bytes);
        let content = Cursor::new(vec![7; bytes as usize]);
        let ((), copy_in) = timed(sandbox.upload(FILE, 0o600, content)).await?;
        let (content, copy_out) = timed(sandbox.read_limited(FILE, ByteSize::bytes(bytes))).await?;
        expect_bytes(content.len(), bytes)?;
        exec(&sandbox, &["rm", FILE], 0).await?;
        Ok(vec![("copy in", copy_in), ("copy out", copy_out)])
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

    async fn run(&mut self, workload: Workload) -> Timings {
        // This comes first, so that an unavailable backend is reported as such.
        let client = self.client()?;
        let spec = self.spec();
        let elapsed = match workload {
            Workload::OneShot => timed(one_shot(&client, &spec)).await?.1,
            Workload::Create => {
                let (sandbox, create) = timed(client.create(&spec)).await?;
                let ((), remove) = timed(sandbox.kill()).await?;
                return Ok(vec![("create", create), ("remove", remove)]);
            }
            Workload::Claim => {
                if self.pool.is_none() {
                    let pool = SandboxPool::new(&client, &spec, PoolSettings::new(1))?;
                    self.pool = Some(pool);
                }
                let pool = self.pool.as_ref().expect("it has just been made");
                pool.filled().await?;
                let (claimed, claim) = timed(pool.claim()).await?;
                let ((), exec) = timed(exec(claimed.sandbox(), &[TRUE], 0)).await?;
                claimed.end().await?;
                return Ok(vec![("claim", claim), ("claimed exec", exec)]);
            }
            Workload::WarmExec => {
                let sandbox = self.warm().await?;
                timed(exec(&sandbox, &[TRUE], 0)).await?.1
            }
            Workload::WarmCell | Workload::ForkedCell => {
                let session = self.session().await?;
                let cell = async || {
                    let cell = CellRequest::new(CELL);
                    let cell = match workload {
                        Workload::ForkedCell => cell.forked(),
                        _ => cell,
                    };
                    session.run(cell).await?.check().map(drop)
                };
                // Finds the caches as other contenders left them.
                cell().await?;
                timed(cell()).await?.1
            }
            Workload::Output => {
                let (sandbox, bytes) = (self.warm().await?, self.bytes);
                let program = ["head", "-c", &bytes.to_string(), "/dev/zero"];
                timed(exec(&sandbox, &program, bytes)).await?.1
            }
            Workload::Copy => return self.copy().await,
        };
        Ok(vec![(workload.measurement(), elapsed)])
    }

    async fn finish(&mut self) -> Result<(), MeasureError> {
        self.session = None;
        if let Some(pool) = self.pool.take() {
            pool.close().await?;
        }
        if let Some(warm) = self.warm.take() {
            warm.kill().await?;
        }
        if let Some(client) = &self.client {
            client.settle().await;
        }
        Ok(())
    }
}

async fn one_shot(client: &SandboxClient, spec: &SandboxSpec) -> Result<(), MeasureError> {
    let sandbox = client.create(spec).await?;
    exec(&sandbox, &[TRUE], 0).await?;
    sandbox.kill().await?;
    Ok(())
}

/// Runs a program that writes `bytes` bytes to its standard output.
async fn exec(sandbox: &SandboxHandle, program: &[&str], bytes: u64) -> Result<(), MeasureError> {
    let request = ExecRequest::new(program[0]).args(program[1..].iter().copied());
    let result = sandbox.exec(&request).await?;
    if !result.success() || result.incomplete.is_some() {
        let (outcome, stderr) = (&result.outcome, result.stderr_text());
        let reason = format!("{program:?}: {outcome:?}, standard error: {stderr:?}");
        return Err(MeasureError::Failed(reason));
    }
    expect_bytes(result.stdout.bytes.len(), bytes)
}
