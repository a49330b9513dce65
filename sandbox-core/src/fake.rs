//! A backend for tests of programs: it runs nothing and returns prepared answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::spi::{
    Adopt, Backend, Detached, Finding, Found, Input, Instance, OutputSink, OutputStream, Source,
};
use crate::{
    ArtifactLimits, Enforcement, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export,
    ImageInfo, ImageReference, Outcome, Plan, Refusal, Result, SandboxInfo, SandboxOwner,
    SandboxState,
};

/// The answer of a [`FakeBackend`] to one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeAnswer {
    /// How the execution ends.
    pub outcome: Outcome,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// What was refused to it, and how often.
    pub refused: Vec<(Refusal, u64)>,
}

impl FakeAnswer {
    /// Writes `text` to standard output and exits with code 0.
    pub fn stdout(text: impl Into<Vec<u8>>) -> Self {
        Self {
            outcome: Outcome::Exited { code: 0 },
            stdout: text.into(),
            stderr: Vec::new(),
            refused: Vec::new(),
        }
    }
}

type AnswerFn = dyn Fn(&ExecRequest) -> Result<FakeAnswer> + Send + Sync;

/// A sandbox that was created and has not ended.
#[derive(Debug)]
struct FakeSandbox {
    plan: Plan,
    created: SystemTime,
}

impl FakeSandbox {
    fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            created: SystemTime::now(),
        }
    }

    fn info(&self) -> SandboxInfo {
        let plan = &self.plan;
        let mut info = SandboxInfo::new(&plan.name, "fake", SandboxState::Running, self.created);
        let expires = plan.lifetime;
        info.expires = expires.and_then(|lifetime| self.created.checked_add(lifetime));
        info.labels.clone_from(&plan.labels);
        info.owner = (!plan.detached).then(SandboxOwner::this_process);
        info
    }
}

/// The sandboxes of a backend.
#[derive(Debug, Default)]
struct FakeSandboxes {
    detached: BTreeMap<String, FakeSandbox>,
    /// By a number, since their names need not be unique.
    attached: BTreeMap<u64, FakeSandbox>,
    created: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A backend that runs nothing.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use sandbox_core::fake::{FakeAnswer, FakeBackend};
/// use sandbox_core::{CapabilityPolicy, OneShot, SandboxClient};
///
/// let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("42\n")));
/// let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
/// assert!(client.run_python("print(6 * 7)", OneShot::default()).await?.success());
/// # Ok::<(), sandbox_core::Error>(()) }).unwrap();
/// ```
pub struct FakeBackend {
    answer: Arc<AnswerFn>,
    enforcement: Option<EnforcementReport>,
    seen: Arc<Mutex<Vec<ExecRequest>>>,
    sandboxes: Arc<Mutex<FakeSandboxes>>,
}

impl std::fmt::Debug for FakeBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeBackend").finish_non_exhaustive()
    }
}

impl FakeBackend {
    /// Answers every execution with `answer`, and reports every demand as enforced.
    pub fn new(
        answer: impl Fn(&ExecRequest) -> Result<FakeAnswer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            answer: Arc::new(answer),
            enforcement: None,
            seen: Arc::default(),
            sandboxes: Arc::default(),
        }
    }

    /// Returns this report for every plan.
    #[must_use]
    pub fn enforcing(mut self, report: EnforcementReport) -> Self {
        self.enforcement = Some(report);
        self
    }

    /// The requests that were executed so far. Call this before the backend is moved into a client.
    #[must_use]
    pub fn seen(&self) -> Arc<Mutex<Vec<ExecRequest>>> {
        Arc::clone(&self.seen)
    }

    fn instance(&self, plan: &Plan, attached: Option<u64>) -> Box<dyn Instance> {
        Box::new(FakeInstance {
            name: plan.name.clone(),
            attached,
            answer: Arc::clone(&self.answer),
            enforcement: self.report(plan),
            seen: Arc::clone(&self.seen),
            sandboxes: Arc::clone(&self.sandboxes),
        })
    }

    fn report(&self, plan: &Plan) -> EnforcementReport {
        self.enforcement.clone().unwrap_or_else(|| {
            let mut report = EnforcementReport::new();
            for demand in &plan.demands {
                report.set(demand.capability, Enforcement::enforced("fake"));
            }
            report
        })
    }
}

