//! A backend without a sandbox, for tests of programs that use one: it runs nothing, answers as it is told, and
//! enforces what it is told to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::spi::{Backend, Finding, Found, Input, Instance, OutputSink, OutputStream, Source};
use crate::{
    ArtifactLimits, Enforcement, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export,
    ImageInfo, ImageReference, Outcome, Plan, Refusal, Result, SandboxInfo, SandboxState,
};

/// What a [`FakeBackend`] answers to an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeAnswer {
    /// How it ends.
    pub outcome: Outcome,
    /// What it writes to standard output.
    pub stdout: Vec<u8>,
    /// What it writes to standard error.
    pub stderr: Vec<u8>,
    /// What it is refused, and how often.
    pub refused: Vec<(Refusal, u64)>,
}

impl FakeAnswer {
    /// Exits with code 0 after writing this.
    pub fn stdout(text: impl Into<Vec<u8>>) -> Self {
        Self {
            outcome: Outcome::Exited { code: 0 },
            stdout: text.into(),
            stderr: Vec::new(),
            refused: Vec::new(),
        }
    }
}

/// The detached sandboxes that were created and not ended.
type Kept = Mutex<BTreeMap<String, (Plan, SystemTime)>>;

fn lock(kept: &Kept) -> MutexGuard<'_, BTreeMap<String, (Plan, SystemTime)>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

type Answer = dyn Fn(&ExecRequest) -> Result<FakeAnswer> + Send + Sync;

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
/// assert!(client.run_python("print(6 * 7)", OneShot::default()).await?.ok());
/// # Ok::<(), sandbox_core::Error>(()) }).unwrap();
/// ```
pub struct FakeBackend {
    answer: Arc<Answer>,
    enforcement: Option<EnforcementReport>,
    seen: Arc<Mutex<Vec<ExecRequest>>>,
    kept: Arc<Kept>,
}

impl std::fmt::Debug for FakeBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeBackend").finish_non_exhaustive()
    }
}

impl FakeBackend {
    /// Answers every execution with `answer`, and says that every demand is enforced.
    pub fn new(
        answer: impl Fn(&ExecRequest) -> Result<FakeAnswer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            answer: Arc::new(answer),
            enforcement: None,
            seen: Arc::default(),
            kept: Arc::default(),
        }
    }

    /// Says this of every plan instead.
    #[must_use]
    pub fn enforcing(mut self, report: EnforcementReport) -> Self {
        self.enforcement = Some(report);
        self
    }

    /// What was executed so far. Stays readable after the backend was handed over: take it before.
    #[must_use]
    pub fn seen(&self) -> Arc<Mutex<Vec<ExecRequest>>> {
        Arc::clone(&self.seen)
    }

    fn instance(&self, plan: &Plan) -> Box<dyn Instance> {
        Box::new(FakeInstance {
            name: plan.name.clone(),
            answer: Arc::clone(&self.answer),
            enforcement: self.report(plan),
            seen: Arc::clone(&self.seen),
            kept: Arc::clone(&self.kept),
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
        if plan.detached {
            let mut kept = lock(&self.kept);
            if kept.contains_key(&plan.name) {
                let context = format!("{:?} runs already", plan.name);
                return Err(
                    Error::new(ErrorKind::AlreadyExists, "create sandbox", context).on("fake"),
                );
            }
            kept.insert(plan.name.clone(), (plan.clone(), SystemTime::now()));
        }
        Ok(self.instance(plan))
    }

    fn keeps_detached(&self) -> bool {
        true
    }

    async fn assess_adopted(&self, _container: &str, plan: &Plan) -> Result<EnforcementReport> {
        Ok(self.report(plan))
    }

    async fn adopt(&self, _container: &str, plan: &Plan) -> Result<Box<dyn Instance>> {
        Ok(self.instance(plan))
    }

    async fn get(&self, name: &str) -> Result<Found> {
        let kept = lock(&self.kept);
        let (plan, _) = kept.get(name).ok_or_else(|| not_found(name))?;
        Ok(Found {
            plan: plan.clone(),
            instance: self.instance(plan),
        })
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        let info = |(plan, created): &(Plan, SystemTime)| {
            let mut info = SandboxInfo::new(&plan.name, "fake", SandboxState::Running, *created);
            info.expires = plan
                .lifetime
                .and_then(|lifetime| created.checked_add(lifetime));
            info.labels.clone_from(&plan.labels);
            info
        };
        Ok(lock(&self.kept).values().map(info).collect())
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let removed = lock(&self.kept).remove(name);
        removed.map(drop).ok_or_else(|| not_found(name))
    }

    async fn prune(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(vec![("backend".into(), "fake".into())])
    }
}

fn not_found(name: &str) -> Error {
    let context = format!("no sandbox {name:?}");
    Error::new(ErrorKind::SandboxNotFound, "find sandbox", context).on("fake")
}

struct FakeInstance {
    name: String,
    answer: Arc<Answer>,
    enforcement: EnforcementReport,
    seen: Arc<Mutex<Vec<ExecRequest>>>,
    kept: Arc<Kept>,
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
        self.seen
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(request.clone());
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
        lock(&self.kept).remove(&self.name);
        Ok(())
    }
}
