//! Ours: sandboxes of one tier, through the library.

use std::time::Duration;

use sandbox::{
    ByteSize, CapabilityPolicy, Cpus, Error, ErrorKind, ExecRequest, ExecResult, SandboxClient,
    SandboxHandle, SandboxSpec, unique_name,
};

use super::{Stopwatch, echo, failed, nanoseconds};
use crate::case::{ECHOES, OUTPUT_BYTES, PROGRAM, TREE};
use crate::failure::{Failure, Result};
use crate::memory::{self, Footprint};
use crate::protocol::Sample;

/// The file that goes in and out.
const FILE: &str = "/tmp/file";

/// A new sandbox is idle after this long.
const SETTLING: Duration = Duration::from_millis(500);

/// How a tier is opened.
#[derive(Debug, Clone, Copy)]
enum Open {
    Named,
    #[cfg(feature = "k8s")]
    By(fn(CapabilityPolicy) -> sandbox::Result<SandboxClient>),
}

/// A tier under the default policy, opened when it is first needed.
#[derive(Debug)]
pub struct Tier {
    name: &'static str,
    built: bool,
    image: Option<&'static str>,
    size: Option<(ByteSize, Cpus)>,
    open: Open,
    client: Option<SandboxClient>,
    warm: Option<SandboxHandle>,
    opened: Option<SandboxHandle>,
}

impl Tier {
    /// The tier of this name, which this program was `built` with or not, with this image instead
    /// of its default one.
    pub fn new(name: &'static str, built: bool, image: Option<&'static str>) -> Self {
        Self {
            name,
            built,
            image,
            size: None,
            open: Open::Named,
            client: None,
            warm: None,
            opened: None,
        }
    }

    /// With sandboxes of this size instead of the default one.
    #[must_use]
    pub fn sized(mut self, memory: ByteSize, cpus: Cpus) -> Self {
        self.size = Some((memory, cpus));
        self
    }