#[async_trait]
impl Backend for FakeBackend {
    fn name(&self) -> &str {
        "fake"
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        Ok(self.report(plan))
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let mut sandboxes = lock(&self.sandboxes);
        let sandbox = FakeSandbox::new(plan);
        if !plan.detached {
            sandboxes.created += 1;
            let number = sandboxes.created;
            sandboxes.attached.insert(number, sandbox);
            return Ok(self.instance(plan, Some(number)));
        }
        if sandboxes.detached.contains_key(&plan.name) {
            let context = format!("{:?} runs already", plan.name);
            let error = Error::new(ErrorKind::AlreadyExists, "create sandbox", context);
            return Err(error.on("fake"));
        }
        sandboxes.detached.insert(plan.name.clone(), sandbox);
        Ok(self.instance(plan, None))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(vec![("backend".into(), "fake".into())])
    }

    async fn attached(&self) -> Result<Vec<SandboxInfo>> {
        let sandboxes = lock(&self.sandboxes);
        Ok(sandboxes.attached.values().map(FakeSandbox::info).collect())
    }

    fn detached(&self) -> Option<&dyn Detached> {
        Some(self)
    }

    fn adoption(&self) -> Option<&dyn Adopt> {
        Some(self)
    }
}

#[async_trait]
impl Detached for FakeBackend {
    async fn get(&self, name: &str) -> Result<Found> {
        let sandboxes = lock(&self.sandboxes);
        let sandbox = sandboxes.detached.get(name);
        let sandbox = sandbox.ok_or_else(|| not_found(name))?;
        Ok(Found {
            plan: sandbox.plan.clone(),
            instance: self.instance(&sandbox.plan, None),
        })
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        let sandboxes = lock(&self.sandboxes);
        Ok(sandboxes.detached.values().map(FakeSandbox::info).collect())
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let removed = lock(&self.sandboxes).detached.remove(name);
        removed.map(drop).ok_or_else(|| not_found(name))
    }

    async fn prune(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Adopt for FakeBackend {
    async fn assess_adopted(&self, _container: &str, plan: &Plan) -> Result<EnforcementReport> {
        Ok(self.report(plan))
    }

    async fn adopt(&self, _container: &str, plan: &Plan) -> Result<Box<dyn Instance>> {
        Ok(self.instance(plan, None))
    }
}

fn not_found(name: &str) -> Error {
    let context = format!("no sandbox {name:?}");
    Error::new(ErrorKind::SandboxNotFound, "find sandbox", context).on("fake")
}

struct FakeInstance {
    name: String,
    /// The number of an attached sandbox.
    attached: Option<u64>,
    answer: Arc<AnswerFn>,
    enforcement: EnforcementReport,
    seen: Arc<Mutex<Vec<ExecRequest>>>,
    sandboxes: Arc<Mutex<FakeSandboxes>>,
}

impl Drop for FakeInstance {
    fn drop(&mut self) {
        if let Some(number) = self.attached {
            lock(&self.sandboxes).attached.remove(&number);
        }
    }
}

#[async_trait]
impl Instance for FakeInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.enforcement
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        _input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        lock(&self.seen).push(request.clone());
        let answer = (self.answer)(request)?;
        sink.started().await;
        for (stream, bytes) in [
            (OutputStream::Stdout, &answer.stdout),
            (OutputStream::Stderr, &answer.stderr),
        ] {
            if sink.write(stream, bytes).await == crate::spi::Flow::Stop {
                return Ok(ExecEnd::new(Outcome::OutputLimit));
            }
        }
        let mut end = ExecEnd::new(answer.outcome);
        end.refused = answer.refused;
        Ok(end)
    }

    async fn put(&self, _path: &str, _mode: u32, _content: Source) -> Result<()> {
        Err(crate::spi::unsupported("write file", "fake"))
    }

    async fn fetch(&self, _path: &str, _sink: &mut dyn OutputSink) -> Result<()> {
        Err(crate::spi::unsupported("read file", "fake"))
    }

    async fn export(
        &self,
        _paths: &[String],
        _folder: &Path,
        _limits: ArtifactLimits,
    ) -> Result<Export> {
        Err(crate::spi::unsupported("export artifacts", "fake"))
    }

    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        let mut image = ImageInfo::new(format!("sha256:{:064x}", 0));
        image.names.push(tag.to_string());
        Ok(image)
    }

    async fn logs(&self, _tail: Option<u32>) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn stop(&self, _grace: Duration) -> Result<()> {
        self.kill().await
    }

    async fn kill(&self) -> Result<()> {
        let mut sandboxes = lock(&self.sandboxes);
        match self.attached {
            Some(number) => sandboxes.attached.remove(&number),
            None => sandboxes.detached.remove(&self.name),
        };
        Ok(())
    }
}
