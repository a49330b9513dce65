//! Ours: sandboxes of one tier, through the library.

use std::time::Duration;

use sandbox::{
    CapabilityPolicy, Error, ErrorKind, ExecRequest, ExecResult, SandboxClient, SandboxHandle,
    SandboxSpec, unique_name,
};

use super::{Stopwatch, echo, failed, nanoseconds};
use crate::case::{ECHOES, OUTPUT_BYTES};
use crate::failure::{Failure, Result};
use crate::memory::{self, Footprint};
use crate::protocol::Sample;

/// A new sandbox is idle after this long.
const SETTLING: Duration = Duration::from_millis(500);

/// A tier under the default policy, opened when it is first needed.
#[derive(Debug)]
pub struct Tier {
    name: &'static str,
    built: bool,
    image: Option<&'static str>,
    client: Option<SandboxClient>,
    warm: Option<SandboxHandle>,
}

impl Tier {
    /// The tier of this name, which this program was `built` with or not, with this image instead
    /// of its default one.
    pub fn new(name: &'static str, built: bool, image: Option<&'static str>) -> Self {
        Self {
            name,
            built,
            image,
            client: None,
            warm: None,
        }
    }

    /// Create, run `true`, kill.
    pub async fn one_shot(&mut self) -> Result<Sample> {
        let (client, spec) = (self.client()?, self.spec());
        let mut watch = Stopwatch::start();
        let sandbox = client.create(&spec).await.map_err(explain)?;
        watch.part("create");
        let result = sandbox.exec(&program()).await.map_err(explain)?;
        watch.part("exec");
        sandbox.kill().await.map_err(explain)?;
        watch.part("kill");
        let sample = watch.stop();
        expect_success(&result)?;
        Ok(sample)
    }

    /// Run `true` in a sandbox that runs.
    pub async fn warm_exec(&mut self) -> Result<Sample> {
        let sandbox = self.warm().await?;
        let request = program();
        let watch = Stopwatch::start();
        let result = sandbox.exec(&request).await.map_err(explain)?;
        let sample = watch.stop();
        expect_success(&result)?;
        Ok(sample)
    }

    /// Receive [`OUTPUT_BYTES`] from a program.
    pub async fn output(&mut self) -> Result<Sample> {
        let sandbox = self.warm().await?;
        let request = ExecRequest::new("head").args(["-c", &OUTPUT_BYTES.to_string(), "/dev/zero"]);
        let watch = Stopwatch::start();
        let result = sandbox.exec(&request).await.map_err(explain)?;
        let sample = watch.stop();
        expect_success(&result)?;
        if result.stdout.bytes.len() as u64 != OUTPUT_BYTES {
            return Err(failed(format!(
                "received {} bytes",
                result.stdout.bytes.len()
            )));
        }
        Ok(sample)
    }

    /// A byte to `cat` and back.
    pub async fn echo(&mut self) -> Result<Sample> {
        let (result, total) = echo::exchange(self.warm().await?, ECHOES).await?;
        expect_success(&result)?;
        Ok(Sample {
            nanoseconds: nanoseconds(total) / u64::from(ECHOES),
            parts: Vec::new(),
        })
    }

    /// The processes that one more idle sandbox costs.
    pub async fn memory(&mut self) -> Result<Vec<Footprint>> {
        let (client, spec) = (self.client()?, self.spec());
        let before = memory::below(std::process::id());
        let sandbox = client.create(&spec).await.map_err(explain)?;
        let result = sandbox.exec(&program()).await.map_err(explain)?;
        tokio::time::sleep(SETTLING).await;
        let mut after = memory::below(std::process::id());
        sandbox.kill().await.map_err(explain)?;
        expect_success(&result)?;
        after.retain(|pid, _| !before.contains_key(pid));
        Ok(after.into_values().collect())
    }

    /// Ends the sandbox that runs.
    pub async fn end(self) -> Result<()> {
        match self.warm {
            Some(sandbox) => sandbox.kill().await.map_err(explain),
            None => Ok(()),
        }
    }

    fn client(&mut self) -> Result<SandboxClient> {
        if !self.built {
            return Err(Failure::Missing(format!(
                "built without the feature {}",
                self.name
            )));
        }
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = SandboxClient::open(self.name, CapabilityPolicy::new()).map_err(explain)?;
        Ok(self.client.insert(client).clone())
    }

    fn spec(&self) -> SandboxSpec {
        let spec = SandboxSpec::new(unique_name("bench"));
        match self.image {
            Some(image) => spec.image(image),
            None => spec,
        }
    }

    async fn warm(&mut self) -> Result<&SandboxHandle> {
        if self.warm.is_none() {
            let (client, spec) = (self.client()?, self.spec());
            self.warm = Some(client.create(&spec).await.map_err(explain)?);
        }
        self.warm.as_ref().ok_or_else(|| failed("no sandbox runs"))
    }
}

fn program() -> ExecRequest {
    ExecRequest::new("/bin/true")
}

fn expect_success(result: &ExecResult) -> Result<()> {
    if result.ok() && !result.truncated() && result.incomplete.is_none() {
        return Ok(());
    }
    Err(failed(format!(
        "{:?}, stderr: {:?}",
        result.outcome,
        result.stderr_text()
    )))
}

fn explain(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::SandboxUnavailable => Failure::Missing(error.to_string()),
        _ => failed(error.to_string()),
    }
}