    /// Opened like this instead of by its name.
    #[must_use]
    #[cfg(feature = "k8s")]
    pub fn on(mut self, open: fn(CapabilityPolicy) -> sandbox::Result<SandboxClient>) -> Self {
        self.open = Open::By(open);
        self
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

    /// Run Python's `print(1)` in a sandbox that runs.
    pub async fn python(&mut self) -> Result<Sample> {
        let sandbox = self.warm().await?;
        let request = ExecRequest::new("python3").args(["-c", PROGRAM]);
        let watch = Stopwatch::start();
        let result = sandbox.exec(&request).await.map_err(explain)?;
        let sample = watch.stop();
        expect_success(&result)?;
        Ok(sample)
    }

    /// Create a sandbox that stays.
    pub async fn open(&mut self) -> Result<Sample> {
        let (client, spec) = (self.client()?, self.spec());
        if let Some(earlier) = self.opened.take() {
            earlier.kill().await.map_err(explain)?;
        }
        let watch = Stopwatch::start();
        self.opened = Some(client.create(&spec).await.map_err(explain)?);
        Ok(watch.stop())
    }

    /// Kill that sandbox, which runs.
    pub async fn close(&mut self) -> Result<Sample> {
        if self.opened.is_none() {
            self.open().await?;
        }
        let opened = self
            .opened
            .take()
            .ok_or_else(|| failed("nothing is open"))?;
        let watch = Stopwatch::start();
        opened.kill().await.map_err(explain)?;
        Ok(watch.stop())
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
            ..Sample::default()
        })
    }

    /// Writes a file of [`OUTPUT_BYTES`] into a sandbox that runs.
    pub async fn put(&mut self) -> Result<Sample> {
        let sandbox = self.warm().await?;
        let content = vec![7_u8; OUTPUT_BYTES as usize];
        let watch = Stopwatch::start();
        let put = sandbox.put(FILE, 0o600, Box::new(std::io::Cursor::new(content)));
        put.await.map_err(explain)?;
        Ok(watch.stop())
    }

    /// Reads the file that [`Tier::put`] has left.
    pub async fn fetch(&mut self) -> Result<Sample> {
        let sandbox = self.warm().await?;
        let limit = OUTPUT_BYTES as usize;
        let watch = Stopwatch::start();
        let content = sandbox.fetch(FILE, limit).await.map_err(explain)?;
        let sample = watch.stop();
        if content.len() as u64 != OUTPUT_BYTES {
            return Err(failed(format!("received {} bytes", content.len())));
        }
        // So that the other operations have the memory.
        let removed = sandbox.exec(&ExecRequest::new("rm").arg(FILE)).await;
        expect_success(&removed.map_err(explain)?)?;
        Ok(sample)
    }

    /// Starts a tree in a sandbox of its own, and ends it.
    pub async fn kill_tree(&mut self) -> Result<Sample> {
        let mut policy = self.policy();
        policy.pids = Some(TREE + 50);
        let client = self.client_with(policy)?;
        let sandbox = client.create(&self.spec()).await.map_err(explain)?;
        let script = format!(
            "i=0; while [ $i -lt {TREE} ]; do setsid sleep 600 & i=$((i+1)); done; echo ready; wait"
        );
        let request = ExecRequest::shell(script);
        let started = sandbox.start(&request, sandbox::Stdin::Null).await;
        let mut execution = started.map_err(explain)?;
        loop {
            match execution.next().await.map_err(explain)? {
                Some(sandbox::ExecEvent::Stdout(_)) => break,
                Some(sandbox::ExecEvent::Exited(result)) => {
                    return Err(failed(format!("the tree did not grow: {result:?}")));
                }
                Some(_) => {}
                None => return Err(failed("the tree's end has no report")),
            }
        }
        let watch = Stopwatch::start();
        execution.kill().await;
        let result = execution.wait().await.map_err(explain)?;
        let sample = watch.stop();
        sandbox.kill().await.map_err(explain)?;
        if result.stragglers < TREE {
            return Err(failed(format!("a tree of {} only", result.stragglers)));
        }
        Ok(sample)
    }

    /// Makes `count` sandboxes that live at the same time, uses each once, looks at their memory, and ends them; the share of
    /// one. So many as `at_once` says are made, or ended, at the same time.
    pub async fn crowd(&mut self, count: u32, at_once: usize) -> Result<Sample> {
        let client = self.client()?;
        let names = (0..count).map(|_| self.spec()).collect::<Vec<_>>();
        let before = memory::below(std::process::id());
        let mut watch = Stopwatch::start();
        let mut crowd = Vec::with_capacity(names.len());
        for chunk in names.chunks(at_once) {
            let begun = chunk.iter().cloned().map(|spec| {
                let client = client.clone();
                tokio::spawn(async move { begin(&client, &spec).await })
            });
            for sandbox in begun.collect::<Vec<_>>() {
                crowd.push(sandbox.await.map_err(|panic| failed(panic.to_string()))??);
            }
        }
        watch.part("create and exec");
        let mut memory = memory::below(std::process::id());
        memory.retain(|pid, _| !before.contains_key(pid));
        // An engine's containers are not below this process.
        let memory = (!memory.is_empty())
            .then(|| memory.values().map(|process| process.proportional).sum())
            .flatten();
        watch.pass();
        while !crowd.is_empty() {
            let ended = crowd.drain(crowd.len().saturating_sub(at_once)..);
            let ended = ended
                .map(|sandbox| tokio::spawn(async move { sandbox.kill().await.map_err(explain) }));
            for end in ended.collect::<Vec<_>>() {
                end.await.map_err(|panic| failed(panic.to_string()))??;
            }
        }
        watch.part("kill");
        let mut sample = watch.stop();
        sample.memory = memory;
        Ok(sample.share(count))
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

    /// Ends the sandboxes that run.
    pub async fn end(self) -> Result<()> {
        let mut result = Ok(());
        for sandbox in self.warm.into_iter().chain(self.opened) {
            result = result.and(sandbox.kill().await.map_err(explain));
        }
        result
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
        let client = self.client_with(self.policy())?;
        Ok(self.client.insert(client).clone())
    }

    /// The default one, but for the room that large outputs and files take. Sandboxes of a size of their own have none for those.
    fn policy(&self) -> CapabilityPolicy {
        let mut policy = CapabilityPolicy::new();
        if self.size.is_none() {
            policy.stdout_max_bytes = Some(ByteSize::bytes(OUTPUT_BYTES));
            policy.disk = Some(ByteSize::bytes(OUTPUT_BYTES + (16 << 20)));
        }
        policy
    }

    fn client_with(&self, policy: CapabilityPolicy) -> Result<SandboxClient> {
        let client = match self.open {
            Open::Named => SandboxClient::open(self.name, policy),
            #[cfg(feature = "k8s")]
            Open::By(open) => open(policy),
        };
        client.map_err(explain)
    }

    fn spec(&self) -> SandboxSpec {
        let spec = SandboxSpec::new(unique_name("bench"));
        let spec = match self.image {
            Some(image) => spec.image(image),
            None => spec,
        };
        match self.size {
            Some((memory, cpus)) => spec.memory(memory).cpus(cpus),
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

async fn begin(client: &SandboxClient, spec: &SandboxSpec) -> Result<SandboxHandle> {
    let sandbox = client.create(spec).await.map_err(explain)?;
    let result = sandbox.exec(&program()).await.map_err(explain)?;
    expect_success(&result)?;
    Ok(sandbox)
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
